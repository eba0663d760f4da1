"""The record of the transactional ids that a sink may use: durable before any of them is.

So whoever begins after a crash knows all that a dead attempt may have left open, also at another
parallelism, and ends it: a transaction that nobody ends keeps readers waiting until the broker
gives it up. The record outlives the job, so `--fresh` does that for the job before it.

Each attempt has ids of its own: they are of its generation, which stands in the record. A broker
may say that a transaction is aborted, and have told none of its partitions; what the same producer
writes there next would be one with it, and commit it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from headrace.core.state import Document


@dataclass(frozen=True, slots=True)
class Record:
    """The ids of a job's sink: so many subtasks, with so many slots each."""

    job: str
    sink: str
    subtasks: int
    slots: int
    generation: int = 0

    def id(self, subtask: int, slot: int) -> str:
        """A transactional id, which no other slot, attempt, sink or job has."""
        return f"headrace-{self.job}-{self.sink}-{self.generation}-{subtask}-{slot}"

    def ids(self) -> Iterator[str]:
        """All of them."""
        for subtask in range(self.subtasks):
            for slot in range(self.slots):
                yield self.id(subtask, slot)

    def grown(self) -> Record:
        """With a slot more for each subtask."""
        return replace(self, slots=self.slots + 1)

    def behind(self, last: Record) -> Record:
        """For an attempt that comes after the one that wrote `last`."""
        return replace(self, generation=last.generation + 1)

    def document(self) -> Document:
        """As it is noted."""
        return {
            "job": self.job,
            "sink": self.sink,
            "subtasks": self.subtasks,
            "slots": self.slots,
            "generation": self.generation,
        }


def read(document: Document) -> Record:
    """What was noted."""
    return Record(
        str(document["job"]),
        str(document["sink"]),
        int(str(document["subtasks"])),
        int(str(document["slots"])),
        int(str(document.get("generation", 0))),
    )
