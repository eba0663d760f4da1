"""How long something went on, also while it does: waiting for room, for rows, for a writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType


def loop_time() -> float:
    """The time of the loop that runs."""
    return asyncio.get_running_loop().time()


@dataclass(slots=True)
class Waiting:
    """The sum of waits, by the clock of the loop: `with` it, one waits. It has one user."""

    clock: Callable[[], float] = loop_time
    """Never goes back."""
    _seconds: float = 0.0
    _since: float | None = None

    @property
    def seconds(self) -> float:
        """Up to now."""
        if self._since is None:
            return self._seconds
        return self._seconds + self.clock() - self._since

    @property
    def goes_on(self) -> bool:
        """Whether it does just now."""
        return self._since is not None

    def __enter__(self) -> None:
        self._since = self.clock()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._seconds = self.seconds
        self._since = None
