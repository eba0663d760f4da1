"""How long something went on, also while it does: waiting for room, for rows, for a writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType


@dataclass(slots=True)
class Waiting:
    """The sum of waits: `with` it, one waits. It has one user, in one loop."""

    clock: Callable[[], float] | None = None
    """Never goes back; None: that of the loop in which it is entered first."""
    last: float = 0.0
    """How long the last one was that is over."""
    _seconds: float = 0.0
    _since: float | None = None

    @property
    def seconds(self) -> float:
        """Up to now."""
        if self._since is None or self.clock is None:
            return self._seconds
        return self._seconds + self.clock() - self._since

    @property
    def goes_on(self) -> bool:
        """Whether it does just now."""
        return self._since is not None

    def __enter__(self) -> None:
        # Entered for every batch, some times: nothing here is looked up twice.
        if self.clock is None:
            self.clock = asyncio.get_running_loop().time
        self._since = self.clock()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.clock is not None and self._since is not None
        self.last = self.clock() - self._since
        self._seconds += self.last
        self._since = None
