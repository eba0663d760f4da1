"""A stopwatch for waits: for room, for rows, for a writer. It can be read during a wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True)
class Stopwatch:
    """The sum of waits: a wait lasts as long as a `with` block. It has one user, in one loop."""

    clock: Callable[[], float] | None = None
    """A monotonic clock; None: that of the loop in which the stopwatch is entered first."""
    last_s: float = 0.0
    """The duration of the last wait that has ended."""
    _seconds: float = 0.0
    _started_at: float | None = None

    @property
    def seconds(self) -> float:
        """The total so far."""
        if self._started_at is None or self.clock is None:
            return self._seconds
        return self._seconds + self.clock() - self._started_at

    @property
    def is_running(self) -> bool:
        """Whether a wait is in progress."""
        return self._started_at is not None

    def __enter__(self) -> None:
        # Entered several times for every batch: nothing is looked up twice.
        if self.clock is None:
            self.clock = asyncio.get_running_loop().time
        self._started_at = self.clock()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.clock is not None and self._started_at is not None
        self.last_s = self.clock() - self._started_at
        self._seconds += self.last_s
        self._started_at = None
