"""The record of the transactional ids that a sink may use: durable before any of them is.

So whoever begins after a crash knows all that a dead attempt may have left open, also at another
parallelism, and aborts it by initialising the ids: a transaction that nobody ends keeps readers
waiting until the broker gives it up. The record outlives the job, so `--fresh` does that for the
job before it.
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

    def id(self, subtask: int, slot: int) -> str:
        """A transactional id, which no other slot, sink or job has."""
        return f"headrace-{self.job}-{self.sink}-{subtask}-{slot}"

    def ids(self) -> Iterator[str]:
        """All of them."""
        for subtask in range(self.subtasks):
            for slot in range(self.slots):
                yield self.id(subtask, slot)

    def grown(self) -> Record:
        """With a slot more for each subtask."""
        return replace(self, slots=self.slots + 1)

    def document(self) -> Document:
        """As it is noted."""
        return {
            "job": self.job,
            "sink": self.sink,
            "subtasks": self.subtasks,
            "slots": self.slots,
        }


def read(document: Document) -> Record:
    """What was noted."""
    return Record(
        str(document["job"]),
        str(document["sink"]),
        int(str(document["subtasks"])),
        int(str(document["slots"])),
    )
