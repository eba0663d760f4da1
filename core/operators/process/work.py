"""Where the work stands: which row or timer of which key is handled, and what time it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.core.state import NO_CLOCK_US


class Work:
    """`Here` for a user's class; operators and harnesses set it before each call."""

    __slots__ = ("at", "cell", "cells", "clock_us", "moment_us", "now_us", "timer", "times")

    def __init__(self, now_us: Callable[[], int]) -> None:
        self.now_us = now_us
        self.at = 0
        """The number of what is handled, among the rows and timers whose output is gathered."""
        self.cells: list[Any] = []
        """The cell of each row that is handled."""
        self.times: list[int] | None = None
        """The event time of each, if they have one."""
        self.timer: str | None = None
        """The timer that is handled; None while rows are."""
        self.cell: Any = None
        """Its cell, and the event time of what it puts out."""
        self.moment_us: int | None = None
        self.clock_us = NO_CLOCK_US

    @property
    def key(self) -> Any:
        """The key that is handled."""
        return (self.cells[self.at] if self.timer is None else self.cell)._id

    @property
    def time_us(self) -> int | None:
        """The event time of the row or timer that is handled."""
        if self.timer is not None:
            return self.moment_us
        return None if self.times is None else self.times[self.at]

    @property
    def watermark_us(self) -> int | None:
        """How far event time has come."""
        return None if self.clock_us == NO_CLOCK_US else self.clock_us

    def event_us(self) -> int:
        """What time it is for what goes by event time: that of the row or timer, or the clock.

        Rows that come as they come may be older than the clock.
        """
        time_us = self.time_us
        return self.clock_us if time_us is None else max(time_us, self.clock_us)
