"""The transactional ids of one subtask, and which of them may be used: a state machine, immutable.

An EndTxn names an id, a producer and an epoch, not a transaction. So that these three name one
transaction for ever, an id is initialised anew for each, and not before nobody will ask for the
last one's commit any more: initialising it would abort it, or make it look lost.

| slot      | opens    | prepares | is committed | a barrier comes |
|-----------|----------|----------|--------------|-----------------|
| free      | open     | -        | -            | free            |
| open      | -        | prepared | -            | -               |
| prepared  | -        | -        | committed    | prepared        |
| committed | -        | -        | committed    | free            |

A barrier comes behind the durable note that what was committed before it is visible, and the
checkpoint that named it is asked for nothing any more: that is when an id is free again, and not
already when it is committed. Checkpoints that fail leave any number of slots prepared, so a pool
grows when none is free; the new id is on durable record before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Slot: TypeAlias = Literal["free", "open", "prepared", "committed"]

FIRST = 3
"""With so many, two checkpoints can follow each other: one open, one prepared, one to spare."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The state of each slot."""

    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, size: int) -> Pool:
        """All free: each was initialised, and nothing is to be committed of any."""
        slots: list[Slot] = ["free"] * size
        return cls(tuple(slots))

    @property
    def free(self) -> int | None:
        """One that may be opened."""
        return self.slots.index("free") if "free" in self.slots else None

    def grown(self) -> Pool:
        """With one more."""
        return Pool((*self.slots, "free"))

    def opened(self, at: int) -> Pool:
        """A transaction begins."""
        return self._moved(at, "free", "open")

    def barrier(self) -> Pool:
        """A barrier has come: what was committed before is decided for ever."""
        after: list[Slot] = ["free" if slot == "committed" else slot for slot in self.slots]
        return Pool(tuple(after))

    def prepared(self, at: int) -> Pool:
        """A checkpoint may name the transaction from now on."""
        return self._moved(at, "open", "prepared")

    def committed(self, at: int) -> Pool:
        """Its transaction is committed; also once more."""
        if self.slots[at] == "committed":
            return self
        return self._moved(at, "prepared", "committed")

    def _moved(self, at: int, before: Slot, after: Slot) -> Pool:
        assert self.slots[at] == before, f"slot {at} is {self.slots[at]}, wanted {before}"
        return Pool((*self.slots[:at], after, *self.slots[at + 1 :]))
