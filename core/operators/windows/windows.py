"""The operator of windows of time: rows are filed by pane, and put out when time passes a window.

The watermark is its clock. A row is late when every window that it is in has ended, and has had its
time for late rows; such rows are counted, and go out on a stream of their own if one is wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, FOREVER_US
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.operator import Output
from headrace.core.operators.windows.filing import Filed
from headrace.core.operators.windows.grid import Grid
from headrace.core.operators.windows.results import Results
from headrace.core.plan.windows import Window
from headrace.core.state import SLOT, StepState

if TYPE_CHECKING:
    import polars as pl


class Windows:
    """Windows that are one pane each, by event time."""

    def __init__(
        self,
        window: Window,
        grid: Grid,
        grouping: Grouping,
        filed: Filed,
        results: Results,
        state: StepState,
        *,
        late_read: bool,
    ) -> None:
        import polars as pl

        self._window = window
        self._grid = grid
        self._grouping = grouping
        self._filed = filed
        self._results = results
        self._state = state
        self._late_to = window.late_to if late_read else None
        self._pane = grid.pane(pl.col(EVENT_TIME).cast(pl.Int64)).alias(SLOT)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """File the rows that are not late."""
        if not frame.height:
            return
        rows = self._grouping.picked(frame, self._filed.fold.reads, self._pane)
        least, closed = int(rows[SLOT].min()), self._closed_us()  # type: ignore[arg-type]
        if least <= closed:
            late = rows[SLOT] <= closed
            self._state.counts.late += int(late.sum())
            if self._late_to is not None:
                yield self._late_to, frame.filter(late)
            rows = rows.filter(~late)
            if not rows.height:
                return
            least = int(rows[SLOT].min())  # type: ignore[arg-type]
        self._filed.add(rows, least)
        if least <= self._state.clock_us:
            yield from self._again(rows)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Put out the windows that have ended."""
        before = self._state.clock_us
        if watermark_us <= before:
            return
        self._state.clock_us = watermark_us
        first = self._filed.first()
        if first is None or first > watermark_us:
            return
        self._filed.settle_until(watermark_us)
        if self._window.lateness_us:
            due = self._filed.runs.read(before, watermark_us)
            self._filed.runs.drop(self._closed_us())
        else:
            due = self._filed.runs.take(watermark_us)
        if due is not None:
            yield from self._results.rows(due)

    def due_us(self) -> int | None:
        """Event time is not of the wall clock."""
        return None

    def tick(self, now_us: int) -> Iterator[Output]:
        """Event time is not of the wall clock."""
        return iter(())

    @property
    def held(self) -> int:
        """How many rows are kept."""
        return self._filed.rows

    def _closed_us(self) -> int:
        """The last pane that takes no more rows."""
        now = self._state.clock_us
        if now == FOREVER_US:
            return now
        return self._grid.before(self._grid.next_end(now - self._window.lateness_us))

    def _again(self, rows: pl.DataFrame) -> Iterator[Output]:
        """Put out again the windows that had ended and have changed."""
        import polars as pl

        self._filed.settle()
        changed = rows.filter(pl.col(SLOT) <= self._state.clock_us).select(self._filed.by)
        keys = changed.select(self._grouping.inside)
        states = self._filed.runs.of_keys(keys, self._closed_us())
        if states is not None:
            states = states.join(changed, on=self._filed.by, how="semi", nulls_equal=True)
            yield from self._results.rows(self._filed.merged(states))
