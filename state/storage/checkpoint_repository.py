"""Repository of a job's checkpoints, in its home or in a bucket.

Only the process that has opened it for writing writes there: a home is protected by its lock, a
bucket by its ownership record.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from headrace.core.api.run_context import JobNotes
from headrace.core.api.snapshots import SnapshotStore
from headrace.core.api.state import Document


class JobSnapshotStore(SnapshotStore, Protocol):
    """Snapshot store that can verify whole checkpoints."""

    job_id: str
    """Id of the job."""

    def verify(self, number: int) -> None:
        """Read and verify all of a checkpoint. Raises DamagedSnapshot."""
        ...

    def get_manifest_path(self, number: int) -> str:
        """Return the path or address of a checkpoint's manifest, which need not exist."""
        ...

    def is_whole(self, number: int) -> bool:
        """Whether a job could be restored from the checkpoint: reads all of it."""
        ...


class CheckpointRepository(Protocol):
    """Checkpoints and metadata of one job. Raises SnapshotError."""

    def ensure_job_id(self, since: str) -> str:
        """Return the job's id, created if there is none yet."""
        ...

    def open_store(self, job: str) -> JobSnapshotStore:
        """Open the job's checkpoints for writing."""
        ...

    def open_read_only(self) -> JobSnapshotStore | None:
        """Open the job's checkpoints for reading; None if there is no job."""
        ...

    def replace_job(self, since: str) -> AbstractContextManager[JobSnapshotStore]:
        """Replace the job by another one, which has the checkpoints written in the block.

        The replacement is atomic and happens when the block ends, even if the process is killed; if
        an exception leaves the block, nothing has changed.
        """
        ...

    def delete_job(self) -> None:
        """Delete the job and its checkpoints, atomically even if the process is killed."""
        ...

    def mark_finished(self, record: Mapping[str, object]) -> None:
        """Mark the job as finished; `record` is reported of it."""
        ...

    def read_finished(self) -> Mapping[str, object] | None:
        """Return what the finished mark says; None if there is no mark."""
        ...

    def clear_finished(self) -> None:
        """Remove the finished mark."""
        ...

    @property
    def notes(self) -> JobNotes:
        """Notes that sources and sinks must not lose, whatever happens to the job's checkpoints."""
        ...

    def write_completion_record(self, document: Document) -> None:
        """Replace the completion record durably (`core/checkpoint/completion_record`)."""
        ...

    def read_completion_record(self) -> Document | None:
        """Return the completion record; None if the job never had one.

        Raises DamagedSnapshot if it is damaged, or missing although the job had one.
        """
        ...

    def write_commit_record(self, number: int) -> None:
        """Record durably that all output of a checkpoint is committed."""
        ...

    def read_commit_record(self) -> int | None:
        """Return the checkpoint of the commit record; None if it is missing or cannot be read."""
        ...
