"""The durable record of a sink's transactional ids, written before any of them is used.

An attempt after a crash therefore knows all transactions that a failed attempt may have left open,
also at another parallelism, and ends them: an open transaction keeps readers waiting until it times
out at the broker. The record outlives the job, so `--fresh` ends those of the job before it.

Each attempt has ids of its own, by its generation, which is in the record. A broker may report a
transaction as aborted before it has notified any of its partitions; the next writes of the same
producer there would join that transaction, and commit it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from headrace.core.state import Document


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
    """Parse a stored record."""
    return TransactionalIds(
        str(document["job"]),
        str(document["sink"]),
        int(str(document["subtasks"])),
        int(str(document["slots"])),
        int(str(document.get("generation", 0))),
    )
