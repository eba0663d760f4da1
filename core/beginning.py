"""The recovery of an attempt before its subtasks run: commit what is decided, discover splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.core import faults
from headrace.core.blame import blamed, part_of
from headrace.core.contracts import ConnectorError, Surroundings
from headrace.core.ends import Ends
from headrace.core.keeping import Keeping
from headrace.core.manifest import Checkpoint
from headrace.core.messages import Restored, Split
from headrace.core.noting import note_visible


async def commit_again(
    restored: Checkpoint, ends: Ends, keeping: Keeping, surroundings: Surroundings
) -> None:
    """Commit the output that the checkpoint names: the attempt that took it may not have done so.

    The commits are recorded before sinks are checked: after that a sink may reuse the resources of
    the output. A commit that fails does not keep the others from being tried; its error is raised
    after all of them.
    """
    trouble: list[ConnectorError] = []
    for sink, handle in restored.handles:
        try:
            with blamed(sink):
                await ends.sinks[sink].commit(handle)
        except ConnectorError as error:
            trouble.append(error)
    if trouble:
        raise _together(trouble)
    if restored.handles:
        faults.point("noting again")
        await note_visible(restored.number, keeping, surroundings)
        faults.point("noted again")


def _together(trouble: Sequence[ConnectorError]) -> ConnectorError:
    """Return the first error with the messages of all: each failed commit is reported."""
    first, *others = trouble
    for other in others:
        first.message += f"; {part_of(other)}: {other.message}"
        first.final = first.final or other.final
    return first


async def discovered(
    ends: Ends, restored: Checkpoint | None
) -> tuple[Restored | None, dict[str, Sequence[Split]]]:
    """Return the restored state and the splits to read; sinks are checked after that.

    The order matters: the check of a sink may create its folder.
    """
    begins = restored.begins if restored else Restored()
    splits, before = {}, dict(begins.splits)
    for name, source in ends.sources.items():
        with blamed(name):
            if name in before:
                before[name] = await source.resumed(before[name])
            if name not in before or source.rediscover_s is not None:
                splits[name] = await source.discover(first=name not in before)
    await ends.check_lookups()
    await ends.check_sinks()
    return replace(begins, splits=before) if restored else None, splits
