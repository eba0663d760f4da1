"""What an attempt does before anything of it runs: commit what is decided, look what there is."""

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
    """Commit what the checkpoint names: whoever took it may not have come to that.

    It is noted before sinks are looked at: they may use again then what they had for it. What
    cannot be committed keeps nothing else from being seen: it is raised behind all of it.
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
    """The first, with the messages of all: where several commits fail, each is told."""
    first, *others = trouble
    for other in others:
        first.message += f"; {part_of(other)}: {other.message}"
        first.final = first.final or other.final
    return first


async def discovered(
    ends: Ends, restored: Checkpoint | None
) -> tuple[Restored | None, dict[str, Sequence[Split]]]:
    """What all begins with, and what there is to read; output is looked at after that.

    To look at it may make its folder.
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
