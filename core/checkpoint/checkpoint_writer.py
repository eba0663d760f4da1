"""The writer of an attempt's checkpoints: manifests, records of completion and of commits.

It answers WriteManifest and OutputCommitted as a worker answers its messages: with events. Work is
done in tasks, because the coordinator does not wait for a disk. An error after which nobody knows
whether a manifest exists fails the attempt; one after which nothing may be written any more fails
the job (`permanent_error`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import partial

from headrace.core.api.failures import build_failure
from headrace.core.api.run_context import RunContext
from headrace.core.api.snapshots import RefusedSnapshot, SnapshotError, UnknownOutcome
from headrace.core.api.sources import SourceCoordinator
from headrace.core.api.splits import Failure
from headrace.core.checkpoint.commit_record import (
    OffsetReporter,
    record_committed,
    record_completed,
)
from headrace.core.checkpoint.manifest import RestoredCheckpoint
from headrace.core.checkpoint.storage import CheckpointStorage
from headrace.core.coordination.messages import (
    CommitRecorded,
    ManifestFailed,
    ManifestWritten,
    OutputCommitted,
    WriteManifest,
)
from headrace.core.errors import failpoints
from headrace.core.plan import nodes
from headrace.core.types.lazy_dataclass import dataclass

CHECKPOINTS = "checkpoints"
"""The part that a failure of the storage is attributed to."""


@dataclass(slots=True)
class CheckpointWriter:
    """Writes the checkpoints of one attempt; `fail` ends the attempt."""

    storage: CheckpointStorage
    plan: nodes.Plan
    base: RestoredCheckpoint | None
    """The checkpoint that the attempt resumed from."""
    run_context: RunContext
    sources: Mapping[str, SourceCoordinator]
    """The sources that positions are reported to."""
    send: Callable[[ManifestWritten | ManifestFailed | CommitRecorded], None]
    fail: Callable[[Failure], None]
    permanent_error: RefusedSnapshot | None = None
    """The error after which no checkpoint may be written."""
    _manifest_task: asyncio.Task[None] | None = None
    _record_task: asyncio.Task[None] | None = None
    _offset_reporter: OffsetReporter = field(init=False)

    def __post_init__(self) -> None:
        self._offset_reporter = OffsetReporter(self.sources)

    def receive(self, message: WriteManifest | OutputCommitted) -> None:
        """Begin to write a manifest, or the record of its commits."""
        match message:
            case WriteManifest():
                self._manifest_task = asyncio.create_task(self._write_manifest(message))
            case OutputCommitted(number):
                self._record_task = asyncio.create_task(self._record_commit(number))

    async def close(self) -> None:
        """Finish a manifest, abandon a record, and wait a little for reports of positions."""
        if self._manifest_task is not None:
            await asyncio.gather(self._manifest_task, return_exceptions=True)
        if self._record_task is not None:
            self._record_task.cancel()
            await asyncio.gather(self._record_task, return_exceptions=True)
        await self._offset_reporter.close()

    async def _write_manifest(self, keep: WriteManifest) -> None:
        """Write the manifest of a checkpoint."""
        failpoints.failpoint("manifest.before")
        try:
            archive = self.run_context.snapshot_executor or self.run_context.kernel_executor
            await archive.run_blocking(partial(self.storage.write, keep, self.plan, self.base))
        except UnknownOutcome as error:
            # Only the next attempt can find out whether the manifest exists.
            self.fail(Failure(error.message, CHECKPOINTS, hint=error.hint))
        except RefusedSnapshot as error:
            self._fail_permanently(error)
        except SnapshotError as error:
            self.send(ManifestFailed(keep.number, error.message))
        except BaseException as error:
            self.fail(build_failure(error, CHECKPOINTS))
            raise
        else:
            failpoints.failpoint("manifest.after")
            # A task of its own, because it may be cancelled while it waits for the disk.
            self._record_task = asyncio.create_task(self._record_completion(keep))

    async def _record_completion(self, keep: WriteManifest) -> None:
        """Record that a checkpoint is complete, so that its output may be committed."""
        with self._fail_on_snapshot_error():
            await record_completed(keep.number, self.storage, self.run_context)
            failpoints.failpoint("completed")
            self.send(ManifestWritten(keep.number))
            self._offset_reporter.report(keep)

    async def _record_commit(self, number: int) -> None:
        """Record that the output of a checkpoint is committed."""
        failpoints.failpoint("noting")
        with self._fail_on_snapshot_error():
            await record_committed(number, self.storage, self.run_context)
            failpoints.failpoint("noted")
            self.send(CommitRecorded(number))

    @contextmanager
    def _fail_on_snapshot_error(self) -> Iterator[None]:
        """Fail the attempt if a record cannot be written."""
        try:
            yield
        except RefusedSnapshot as error:
            self._fail_permanently(error)
        except SnapshotError as error:
            self.fail(build_failure(error, CHECKPOINTS))

    def _fail_permanently(self, error: RefusedSnapshot) -> None:
        """Fail the attempt and the job: no attempt may write any more."""
        self.permanent_error = error
        self.fail(Failure(error.message, CHECKPOINTS, hint=error.hint))
