"""A rescale of a running job: from one plan to the same plan at another parallelism."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from headrace.core.asked import RescaleResult
from headrace.core.plan import nodes


@dataclass(slots=True)
class PendingRescale:
    """A rescale in progress."""

    plan: nodes.Plan
    result: asyncio.Future[RescaleResult]
    old_plan: nodes.Plan | None = None
    """The plan before the rescale, once its attempt has ended."""
    paused_at_s: float | None = None
    """The time at which the sources were paused."""

    def record_pause(self) -> None:
        """Record that the sources are paused now."""
        self.paused_at_s = asyncio.get_running_loop().time()

    def complete(self, checkpoint: int) -> None:
        """Complete the rescale: the sources resume now, from that checkpoint."""
        assert self.paused_at_s is not None
        stood_s = asyncio.get_running_loop().time() - self.paused_at_s
        if not self.result.done():
            self.result.set_result(RescaleResult(checkpoint, stood_s))
