"""The durable record that a checkpoint's output is committed.

No checkpoint begins before it is written.

A disk that is full for a while costs the job only checkpoints, so writing the record is retried for
as long as a checkpoint may take; but not if the home is missing.
"""

from __future__ import annotations

import asyncio
from functools import partial

from headrace.core.contracts import Surroundings
from headrace.core.keeping import Keeping
from headrace.core.snapshots import RefusedSnapshot, SnapshotError

SHORTEST_S, LONGEST_S = 0.2, 10.0
"""The first and the longest pause between two tries."""


async def note_visible(number: int, keeping: Keeping, surroundings: Surroundings) -> None:
    """Record the commits of a checkpoint; report to the user when that has to wait.

    Raises SnapshotError on timeout.
    """
    loop = asyncio.get_running_loop()
    until, pause_s = loop.time() + keeping.rhythm.timeout_s, SHORTEST_S
    while True:
        try:
            await surroundings.bench.blocking(partial(keeping.visible, number))
        except RefusedSnapshot:
            raise
        except SnapshotError as error:
            if loop.time() + pause_s > until:
                raise
            if pause_s == SHORTEST_S:
                surroundings.tell(f"checkpoints wait: {error.message}")
            await asyncio.sleep(pause_s)
            await surroundings.bench.blocking(keeping.there)
            pause_s = min(2 * pause_s, LONGEST_S)
        else:
            return
