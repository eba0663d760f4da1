"""Where the checkpoints of a job are, whatever that is made of: its home, or a bucket.

Whoever has one may write there, and nobody else does: a home is held by its lock, a bucket by the
record of its owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from headrace.core.contracts import Notes
from headrace.core.snapshots import SnapshotStore


class JobStore(SnapshotStore, Protocol):
    """A snapshot store that can look through all of a checkpoint."""

    job: str
    """The id of the job whose it is."""

    def verify(self, number: int) -> None:
        """Read all of a checkpoint. Raises DamagedSnapshot."""
        ...

    def is_whole(self, number: int) -> bool:
        """Whether a checkpoint could be started from: all of it is read."""
        ...


class Cabinet(Protocol):
    """The checkpoints of one job, and what is known of the job. Raises SnapshotError."""

    def job(self, since: str) -> str:
        """The job's id, made if there is none yet."""
        ...

    def store(self, job: str) -> JobStore:
        """The job's checkpoints, to be written."""
        ...

    def looked_at(self) -> JobStore | None:
        """The job's checkpoints, to be read; None if there is no job."""
        ...

    def renewed(self, since: str) -> AbstractContextManager[JobStore]:
        """Another job in the place of the one that is here, with the checkpoints it is given.

        It is there behind this, all at once, also if it is killed meanwhile; if this is left by an
        exception, nothing has changed.
        """
        ...

    def forget(self) -> None:
        """Have no checkpoints, and no job: all at once, also if it is killed meanwhile."""
        ...

    def finish(self, said: Mapping[str, object]) -> None:
        """Mark the job as finished, with what is to be said of it."""
        ...

    def finished(self) -> Mapping[str, object] | None:
        """The mark; None if there is none."""
        ...

    def clear(self) -> None:
        """Remove the mark."""
        ...

    @property
    def notes(self) -> Notes:
        """What sources and sinks must not forget, whatever becomes of the job's checkpoints."""
        ...

    def note(self, number: int) -> None:
        """All output of a checkpoint is visible; it is not forgotten then."""
        ...

    def noted(self) -> int | None:
        """The last checkpoint that was noted; None if nobody can tell."""
        ...
