"""The transactional ids of a sink: their durable record, and the states of a subtask's ids.

The record is written before any of the ids is used. An attempt after a crash therefore knows all
transactions that a failed attempt may have left open, also at another parallelism, and ends them:
an open transaction keeps readers waiting until it times out at the broker. The record outlives the
job, so `--fresh` ends those of the job before it. Each attempt has ids of its own, by its
generation, which is in the record: a broker may report a transaction as aborted before it has
notified any of its partitions, and the next writes of the same producer there would join that
transaction, and commit it.

The ids of a subtask are an immutable state machine. An EndTxn names an id, a producer and an epoch,
not a transaction. For these three to name one transaction for ever, an id is initialised again for
each transaction, but only when no commit of the last one can be requested any more: initialising
would abort it, or make it look lost.

| slot      | allocated | committed | commits are recorded |
|-----------|-----------|-----------|----------------------|
| free      | open      | -         | free                 |
| open      | -         | committed | open                 |
| committed | -         | committed | free                 |

Once it is durably recorded that the output of a checkpoint is committed, the checkpoint that named
the transaction is not needed any more. Only then is an id free again, not already at its commit.
Failed checkpoints leave any number of slots open, so a pool grows when no slot is free; the new id
is durably recorded before it is used. An open slot is never allocated again, whatever becomes of
its writer: nobody else can know whether a checkpoint names its transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

from headrace.connectors.kafka.stored_documents import TransactionalIdsNote
from headrace.core.api.state import Document
from headrace.core.api.stored_documents import convert_document
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TransactionalIds:
    """The ids of a job's sink: the number of subtasks, and of slots per subtask."""

    job: str
    sink: str
    subtasks: int
    slots: int
    generation: int = 0

    def format_id(self, subtask: int, slot: int) -> str:
        """Return a transactional id, unique to the slot, attempt, sink and job."""
        return f"headrace-{self.job}-{self.sink}-{self.generation}-{subtask}-{slot}"

    def iterate_ids(self) -> Iterator[str]:
        """Yield all transactional ids."""
        for subtask in range(self.subtasks):
            for slot in range(self.slots):
                yield self.format_id(subtask, slot)

    def with_one_more_slot(self) -> TransactionalIds:
        """Return the record with one more slot for each subtask."""
        return replace(self, slots=self.slots + 1)

    def with_next_generation(self, last: TransactionalIds) -> TransactionalIds:
        """Return the record for the attempt after the one that wrote `last`."""
        return replace(self, generation=last.generation + 1)

    def to_document(self) -> Document:
        """Return the record as a document to store."""
        return {
            "job": self.job,
            "sink": self.sink,
            "subtasks": self.subtasks,
            "slots": self.slots,
            "generation": self.generation,
        }


def parse_ids(document: Document) -> TransactionalIds:
    """Parse a stored record. Raises MalformedDocument."""
    note = convert_document(document, TransactionalIdsNote)
    return TransactionalIds(note.job, note.sink, note.subtasks, note.slots, note.generation)


SlotState: TypeAlias = Literal["free", "open", "committed"]


INITIAL_SLOTS = 3
"""The initial number of slots, enough for consecutive checkpoints: written, prepared, spare."""


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

    @property
    def open_slots(self) -> tuple[int, ...]:
        """The slots that are open."""
        return tuple(slot for slot, state in enumerate(self.slots) if state == "open")

    def with_one_more(self) -> SlotPool:
        """Return the pool with one more free slot."""
        return SlotPool((*self.slots, "free"))

    def open_slot(self, at: int) -> SlotPool:
        """Return the pool after the slot was allocated to a transaction."""
        return self._change_state(at, "free", "open")

    def free_committed(self) -> SlotPool:
        """Return the pool after the commits so far were recorded, with committed slots free."""
        after: list[SlotState] = ["free" if slot == "committed" else slot for slot in self.slots]
        return SlotPool(tuple(after))

    def commit_slot(self, at: int) -> SlotPool:
        """Return the pool after a commit of the slot's transaction, which may be repeated."""
        if self.slots[at] == "committed":
            return self
        return self._change_state(at, "open", "committed")

    def _change_state(self, at: int, before: SlotState, after: SlotState) -> SlotPool:
        assert self.slots[at] == before, f"slot {at} is {self.slots[at]}, wanted {before}"
        return SlotPool((*self.slots[:at], after, *self.slots[at + 1 :]))
