"""The report of a job's source positions to external systems after each complete checkpoint.

Nothing depends on the reports, so nothing waits for them: while the last report of a source is in
progress, the next is skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.core.contracts import Source
from headrace.core.messages import Keep, Progress, Split

LONGEST_S = 5.0
"""The time to wait at the end for reports in progress."""


@dataclass(slots=True)
class Publishing:
    """Reports the positions of each checkpoint to its sources."""

    sources: Mapping[str, Source] = field(default_factory=dict)
    _going_on: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def publish(self, keep: Keep) -> None:
        """Report a complete checkpoint to its sources."""
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
        """Wait a little for reports in progress; their errors are ignored."""
        if not self._going_on:
            return
        _, left = await asyncio.wait(self._going_on.values(), timeout=LONGEST_S)
        for task in left:
            task.cancel()
        await asyncio.gather(*self._going_on.values(), return_exceptions=True)
