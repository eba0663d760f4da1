"""The context of the current call into user code: its row or timer, its key, and the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.core.api.state import NO_CLOCK_US
from headrace.core.types.elements import EVENT_TIME

if TYPE_CHECKING:
    import polars as pl


class EveryKey:
    """The placeholder for a key where all keys are meant."""

    def __repr__(self) -> str:
        return "every key"


EVERY_KEY = EveryKey()


class CallContext:
    """The `ProcessContext` of a user class; operators and test harnesses set it for each call."""

    __slots__ = (
        "_listed",
        "_times",
        "at",
        "cells",
        "clock_us",
        "frame",
        "now_us",
        "timer",
        "timer_cell",
        "timer_event_us",
    )

    def __init__(self, now_us: Callable[[], int]) -> None:
        self.now_us = now_us
        self.at = 0
        """The number of the current row or timer, among those whose output is collected."""
        self.cells: list[Any] = []
        """The cell of each row of the batch."""
        self._times: pl.Series | None = None
        self._listed: list[int] | None = None
        self.timer: str | None = None
        """The current timer; None while rows are handled."""
        self.timer_cell: Any = None
        """The cell of the current timer; `timer_event_us` is the event time of its output."""
        self.timer_event_us: int | None = None
        self.frame: pl.DataFrame | None = None
        """The rows of the current batch of `on_rows`."""
        self.clock_us = NO_CLOCK_US

    def start_batch(self, cells: list[Any], times: pl.Series | None) -> None:
        """Start a batch of rows, with the cell of each and its event time in microseconds."""
        self.cells, self._times, self._listed = cells, times, None

    @property
    def times(self) -> list[int] | None:
        """The event time of each row of the batch, if any; converted on first use."""
        if self._listed is None and self._times is not None:
            self._listed = self._times.to_list()
        return self._listed

    @property
    def key(self) -> Any:
        """The current key."""
        if self.frame is not None:
            raise RuntimeError("on_rows handles rows of many keys: see the columns of the key")
        found = (self.cells[self.at] if self.timer is None else self.timer_cell)._id
        if found is EVERY_KEY:
            raise RuntimeError("a rule has no key: it applies to all keys")
        return found

    @property
    def time_us(self) -> int | None:
        """The event time of the current row or timer."""
        if self.timer is not None:
            return self.timer_event_us
        if self.frame is not None:
            raise RuntimeError("on_rows handles rows of many times: see self.event_times")
        times = self._listed or self.times
        return None if times is None else times[self.at]

    @property
    def batch_times(self) -> pl.Series | None:
        """The event times of the rows of the current batch of `on_rows`, if any."""
        if self.frame is None or EVENT_TIME not in self.frame.columns:
            return None
        return self.frame[EVENT_TIME]

    @property
    def watermark_us(self) -> int | None:
        """The current event time of the operator; None if it is unknown."""
        return None if self.clock_us == NO_CLOCK_US else self.clock_us

    def get_event_us(self) -> int:
        """Return the current event time: that of the row or timer, or the clock, if later.

        With `order: arrival` rows may be older than the clock.
        """
        if self.timer is None and self._listed is not None:  # a faster path of time_us
            time_us: int | None = self._listed[self.at]
        else:
            time_us = self.time_us
        clock_us = self.clock_us
        return clock_us if time_us is None or time_us < clock_us else time_us
