"""Where the work stands: which row or timer of which key is handled, and what time it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.core.state import NO_CLOCK_US


class Work:
    """`Here` for a user's class; operators and harnesses set it before each call."""

    __slots__ = ("at", "cell", "cells", "clock_us", "now_us", "time_us", "timer")

    def __init__(self, now_us: Callable[[], int]) -> None:
        self.now_us = now_us
        self.at = 0
        """The number of what is handled, among the rows and timers whose output is gathered."""
        self.cells: list[Any] = []
        """The cell of each row that is handled; empty while a timer is."""
        self.cell: Any = None
        """The cell of the timer that is handled."""
        self.time_us: int | None = None
        self.clock_us = NO_CLOCK_US
        self.timer: str | None = None

    @property
    def key(self) -> Any:
        """The key that is handled."""
        return (self.cell if self.timer is not None else self.cells[self.at])._id

    @property
    def watermark_us(self) -> int | None:
        """How far event time has come."""
        return None if self.clock_us == NO_CLOCK_US else self.clock_us

    def event_us(self) -> int:
        """What time it is for what goes by event time: that of the row or timer, or the clock.

        Rows that come as they come may be older than the clock.
        """
        return self.clock_us if self.time_us is None else max(self.time_us, self.clock_us)
