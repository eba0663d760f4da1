"""The report of a job's source positions to external systems after each complete checkpoint.

Nothing depends on the reports, so nothing waits for them: while the last report of a source is in
progress, the next is skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.core.contracts import SourceConnector
from headrace.core.messages import Progress, Split, WriteManifest

CLOSE_TIMEOUT_S = 5.0
"""The time to wait at the end for reports in progress."""


@dataclass(slots=True)
class OffsetReporter:
    """Reports the positions of each checkpoint to its sources."""

    sources: Mapping[str, SourceConnector] = field(default_factory=dict)
    _reports: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def report(self, keep: WriteManifest) -> None:
        """Report a complete checkpoint to its sources."""
        positions: dict[str, dict[Split, Progress]] = {}
        for snapshot in keep.snapshots.values():
            for split, progress in snapshot.splits.items():
                positions.setdefault(split.source, {})[split] = progress
        for name, splits in positions.items():
            before = self._reports.get(name)
            if before is None or before.done():
                telling = self.sources[name].on_checkpoint_complete(splits)
                self._reports[name] = asyncio.ensure_future(telling)

    async def close(self) -> None:
        """Wait a little for reports in progress; their errors are ignored."""
        if not self._reports:
            return
        _, left = await asyncio.wait(self._reports.values(), timeout=CLOSE_TIMEOUT_S)
        for task in left:
            task.cancel()
        await asyncio.gather(*self._reports.values(), return_exceptions=True)
