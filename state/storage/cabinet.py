"""Repository of a job's checkpoints, in its home or in a bucket.

Only the process that has opened it for writing writes there: a home is protected by its lock, a
bucket by its ownership record.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from headrace.core.contracts import Notes
from headrace.core.snapshots import SnapshotStore


class JobStore(SnapshotStore, Protocol):
    """Snapshot store that can verify whole checkpoints."""

    job: str
    """Id of the job."""

    def verify(self, number: int) -> None:
        """Read and verify all of a checkpoint. Raises DamagedSnapshot."""
        ...

    def is_whole(self, number: int) -> bool:
        """Whether a job could be restored from the checkpoint: reads all of it."""
        ...


class Cabinet(Protocol):
    """Checkpoints and metadata of one job. Raises SnapshotError."""

    def job(self, since: str) -> str:
        """Return the job's id, created if there is none yet."""
        ...

    def store(self, job: str) -> JobStore:
        """Open the job's checkpoints for writing."""
        ...

    def looked_at(self) -> JobStore | None:
        """Open the job's checkpoints for reading; None if there is no job."""
        ...

    def renewed(self, since: str) -> AbstractContextManager[JobStore]:
        """Replace the job by another one, which has the checkpoints written in the block.

        The replacement is atomic and happens when the block ends, even if the process is killed; if
        an exception leaves the block, nothing has changed.
        """
        ...

    def forget(self) -> None:
        """Delete the job and its checkpoints, atomically even if the process is killed."""
        ...

    def finish(self, said: Mapping[str, object]) -> None:
        """Mark the job as finished; `said` is what to report of it."""
        ...

    def finished(self) -> Mapping[str, object] | None:
        """Return what the finished mark says; None if there is no mark."""
        ...

    def clear(self) -> None:
        """Remove the finished mark."""
        ...

    @property
    def notes(self) -> Notes:
        """Notes that sources and sinks must not lose, whatever happens to the job's checkpoints."""
        ...

    def note(self, number: int) -> None:
        """Record durably that all output of a checkpoint is committed."""
        ...

    def noted(self) -> int | None:
        """Return the checkpoint of the commit record; None if it is missing or cannot be read."""
        ...
