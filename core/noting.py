"""The durable record that a checkpoint's output is committed.

No checkpoint begins before it is written.

A disk that is full for a while costs the job only checkpoints, so writing the record is retried for
as long as a checkpoint may take; but not if the home is missing.
"""

from __future__ import annotations

import asyncio
from functools import partial

from headrace.core.contracts import RunContext
from headrace.core.keeping import CheckpointStorage
from headrace.core.snapshots import RefusedSnapshot, SnapshotError

MIN_RETRY_S, MAX_RETRY_S = 0.2, 10.0
"""The first and the longest pause between two tries."""


async def record_committed(
    number: int, keeping: CheckpointStorage, surroundings: RunContext
) -> None:
    """Record the commits of a checkpoint; report to the user when that has to wait.

    Raises SnapshotError on timeout.
    """
    loop = asyncio.get_running_loop()
    until, pause_s = loop.time() + keeping.schedule.timeout_s, MIN_RETRY_S
    while True:
        try:
            await surroundings.kernel_executor.run_blocking(
                partial(keeping.record_committed, number)
            )
        except RefusedSnapshot:
            raise
        except SnapshotError as error:
            if loop.time() + pause_s > until:
                raise
            if pause_s == MIN_RETRY_S:
                surroundings.notify_user(f"checkpoints wait: {error.message}")
            await asyncio.sleep(pause_s)
            await surroundings.kernel_executor.run_blocking(keeping.newest_number)
            pause_s = min(2 * pause_s, MAX_RETRY_S)
        else:
            return
