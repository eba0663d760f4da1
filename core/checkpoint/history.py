"""The history of a run: its last checkpoints, their durations and their sizes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import field

from headrace.core.api.snapshots import find_blobs
from headrace.core.coordination.messages import CheckpointCompleted, CheckpointFailed
from headrace.core.types.lazy_dataclass import dataclass

MAX_RECORDS = 20


@dataclass(frozen=True, slots=True)
class CheckpointPauses:
    """The longest times for which a checkpoint held up a subtask."""

    alignment_s: float = 0.0
    """The time in which some of its inputs waited for the barriers of others."""
    sync_s: float = 0.0
    """The time in which it took its snapshot and prepared its output, and read nothing."""


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """One checkpoint of the history. A failed one has no sizes, and a reason."""

    number: int
    triggered_us: int
    """The wall-clock time at which it was begun."""
    seconds: float
    new_bytes: int | None = None
    """The number of bytes that it added to the store."""
    total_bytes: int | None = None
    """The number of bytes that it consists of, including those written by earlier checkpoints."""
    pauses: CheckpointPauses | None = None
    failure_reason: str = ""

    @property
    def is_failed(self) -> bool:
        """Whether the checkpoint failed."""
        return bool(self.failure_reason)


@dataclass(slots=True)
class CheckpointHistory:
    """The latest checkpoints, newest first, and totals since the run began."""

    max_records: int = MAX_RECORDS
    restart_count: int = 0
    """The number of restarts after failures."""
    completed_count: int = 0
    failed_count: int = 0
    total_seconds: float = 0.0
    """The total duration of the complete checkpoints."""
    total_new_bytes: int = 0
    """The total number of bytes that they added to the store."""
    newest_completed: CheckpointRecord | None = None
    """The newest complete checkpoint."""
    _records: deque[CheckpointRecord] = field(default_factory=deque)
    _sizes: dict[int, int] = field(default_factory=dict)
    """The sizes of checkpoints whose outcome has not been reported yet."""

    @property
    def records(self) -> tuple[CheckpointRecord, ...]:
        """The latest checkpoints, newest first."""
        return tuple(self._records)

    def record_size(self, number: int, document: Mapping[str, object]) -> None:
        """Record the size of a checkpoint from its manifest, before its outcome.

        Safe in any thread.
        """
        self._sizes[number] = sum(blob.bytes for blob in {*find_blobs(document)})

    def record_outcome(
        self,
        event: CheckpointCompleted | CheckpointFailed,
        now_us: int,
        pauses: CheckpointPauses | None = None,
    ) -> None:
        """Record the outcome of a checkpoint at this time."""
        triggered_us = now_us - int(event.seconds * 1e6)
        size = self._sizes.pop(event.number, None)
        if isinstance(event, CheckpointCompleted):
            one = CheckpointRecord(
                event.number, triggered_us, event.seconds, event.bytes, size, pauses
            )
            self.newest_completed = one
            self.completed_count += 1
            self.total_seconds += event.seconds
            self.total_new_bytes += event.bytes
        else:
            one = CheckpointRecord(
                event.number, triggered_us, event.seconds, failure_reason=event.reason
            )
            self.failed_count += 1
        self._records.appendleft(one)
        while len(self._records) > self.max_records:
            self._records.pop()
