"""The transactional ids of one subtask and their states: an immutable state machine.

An EndTxn names an id, a producer and an epoch, not a transaction. For these three to name one
transaction for ever, an id is initialised again for each transaction, but only when no commit of
the last one can be requested any more: initialising would abort it, or make it look lost.

| slot      | opens    | prepares | is committed | a barrier comes |
|-----------|----------|----------|--------------|-----------------|
| free      | open     | -        | -            | free            |
| open      | -        | prepared | -            | -               |
| prepared  | -        | -        | committed    | prepared        |
| committed | -        | -        | committed    | free            |

A barrier follows the durable record that output committed before it is committed; the checkpoint
that named the transaction is not needed any more. Only then is an id free again, not already at its
commit. Failed checkpoints leave any number of slots prepared, so a pool grows when no slot is free;
the new id is durably recorded before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

SlotState: TypeAlias = Literal["free", "open", "prepared", "committed"]

INITIAL_SLOTS = 3
"""The initial number of slots, enough for consecutive checkpoints: open, prepared, spare."""


@dataclass(frozen=True, slots=True)
class SlotPool:
    """The state of each slot."""

    slots: tuple[SlotState, ...]

    @classmethod
    def of_size(cls, size: int) -> SlotPool:
        """Return a pool of free slots, none with a transaction to commit."""
        slots: list[SlotState] = ["free"] * size
        return cls(tuple(slots))

    @property
    def free_slot(self) -> int | None:
        """A free slot, if there is one."""
        return self.slots.index("free") if "free" in self.slots else None

    def with_one_more(self) -> SlotPool:
        """Return the pool with one more free slot."""
        return SlotPool((*self.slots, "free"))

    def open_slot(self, at: int) -> SlotPool:
        """Return the pool after a transaction was opened in the slot."""
        return self._change_state(at, "free", "open")

    def free_committed(self) -> SlotPool:
        """Return the pool after a barrier, which frees the committed slots."""
        after: list[SlotState] = ["free" if slot == "committed" else slot for slot in self.slots]
        return SlotPool(tuple(after))

    def prepare_slot(self, at: int) -> SlotPool:
        """Return the pool after a transaction was prepared, so that a checkpoint may name it."""
        return self._change_state(at, "open", "prepared")

    def commit_slot(self, at: int) -> SlotPool:
        """Return the pool after a commit of the slot's transaction, which may be repeated."""
        if self.slots[at] == "committed":
            return self
        return self._change_state(at, "prepared", "committed")

    def _change_state(self, at: int, before: SlotState, after: SlotState) -> SlotPool:
        assert self.slots[at] == before, f"slot {at} is {self.slots[at]}, wanted {before}"
        return SlotPool((*self.slots[:at], after, *self.slots[at + 1 :]))
