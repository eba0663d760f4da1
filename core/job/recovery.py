"""The recovery of an attempt before its subtasks run: commit what is decided, discover splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.api.failures import ConnectorError
from headrace.core.api.run_context import RunContext
from headrace.core.api.splits import Split
from headrace.core.coordination.messages import RestoredState
from headrace.core.errors import failpoints
from headrace.core.errors.attribution import attribute_errors_to, get_failed_part
from headrace.core.worker.connectors import OpenConnectors

if TYPE_CHECKING:
    from headrace.core.checkpoint.manifest import RestoredCheckpoint
    from headrace.core.checkpoint.storage import CheckpointStorage


async def commit_restored_output(
    restored: RestoredCheckpoint,
    ends: OpenConnectors,
    storage: CheckpointStorage,
    run_context: RunContext,
) -> None:
    """Commit the output that the checkpoint names: the attempt that took it may not have done so.

    The commits are recorded before sinks are checked: after that a sink may reuse the resources of
    the output. A commit that fails does not keep the others from being tried; its error is raised
    after all of them. Before any commit, the checkpoint is recorded as complete.
    """
    from headrace.core.checkpoint.commit_record import record_committed, record_completed

    await record_completed(restored.number, storage, run_context)
    errors: list[ConnectorError] = []
    for sink, handle in restored.handles:
        try:
            with attribute_errors_to(sink):
                await ends.sinks[sink].commit(handle)
        except ConnectorError as error:
            errors.append(error)
    if errors:
        raise _merge_errors(errors)
    if restored.handles:
        failpoints.failpoint("noting again")
        await record_committed(restored.number, storage, run_context)
        failpoints.failpoint("noted again")
        ends.on_commits_recorded()


def _merge_errors(errors: Sequence[ConnectorError]) -> ConnectorError:
    """Return the first error with the messages of all: each failed commit is reported."""
    first, *others = errors
    for other in others:
        first.message += f"; {get_failed_part(other)}: {other.message}"
        first.is_final = first.is_final or other.is_final
    return first


async def discover_splits(
    ends: OpenConnectors, restored: RestoredCheckpoint | None
) -> tuple[RestoredState | None, dict[str, Sequence[Split]]]:
    """Return the restored state and the splits to read; sinks are checked after that.

    The order matters: the check of a sink may create its folder.
    """
    begins = restored.restored_state if restored else RestoredState()
    splits, before = {}, dict(begins.splits)
    for name, source in ends.sources.items():
        with attribute_errors_to(name):
            if name in before:
                before[name] = await source.restore(before[name])
            if name not in before or source.discovery_interval_s is not None:
                splits[name] = await source.discover_splits(first=name not in before)
    await ends.check_lookups()
    await ends.check_sinks()
    return replace(begins, splits=before) if restored else None, splits
