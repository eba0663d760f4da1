"""Windows that fire when a user class decides so, by the rows that have arrived in them.

The class's state is stored with that of the window. The class is called for each row and window, in
the order of arrival, while the window has not ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.core.aggregates.user_partials import InvalidGroupResult, build_series
from headrace.core.api.state import SLOT
from headrace.core.api.user_code import UserCodeError, format_row, get_instance
from headrace.core.api.window_classes import Window as Named
from headrace.core.operators.folds import GROUP_NUMBER, Fold
from headrace.core.operators.group_error_context import GroupErrorContext
from headrace.core.operators.windows.grid import Grid
from headrace.core.operators.windows.row_trigger_windows import (
    CUT_NUMBER,
    IS_FIRING,
    CutRows,
    RowTriggerWindows,
)
from headrace.core.operators.windows.window_operator import WindowComponents
from headrace.core.plan.nodes import WINDOW_BOUNDS
from headrace.core.plan.nodes.windows import Trigger
from headrace.core.types.data_types import TIMESTAMP, quote_name, to_polars
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.out_of_range_times import find_out_of_range_columns, format_out_of_range

if TYPE_CHECKING:
    import polars as pl


NEW_SUFFIX = "__new"
"""The suffix of a column for its new value."""


class TriggerStateFold:
    """Another fold, with the state of a trigger class in each window.

    Of the states of a window that are merged, at most one has state of the class.
    """

    def __init__(self, fold: Fold, trigger: Trigger) -> None:
        assert trigger.state is not None and trigger.input_columns is not None
        self._fold = fold
        self._trigger_state = {f"__t.{f.name}": to_polars(f.type) for f in trigger.state}
        self.input_columns = fold.input_columns | {*trigger.input_columns.names}
        self.state_columns: Mapping[str, pl.DataType] = {
            **fold.state_columns,
            **self._trigger_state,
        }
        self.finish = fold.finish

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the states of rows, without state of the class."""
        import polars as pl

        nothing = (
            pl.lit(None, dtype=type).alias(name) for name, type in self._trigger_state.items()
        )
        return self._fold.begin(rows, by).with_columns(nothing)

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Merge states, with the class's state from the one that has it."""
        import polars as pl

        merged = self._fold.merge(states, by)
        if not self._trigger_state:
            return merged
        kept = [pl.col(name).drop_nulls().first() for name in self._trigger_state]
        if not by:
            return merged.hstack(states.select(kept))
        return merged.join(states.group_by(by).agg(kept), on=by, nulls_equal=True)


IS_CALLED = "__called"
"""Whether the class was called for a window, and has a new state."""


@dataclass(slots=True)
class _OpenWindow:
    """A window of a key while rows are added to it."""

    bounds: Mapping[str, object]
    """The columns that name it."""
    window: Named
    has_ended: bool
    state: dict[str, Any]
    """The state of the class."""
    firings: int = 0


class UserTriggerWindows(RowTriggerWindows):
    """Windows with a user trigger: its class is called for each row, in the order of arrival.

    The grid of `parts` has one pane per window; `panes` is the grid by which rows arrive.
    """

    def __init__(
        self, parts: WindowComponents, panes: Grid, error_context: GroupErrorContext
    ) -> None:
        super().__init__(parts, panes)
        trigger = parts.window.trigger
        assert trigger is not None and trigger.code is not None
        assert trigger.state is not None and trigger.input_columns is not None
        self._code = trigger.code
        self._state_fields = {field.name: field for field in trigger.state}
        self._row_columns = trigger.input_columns.names
        self._error_context = error_context

    def _fire(self, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        known = self._pane_state.runs.take_keys(rows.select(self._pane_state.key).unique())
        return self._fire_windows(rows, known)

    def _number_cuts(self, rows: pl.DataFrame, known: pl.DataFrame | None) -> CutRows:
        import polars as pl

        by = self._pane_state.group_columns
        groups = rows.select(by).unique(maintain_order=True).with_row_index(GROUP_NUMBER)
        windows = self._open_windows(groups, known)
        numbers = rows.select(by).join(
            groups, on=by, how="left", nulls_equal=True, maintain_order="left"
        )
        cuts, fires = list[int](), list[bool]()
        for at, row in zip(numbers[GROUP_NUMBER], self._iterate_rows(rows), strict=True):
            cuts.append(windows[at].firings)
            fires.append(self._add_row(windows[at], row))
        marked = rows.with_columns(
            pl.Series(CUT_NUMBER, cuts, dtype=pl.Int64), pl.Series(IS_FIRING, fires, pl.Boolean())
        )
        columns = [self._build_state_column(name, windows) for name in self._state_fields]
        called = pl.lit(True).alias(IS_CALLED)
        return CutRows(marked, groups.select(by).hstack(columns).with_columns(called))

    def _update_state(self, last: pl.DataFrame, trigger_state: pl.DataFrame | None) -> pl.DataFrame:
        """Return the windows with the new state of the class where it was called."""
        import polars as pl

        assert trigger_state is not None
        by = self._pane_state.group_columns
        news = [
            pl.when(pl.col(IS_CALLED))
            .then(pl.col(f"__t.{name}{NEW_SUFFIX}"))
            .otherwise(pl.col(f"__t.{name}"))
            .alias(f"__t.{name}")
            for name in self._state_fields
        ]
        return last.join(trigger_state, on=by, how="left", nulls_equal=True).with_columns(news)

    def _open_windows(self, groups: pl.DataFrame, known: pl.DataFrame | None) -> list[_OpenWindow]:
        """Return these windows with the stored state of the class."""
        import polars as pl

        by, now_us = self._pane_state.group_columns, self._clock.now_us
        states: list[dict[str, Any]] = [self._make_state() for _ in range(groups.height)]
        if known is not None and self._state_fields:
            found = groups.join(known, on=by, how="left", nulls_equal=True, maintain_order="left")
            states = found.select(
                pl.col(f"__t.{name}").alias(name) for name in self._state_fields
            ).to_dicts()
        return [
            _OpenWindow(bounds, self._error_context.build_window(bounds), end <= now_us, state)
            for bounds, end, state in zip(
                self._name_windows(groups).to_dicts(), groups[SLOT].to_list(), states, strict=True
            )
        ]

    def _make_state(self) -> dict[str, Any]:
        return dict.fromkeys(self._state_fields)

    def _iterate_rows(self, rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as the class gets them."""
        shown = rows.select(self._row_columns)
        for at, column in enumerate(find_out_of_range_columns(shown)):
            if column is not None:
                name = f"{self._code.display_name}: column {quote_name(column)}"
                row = format_row(format_out_of_range(shown.slice(at, 1)).row(0, named=True))
                message = f"{name} has a time outside the years 1 to 9999 (in the row {row})"
                hint = "Python has no such time: drop it before the step, or cast it to string"
                raise UserCodeError(message, hint)
        return shown.iter_rows(named=True)

    def _add_row(self, window: _OpenWindow, row: dict[str, Any]) -> bool:
        """Return whether a window fires with this row; one that has ended always does."""
        fires = window.has_ended or self._call_trigger(window, row)
        if fires:
            window.firings += 1
            if not self._window.keeps_rows:
                window.state = self._make_state()
        return fires

    def _call_trigger(self, window: _OpenWindow, row: dict[str, Any]) -> bool:
        state = window.state
        try:
            answer = get_instance(self._code).on_row(row, state, window.window)
        except Exception as error:
            failed = UserCodeError(self._code.format_error(error))
            raise self._add_context(failed, window.bounds) from error
        if state.keys() != self._state_fields.keys():
            known = ", ".join(self._state_fields) or "nothing"
            message = (
                f"{self._code.display_name} keeps {', '.join(state) or 'nothing'}, not {known}"
            )
            hint = f'declare it in class {self._code.name}, as in state = {{"n": "bigint"}}'
            raise self._add_context(UserCodeError(message, hint), window.bounds)
        if not isinstance(answer, bool):
            came = type(answer).__name__
            message = f"{self._code.display_name}: on_row must return True or False, got {came}"
            raise self._add_context(UserCodeError(message), window.bounds)
        return answer

    def _build_state_column(self, name: str, windows: Sequence[_OpenWindow]) -> pl.Series:
        what = f'{self._code.display_name} keeps a "{name}"'
        values = [window.state[name] for window in windows]
        try:
            return build_series(
                f"__t.{name}{NEW_SUFFIX}", values, self._state_fields[name].type, what
            )
        except InvalidGroupResult as unfit:
            raise self._add_context(unfit, windows[unfit.at].bounds) from unfit.__cause__

    def _add_context(self, error: UserCodeError, bounds: Mapping[str, object]) -> UserCodeError:
        where = self._error_context.describe_group(bounds)
        return UserCodeError(f"{error.message} ({where})" if where else error.message, error.hint)

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
