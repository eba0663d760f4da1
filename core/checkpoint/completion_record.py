"""The completion record of a job: the newest checkpoint whose output may be committed.

It is written between the manifest of a checkpoint and the commit of its output. So no output of a
checkpoint with a higher number is committed, and a job that resumes from the recorded checkpoint,
or from a newer one, writes no row twice. If none of these has a manifest any more, the job does not
resume by itself: an older checkpoint would repeat output (decision 0024).

A user may go back to an older checkpoint. The record then says to which, and which newer ones are
abandoned, before their manifests are removed; the next checkpoint is none of these, and its record
replaces this one. Homes of earlier versions have no such record, only the commit record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from headrace.core.api.snapshots import Manifest
from headrace.core.api.state import Document
from headrace.core.checkpoint.counters import JobCounters, PartCounters
from headrace.core.types.lazy_dataclass import dataclass

FRESH_HINT = "--fresh starts from scratch, and repeats all output"


@dataclass(frozen=True, slots=True)
class CheckpointReturn:
    """A deliberate return to an older checkpoint."""

    number: int
    """The checkpoint to resume from."""
    abandoned: int
    """The last of the newer checkpoints, none of which may be resumed from."""


@dataclass(frozen=True, slots=True)
class CompletionRecord:
    """The content of the record; `number` is 0 before the first checkpoint."""

    number: int = 0
    taken_at: str = ""
    rows: Mapping[str, int] = field(default_factory=dict)
    """The number of rows that each sink had received at the checkpoint."""
    going_back: CheckpointReturn | None = None

    @classmethod
    def from_document(cls, document: Document) -> CompletionRecord:
        """Parse the stored form."""
        content: Any = document
        back = content.get("returned")
        return cls(
            content.get("checkpoint", 0),
            content.get("time", ""),
            content.get("rows", {}),
            CheckpointReturn(back["to"], back["abandoned"]) if back else None,
        )

    def to_document(self) -> dict[str, object]:
        """Return the stored form."""
        back = self.going_back
        returned = back and {"to": back.number, "abandoned": back.abandoned}
        return {
            "checkpoint": self.number,
            "time": self.taken_at,
            "rows": dict(self.rows),
            "returned": returned,
        }

    def include_committed(self, number: int) -> CompletionRecord:
        """Return the record that also covers a checkpoint whose output is known to be committed.

        Only homes of other versions have a commit record that is newer than this record.
        """
        if number <= self.number:
            return self
        back = self.going_back
        return CompletionRecord(number, going_back=back if number <= self.highest else None)

    @property
    def highest(self) -> int:
        """The highest number that is no longer free."""
        return max(self.number, self.going_back.abandoned if self.going_back else 0)

    @property
    def resume_floor(self) -> int:
        """The oldest checkpoint from which a job resumes by itself; 0: it may start from scratch.

        >>> CompletionRecord(7).resume_floor
        7
        >>> CompletionRecord(7, going_back=CheckpointReturn(5, 7)).resume_floor
        5
        """
        return self.going_back.number if self.going_back else self.number

    def find_newest(self, numbers: Iterable[int]) -> int:
        """Return the newest of these checkpoints that is not abandoned, 0 if there is none.

        >>> back = CompletionRecord(7, going_back=CheckpointReturn(5, 7))
        >>> back.find_newest([4, 5, 6, 7]), back.find_newest([5, 8]), back.find_newest([])
        (5, 8, 0)
        """
        back = self.going_back or CheckpointReturn(0, 0)
        return max((n for n in numbers if not back.number < n <= back.abandoned), default=0)

    def return_to(self, number: int, newest: int) -> CompletionRecord:
        """Return the record of a return to a checkpoint; `newest` is the newest with a manifest."""
        highest = max(self.highest, newest)
        back = CheckpointReturn(number, highest) if number < highest else None
        return replace(self, going_back=back)

    def describe_missing(self, newest: int, committed: int) -> str:
        """Describe the loss of all checkpoints to resume from.

        `newest` is the newest checkpoint with a manifest, `committed` that of the commit record.

        >>> CompletionRecord(7).describe_missing(5, 7)
        "checkpoint 7's output is committed, but its manifest is gone; the newest manifest is 5"
        >>> CompletionRecord(7).describe_missing(0, 6)
        "checkpoint 7's output may be committed, but its manifest is gone, as are all others"
        """
        number = self.resume_floor
        known = "is" if number <= committed else "may be"
        others = f"; the newest manifest is {newest}" if newest else ", as are all others"
        return f"checkpoint {number}'s output {known} committed, but its manifest is gone{others}"


def build_completion_record(number: int, document: Manifest) -> CompletionRecord:
    """Build the record of a checkpoint from its manifest."""
    content: Any = document
    return CompletionRecord(number, content["time"], count_sink_rows(document))


def count_sink_rows(document: Manifest) -> dict[str, int]:
    """Return the number of rows that each sink had received, by a manifest."""
    content: Any = document
    parts = JobCounters.from_document(content["counts"]).parts
    return {sink: parts.get(sink, PartCounters()).rows_in for sink in content["sinks"]}


def count_repeated_rows(document: Manifest, known: Mapping[str, int]) -> dict[str, int]:
    """Return the rows by sink that were written after a manifest, of all that are known of."""
    before = count_sink_rows(document)
    return {n: rows - before.get(n, 0) for n, rows in known.items() if rows > before.get(n, 0)}


def format_rows(rows: Mapping[str, int]) -> str:
    """Format the upper bounds of rows by sink.

    >>> format_rows({"out": 1200, "late": 1})
    'up to 1,200 of out, 1 of late'
    """
    return "up to " + ", ".join(f"{count:,} of {sink}" for sink, count in rows.items())


def offer_ways_on(
    record: CompletionRecord, whole: int | None, repeated: Mapping[str, int] | None
) -> str:
    """Offer the ways to run a job whose newest checkpoint is lost, and say what each repeats.

    `whole` is the newest checkpoint to go back to, if there is one; `repeated` are the rows that
    are then written again, if they are known.

    >>> offer_ways_on(CompletionRecord(7, rows={"out": 9}), 5, {"out": 2})
    '--from-checkpoint 5 writes rows after checkpoint 5 a second time: up to 2 of out; \
--fresh starts from scratch, and repeats all output: up to 9 of out'
    """
    ways = []
    if whole:
        back = f"--from-checkpoint {whole} writes rows after checkpoint {whole} a second time"
        ways.append(f"{back}: {format_rows(repeated)}" if repeated else back)
    ways.append(f"{FRESH_HINT}: {format_rows(record.rows)}" if record.rows else FRESH_HINT)
    return "; ".join(ways)
