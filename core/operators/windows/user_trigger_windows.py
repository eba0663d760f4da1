"""Windows that fire when a user class decides so, by rows and timers.

The class's state is stored with that of the window. The class is called for each row and window, in
the order of arrival, and for each timer, in the order of time, while the window has not ended. As
time advances, the timers of a window fire before its end, and all firings of a key are emitted in
the order of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace.core.api.state import SLOT
from headrace.core.operators.folds import GROUP_NUMBER
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.operators.operator import Output, request_offload
from headrace.core.operators.windows.due_windows import DueWindows
from headrace.core.operators.windows.grid import Grid
from headrace.core.operators.windows.row_trigger_windows import (
    CUT_NUMBER,
    IS_FIRING,
    CutRows,
    RowTriggerWindows,
)
from headrace.core.operators.windows.trigger_calls import (
    NEW_SUFFIX,
    STATE_PREFIX,
    OpenWindow,
    TriggerCaller,
)
from headrace.core.operators.windows.trigger_timers import (
    FIRING_TIME,
    DueTimers,
    TimerIndex,
    record_timers,
)
from headrace.core.operators.windows.window_operator import WindowComponents
from headrace.core.plan.nodes import WINDOW_BOUNDS
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import MAX_WATERMARK_US

if TYPE_CHECKING:
    import polars as pl


IS_CALLED = "__called"
"""Whether the class was called for a window, and has a new state."""


class UserTriggerWindows(RowTriggerWindows):
    """Windows with a user trigger.

    The grid of `parts` has one pane per window; `panes` is the grid by which rows arrive.
    """

    def __init__(
        self, parts: WindowComponents, panes: Grid, grouping: GroupingKey, caller: TriggerCaller
    ) -> None:
        super().__init__(parts, panes)
        self._caller = caller
        self._timers = TimerIndex.open_all(parts.context.state, grouping, caller.timers)
        """By whether they are by the wall clock."""
        self._timer_firings: pl.DataFrame | None = None
        """The firings of timers that are emitted with those of windows that end."""

    def next_tick_us(self) -> int | None:
        """Return the wall-clock time when windows end or a timer is due."""
        clocks = self._timers.get(True)
        due = (super().next_tick_us(), None if clocks is None else clocks.first_us)
        return min((at for at in due if at is not None), default=None)

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        yield from super().tick(now_us)
        if not self._window.uses_processing_time and True in self._timers:
            yield from request_offload(self._pane_state.count_deferred_rows(for_lookup=True))
            fired = self._fire_timers(self._timers[True], now_us + 1, self._clock.now_us)
            yield from self._parts.results.emit_in_order(_drop_time(fired))

    @property
    def pending_rows(self) -> int:
        """The number of stored rows and of timers of event time."""
        return super().pending_rows + (self._timers[False].rows if False in self._timers else 0)

    def _advance_clock(self, now_us: int) -> Iterator[Output]:
        """Advance the window clock, and emit what timers and ends of windows fire, in order."""
        by_wall, has_ended = self._window.uses_processing_time, now_us == MAX_WATERMARK_US
        timers = self._timers.get(by_wall)
        # A tick may be at the time to which the wall clock has come before.
        is_new = now_us > self._clock.now_us or by_wall
        if timers is not None and is_new and not (by_wall and has_ended):
            yield from request_offload(self._pane_state.count_deferred_rows(for_lookup=True))
            self._timer_firings = self._fire_timers(timers, now_us + by_wall, now_us)
        yield from super()._advance_clock(now_us)
        fired, self._timer_firings = self._timer_firings, None
        yield from self._parts.results.emit_in_order(_drop_time(fired))
        if has_ended:  # with the windows, their timers are gone
            for each in self._timers.values():
                each.drop()

    def _emit(self, due: DueWindows, late: pl.DataFrame | None = None) -> Iterator[Output]:
        """Emit due windows, with the firings of timers among them."""
        import polars as pl

        fired, self._timer_firings = self._timer_firings, None
        if fired is None:
            yield from super()._emit(due, late)
            return
        ends = [
            each.with_columns(pl.col(SLOT).alias(FIRING_TIME))
            for each in self._read_windows(due, late)
        ]
        whole = pl.concat([fired, *(each.select(fired.columns) for each in ends)])
        whole = whole.sort(FIRING_TIME, maintain_order=True)
        yield from self._parts.results.emit_in_order(_drop_time(whole))

    def _fire_timers(
        self, timers: TimerIndex, before_us: int, ended_us: int
    ) -> pl.DataFrame | None:
        """Fire the timers before a time; return the states of windows, with FIRING_TIME.

        Windows that end up to `ended_us` have no timers afterwards.
        """
        import polars as pl

        filed, keeps_rows = self._pane_state, self._window.keeps_rows
        keys = timers.take_keys(before_us)
        known = None if keys is None else filed.runs.take_keys(keys)
        if known is None:
            return None
        known = known.sort(SLOT)
        windows = self._open_windows(known.select(filed.group_columns), known)
        by_window_clock = timers is self._timers.get(self._window.uses_processing_time)
        due = DueTimers(timers.names, before_us, by_window_clock, keeps_rows)
        self._caller.reached_us = ended_us
        firings = due.fire(windows, self._caller)
        now = self._caller.replace_states(known, windows)
        if firings and not keeps_rows:
            now = now.filter(pl.Series([not window.firings for window in windows]))
        filed.runs.add(now)
        self._record_timers(now, known, ended_us, taken=timers)
        if not firings:
            return None
        # A timer fires before a window that ends in the next microsecond.
        times = pl.Series(FIRING_TIME, [each.at_us + 1 for each in firings], pl.Int64)
        return known[[each.window for each in firings]].with_columns(times)

    def _fire(self, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        known = self._pane_state.runs.take_keys(rows.select(self._pane_state.key).unique())
        return self._fire_windows(rows, known)

    def _number_cuts(self, rows: pl.DataFrame, known: pl.DataFrame | None) -> CutRows:
        import polars as pl

        by, caller = self._pane_state.group_columns, self._caller
        groups = rows.select(by).unique(maintain_order=True).with_row_index(GROUP_NUMBER)
        windows = self._open_windows(groups, known)
        numbers = rows.select(by).join(
            groups, on=by, how="left", nulls_equal=True, maintain_order="left"
        )
        cuts, fires = list[int](), list[bool]()
        for at, row in zip(numbers[GROUP_NUMBER], caller.iterate_rows(rows), strict=True):
            cuts.append(windows[at].firings)
            fires.append(self._add_row(windows[at], row))
        marked = rows.with_columns(
            pl.Series(CUT_NUMBER, cuts, dtype=pl.Int64), pl.Series(IS_FIRING, fires, pl.Boolean())
        )
        columns = [caller.build_state_column(name, windows) for name in caller.state_fields]
        called = pl.lit(True).alias(IS_CALLED)
        state = groups.select(by).hstack(columns).with_columns(called)
        return CutRows(marked, state, known)

    def _update_state(self, last: pl.DataFrame, cut_rows: CutRows) -> pl.DataFrame:
        """Return the windows with the new state of the class where it was called."""
        import polars as pl

        assert cut_rows.trigger_state is not None
        by = self._pane_state.group_columns
        news = [
            pl.when(pl.col(IS_CALLED))
            .then(pl.col(f"{STATE_PREFIX}{name}{NEW_SUFFIX}"))
            .otherwise(pl.col(f"{STATE_PREFIX}{name}"))
            .alias(f"{STATE_PREFIX}{name}")
            for name in self._caller.state_fields
        ]
        now = last.join(cut_rows.trigger_state, on=by, how="left", nulls_equal=True).with_columns(
            news
        )
        self._record_timers(now, cut_rows.known, self._clock.now_us)
        return now

    def _record_timers(
        self,
        now: pl.DataFrame,
        known: pl.DataFrame | None,
        ended_us: int,
        taken: TimerIndex | None = None,
    ) -> None:
        """Record the first timers of keys in windows that end after a time."""
        import polars as pl

        if not self._timers:
            return
        is_open = pl.col(SLOT) > ended_us
        before = None if known is None else known.filter(is_open)
        record_timers(self._timers.values(), now.filter(is_open), before, taken)

    def _open_windows(self, groups: pl.DataFrame, known: pl.DataFrame | None) -> list[OpenWindow]:
        """Return these windows with the stored state of the class."""

        by, now_us, fields = (
            self._pane_state.group_columns,
            self._clock.now_us,
            self._caller.state_fields,
        )
        states: list[dict[str, Any]] = [self._caller.create_state() for _ in range(groups.height)]
        if known is not None and fields:
            found = groups.join(known, on=by, how="left", nulls_equal=True, maintain_order="left")
            states = self._caller.read_states(found)
        return [
            OpenWindow(bounds, self._caller.build_window(bounds), end, end <= now_us, state)
            for bounds, end, state in zip(
                self._name_windows(groups).to_dicts(), groups[SLOT].to_list(), states, strict=True
            )
        ]

    def _add_row(self, window: OpenWindow, row: dict[str, Any]) -> bool:
        """Return whether a window fires with this row; one that has ended always does."""
        fires = window.has_ended or self._caller.call_row(window, row)
        if fires:
            window.firings += 1
            if not self._window.keeps_rows:
                window.state = self._caller.create_state()
        return fires

    def _name_windows(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Return the columns that name each window."""
        import polars as pl

        end = pl.col(SLOT)
        if not self._window.has_bounds:
            return groups.select(*self._pane_state.key, pl.lit(MAX_WATERMARK_US).alias(SLOT))
        time = to_polars(TIMESTAMP)
        bounds = (self._panes.window_start(end).cast(time), end.cast(time))
        named = (bound.alias(name) for bound, name in zip(bounds, WINDOW_BOUNDS, strict=True))
        return groups.select(*self._pane_state.key, *named)


def _drop_time(fired: pl.DataFrame | None) -> list[pl.DataFrame]:
    return [] if fired is None else [fired.drop(FIRING_TIME)]
