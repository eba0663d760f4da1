"""A rescale of a running job: from one plan to the same at another parallelism."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from headrace.core.asked import Rescaled
from headrace.core.plan import nodes


@dataclass(slots=True)
class Change:
    """A rescale that is under way."""

    plan: nodes.Plan
    done: asyncio.Future[Rescaled]
    old: nodes.Plan | None = None
    """What ran before, once that has ended."""
    halted_s: float | None = None
    """When the sources were told to wait."""

    def halt(self) -> None:
        """They are told now."""
        self.halted_s = asyncio.get_running_loop().time()

    def came(self, checkpoint: int) -> None:
        """They are told to go on now, behind that checkpoint."""
        assert self.halted_s is not None
        stood_s = asyncio.get_running_loop().time() - self.halted_s
        if not self.done.done():
            self.done.set_result(Rescaled(checkpoint, stood_s))
