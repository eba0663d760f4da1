"""The aftermath of a complete checkpoint: its records, and the report of source positions.

No output is committed before it is recorded durably that its checkpoint is complete
(`completion_record`), and no checkpoint begins before it is recorded that the output of the last
one is committed. A disk that is full for a while costs the job only checkpoints, so writing a
record is retried for as long as a checkpoint may take; but not if the home is missing.

Nothing depends on the reports of source positions to external systems, so nothing waits for them:
while the last report of a source is in progress, the next is skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial

from headrace.core.api.run_context import RunContext
from headrace.core.api.snapshots import RefusedSnapshot, SnapshotError
from headrace.core.api.sources import SourceCoordinator
from headrace.core.api.splits import Progress, Split
from headrace.core.checkpoint.storage import CheckpointStorage
from headrace.core.coordination.messages import WriteManifest
from headrace.core.types.lazy_dataclass import dataclass

MIN_RETRY_S, MAX_RETRY_S = 0.2, 10.0
"""The first and the longest pause between two tries."""


async def record_committed(
    number: int, storage: CheckpointStorage, run_context: RunContext
) -> None:
    """Record the commits of a checkpoint; report to the user when that has to wait.

    Raises SnapshotError on timeout.
    """
    await _write_record(partial(storage.record_committed, number), storage, run_context)


async def record_completed(
    number: int, storage: CheckpointStorage, run_context: RunContext
) -> None:
    """Record a complete checkpoint, before its output is committed; else as `record_committed`."""
    await _write_record(partial(storage.record_completed, number), storage, run_context)


async def _write_record(
    write: Callable[[], None], storage: CheckpointStorage, run_context: RunContext
) -> None:
    """Write a record, and try again while it fails; raises the last error on timeout."""
    loop = asyncio.get_running_loop()
    until, pause_s = loop.time() + storage.schedule.timeout_s, MIN_RETRY_S
    while True:
        try:
            await run_context.kernel_executor.run_blocking(write)
        except RefusedSnapshot:
            raise
        except SnapshotError as error:
            if loop.time() + pause_s > until:
                raise
            if pause_s == MIN_RETRY_S:
                run_context.notify_user(f"checkpoints wait: {error.message}")
            await asyncio.sleep(pause_s)
            await run_context.kernel_executor.run_blocking(storage.newest_number)
            pause_s = min(2 * pause_s, MAX_RETRY_S)
        else:
            return


CLOSE_TIMEOUT_S = 5.0
"""The time to wait at the end for reports in progress."""


@dataclass(slots=True)
class OffsetReporter:
    """Reports the positions of each checkpoint to its sources."""

    sources: Mapping[str, SourceCoordinator] = field(default_factory=dict)
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
                reporting = self.sources[name].on_checkpoint_complete(splits)
                self._reports[name] = asyncio.ensure_future(reporting)

    async def close(self) -> None:
        """Wait a little for reports in progress; their errors are ignored."""
        if not self._reports:
            return
        _, pending = await asyncio.wait(self._reports.values(), timeout=CLOSE_TIMEOUT_S)
        for task in pending:
            task.cancel()
        await asyncio.gather(*self._reports.values(), return_exceptions=True)
