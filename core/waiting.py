"""How long somebody was made to wait, also while a wait goes on: the figure of backpressure."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType


@dataclass(slots=True)
class Waiting:
    """The sum of waits, by the clock of the loop: `with` it, one waits."""

    _seconds: float = 0.0
    _since: float | None = None

    @property
    def seconds(self) -> float:
        """Up to now."""
        if self._since is None:
            return self._seconds
        return self._seconds + asyncio.get_running_loop().time() - self._since

    def __enter__(self) -> None:
        self._since = asyncio.get_running_loop().time()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._seconds = self.seconds
        self._since = None
