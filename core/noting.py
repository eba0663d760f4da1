"""That the output of a checkpoint is visible, written down: until then, no other one begins.

A disk that is full for a while costs the job nothing but checkpoints meanwhile, so this waits for
it as long as a checkpoint may take; not for a home that is gone.
"""

from __future__ import annotations

import asyncio
from functools import partial

from headrace.core.contracts import Surroundings
from headrace.core.keeping import Keeping
from headrace.core.snapshots import RefusedSnapshot, SnapshotError

SHORTEST_S, LONGEST_S = 0.2, 10.0
"""How long it is from one try to the next, at first and at last."""


async def note_visible(number: int, keeping: Keeping, surroundings: Surroundings) -> None:
    """Note it; tells when that has to wait. Raises SnapshotError when it has waited too long."""
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
