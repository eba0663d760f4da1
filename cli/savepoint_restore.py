"""Restoring a job from a savepoint, which becomes a checkpoint of the job's home.

In the home of the job that it was taken of, it is one more checkpoint of that job; in any other
home it is the first one of a new job. Running the same command again goes back to the savepoint.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from headrace.core.api.snapshots import RefusedSnapshot, format_now
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.api.snapshots import SnapshotStore
    from headrace.core.checkpoint.compatibility import RestoreOptions
    from headrace.core.plan.connector import Connectors
    from headrace.core.plan.nodes import Plan
    from headrace.state.savepoints.savepoint import Savepoint
    from headrace.state.storage.checkpoint_repository import CheckpointRepository


@dataclass(frozen=True, slots=True)
class RestoredSavepoint:
    """A savepoint, and the checkpoint made of it."""

    savepoint: Savepoint
    number: int = 0
    """The number of the checkpoint in the home."""
    is_same_job: bool = False
    """Whether the savepoint belongs to the job of this home."""
    removed_checkpoints: int = 0
    """The number of another job's checkpoints that were removed."""

    def find_newer_checkpoints(self, store: SnapshotStore) -> tuple[int, ...]:
        """Return the job's checkpoints that are newer than the savepoint."""
        if not self.is_same_job:
            return ()
        return tuple(n for n in store.list_checkpoints() if self.savepoint.number < n < self.number)


def open_compatible(path: str, plan: Plan, options: RestoreOptions) -> RestoredSavepoint:
    """Open a savepoint, and check that the pipeline is compatible with it. Raises SnapshotError."""
    from headrace.connectors.registry import REGISTRY
    from headrace.core.checkpoint.compatibility import check_compatibility, drop_fresh_hint
    from headrace.core.checkpoint.connector_documents import check_connector_documents
    from headrace.core.checkpoint.manifest import restore_checkpoint
    from headrace.state.savepoints.savepoint import open_savepoint
    from headrace.state.savepoints.savepoint_rows import COPY_HINT

    savepoint = open_savepoint(path)
    number = savepoint.number
    try:
        check_compatibility(number, savepoint.document, plan, options)
    except RefusedSnapshot as error:
        message = error.message.replace(f"checkpoint {number}", savepoint.title, 1)
        # --fresh is no way to resume from a savepoint: the two options exclude each other.
        raise RefusedSnapshot(message, drop_fresh_hint(error.hint)) from error
    restored = restore_checkpoint(number, savepoint.document, plan, options.fresh_parts)
    check_connector_documents(restored, plan, REGISTRY, savepoint.path, COPY_HINT)
    return RestoredSavepoint(savepoint)


async def check_continued_sinks(plan: Plan, connectors: Connectors, folder: Path) -> None:
    """Check that sinks accept output that continues another job's. Raises ConnectorError."""
    from headrace.core.api.kernel_executor import KernelExecutor
    from headrace.core.api.run_context import RunContext
    from headrace.core.worker.connectors import open_connectors

    run_context = RunContext(folder, uuid4().hex, KernelExecutor(), is_resumed=True)
    ends = open_connectors(plan, connectors, run_context)
    try:
        await ends.check_sinks()
    finally:
        await ends.close()


def _find_highest_recorded(home: CheckpointRepository) -> int:
    """Return the highest number in the records of the home, as far as they can be read."""
    from headrace.core.checkpoint.completion_record import CompletionRecord

    highest = home.read_commit_record() or 0
    with suppress(RefusedSnapshot):
        record = CompletionRecord.from_document(home.read_completion_record() or {})
        highest = max(highest, record.highest)
    return highest


def adopt_savepoint(
    saved: RestoredSavepoint, home: CheckpointRepository, check: Callable[[], None]
) -> RestoredSavepoint:
    """Make the savepoint a checkpoint of the home; if this raises, nothing has changed.

    `check` raises the errors for which a new job is rejected.
    """
    from headrace.state.savepoints.savepoint import commit_as_checkpoint

    opened = home.open_read_only()
    if opened is not None and opened.job_id == saved.savepoint.job:
        store = home.open_store(opened.job_id)
        # Greater than all numbers ever used: records of another checkpoint must not apply here.
        number = 1 + max(
            *store.list_checkpoints(), saved.savepoint.number, _find_highest_recorded(home)
        )
        commit_as_checkpoint(saved.savepoint, store, number)
        return replace(saved, number=number, is_same_job=True)
    check()
    forgotten = 0 if opened is None else len(opened.list_checkpoints())
    with home.replace_job(format_now()) as renewed:
        commit_as_checkpoint(saved.savepoint, renewed, 1)
    return replace(saved, number=1, removed_checkpoints=forgotten)
