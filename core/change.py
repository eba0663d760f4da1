"""A rescale of a running job: from one plan to the same plan at another parallelism."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from headrace.core.asked import Rescaled
from headrace.core.plan import nodes


@dataclass(slots=True)
class Change:
    """A rescale in progress."""

    plan: nodes.Plan
    done: asyncio.Future[Rescaled]
    old: nodes.Plan | None = None
    """The plan before the rescale, once its attempt has ended."""
    halted_s: float | None = None
    """The time at which the sources were paused."""

    def halt(self) -> None:
        """Record that the sources are paused now."""
        self.halted_s = asyncio.get_running_loop().time()

    def came(self, checkpoint: int) -> None:
        """Complete the rescale: the sources resume now, from that checkpoint."""
        assert self.halted_s is not None
        stood_s = asyncio.get_running_loop().time() - self.halted_s
        if not self.done.done():
            self.done.set_result(Rescaled(checkpoint, stood_s))
