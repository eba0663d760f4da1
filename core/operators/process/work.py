"""Where the work stands: which row or timer of which key is handled, and what time it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.core.elements import EVENT_TIME
from headrace.core.state import NO_CLOCK_US

if TYPE_CHECKING:
    import polars as pl


class Every:
    """Stands in the place of a key where all of them are meant."""

    def __repr__(self) -> str:
        return "every key"


EVERY = Every()


class Work:
    """`Here` for a user's class; operators and harnesses set it before each call."""

    __slots__ = (
        "_listed",
        "_times",
        "at",
        "cell",
        "cells",
        "clock_us",
        "frame",
        "moment_us",
        "now_us",
        "timer",
    )

    def __init__(self, now_us: Callable[[], int]) -> None:
        self.now_us = now_us
        self.at = 0
        """The number of what is handled, among the rows and timers whose output is gathered."""
        self.cells: list[Any] = []
        """The cell of each row that is handled."""
        self._times: pl.Series | None = None
        self._listed: list[int] | None = None
        self.timer: str | None = None
        """The timer that is handled; None while rows are."""
        self.cell: Any = None
        """Its cell, and the event time of what it puts out."""
        self.moment_us: int | None = None
        self.frame: pl.DataFrame | None = None
        """The rows that are handled together."""
        self.clock_us = NO_CLOCK_US

    def begin(self, cells: list[Any], times: pl.Series | None) -> None:
        """These rows are handled next: the cell of each, and its event time in microseconds."""
        self.cells, self._times, self._listed = cells, times, None

    @property
    def times(self) -> list[int] | None:
        """The event time of each row that is handled, if they have one; made for who asks first."""
        if self._listed is None and self._times is not None:
            self._listed = self._times.to_list()
        return self._listed

    @property
    def key(self) -> Any:
        """The key that is handled."""
        if self.frame is not None:
            raise RuntimeError("rows of many keys are handled: their key is in their columns")
        found = (self.cells[self.at] if self.timer is None else self.cell)._id
        if found is EVERY:
            raise RuntimeError("a rule has no key: it is for all of them")
        return found

    @property
    def time_us(self) -> int | None:
        """The event time of the row or timer that is handled."""
        if self.timer is not None:
            return self.moment_us
        if self.frame is not None:
            raise RuntimeError("rows of many times are handled: see self.event_times")
        times = self._listed or self.times
        return None if times is None else times[self.at]

    @property
    def times_of_all(self) -> pl.Series | None:
        """The event times of the rows that are handled together, if they have any."""
        if self.frame is None or EVENT_TIME not in self.frame.columns:
            return None
        return self.frame[EVENT_TIME]

    @property
    def watermark_us(self) -> int | None:
        """How far event time has come."""
        return None if self.clock_us == NO_CLOCK_US else self.clock_us

    def event_us(self) -> int:
        """What time it is for what goes by event time: that of the row or timer, or the clock.

        Rows that come as they come may be older than the clock.
        """
        if self.timer is None and self._listed is not None:  # as time_us has it, in half the time
            time_us: int | None = self._listed[self.at]
        else:
            time_us = self.time_us
        clock_us = self.clock_us
        return clock_us if time_us is None or time_us < clock_us else time_us
