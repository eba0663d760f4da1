"""How far a job has come, told to whoever looks from outside: behind each complete checkpoint.

Nothing depends on it, so nothing waits for it: where the last is still being told, this one is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.core.contracts import Source
from headrace.core.messages import Keep, Progress, Split

LONGEST_S = 5.0
"""So long is waited at the end for what is being told."""


@dataclass(slots=True)
class Publishing:
    """Tells sources of the checkpoints of an attempt."""

    sources: Mapping[str, Source] = field(default_factory=dict)
    _going_on: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def publish(self, keep: Keep) -> None:
        """A checkpoint is complete."""
        positions: dict[str, dict[Split, Progress]] = {}
        for snapshot in keep.snapshots.values():
            for split, progress in snapshot.splits.items():
                positions.setdefault(split.source, {})[split] = progress
        for name, splits in positions.items():
            before = self._going_on.get(name)
            if before is None or before.done():
                telling = self.sources[name].published(splits)
                self._going_on[name] = asyncio.ensure_future(telling)

    async def close(self) -> None:
        """Wait a little for what is being told; what goes wrong with it concerns nobody."""
        if not self._going_on:
            return
        _, left = await asyncio.wait(self._going_on.values(), timeout=LONGEST_S)
        for task in left:
            task.cancel()
        await asyncio.gather(*self._going_on.values(), return_exceptions=True)
