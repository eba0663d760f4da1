"""Windows that also fire whenever a number of rows of a key has arrived in them.

A row is added to each of its windows when it arrives, since each counts separately, and the keys of
a batch are looked up at once, since their windows may fire. Every firing is emitted, with the rows
up to that at which it fires, in arrival order: results do not depend on where batches are cut. Of a
discarding window only the rest stays in its state.

Windows that fire when a user class decides so, by the rows that have arrived in them.

As with a count trigger, a row is added to each of its windows when it arrives, and the keys of a
batch are looked up at once: the class's state is stored with that of the window. The class is
called for each row and window, in the order of arrival, while the window has not ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from headrace.core.aggregates.user_partials import InvalidGroupResult, build_series
from headrace.core.api.state import SLOT
from headrace.core.api.user_code import UserCodeError, format_row, get_instance, reraise_interrupt
from headrace.core.api.window_classes import Window as Named
from headrace.core.operators.folds import GROUP_NUMBER, ROW_COUNT, Fold
from headrace.core.operators.group_error_context import GroupErrorContext
from headrace.core.operators.operator import Output, request_offload
from headrace.core.operators.windows.due_windows import DueWindows
from headrace.core.operators.windows.grid import Grid
from headrace.core.operators.windows.pane_expander import expand_rows
from headrace.core.operators.windows.window_operator import WindowComponents, WindowOperator
from headrace.core.operators.windows.window_rows import ArrivedRows
from headrace.core.plan.nodes import WINDOW_BOUNDS
from headrace.core.plan.nodes.windows import Trigger
from headrace.core.types.data_types import TIMESTAMP, quote_name, to_polars
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.out_of_range_times import find_out_of_range_columns, format_out_of_range

if TYPE_CHECKING:
    import polars as pl


CUT_NUMBER = "__turn"
"""The number of the firing, of a key and window, that a new row is first part of."""


IS_FIRING = "__fires"
"""Whether a window fires with this row."""


MAX_FIRING_BYTES = 1 << 26
"""The approximate memory of the states that are merged for firings at once."""


@dataclass(frozen=True, slots=True)
class CutRows:
    """Rows with IS_FIRING and CUT_NUMBER, and the new state of the trigger in their windows."""

    rows: pl.DataFrame
    trigger_state: pl.DataFrame | None = None


class RowTriggerWindows(WindowOperator, ABC):
    """Windows that fire at certain rows: each firing is emitted, in the order of these rows.

    The grid of `parts` has one pane per window; `panes` is the grid by which rows arrive. The rows
    of a key and window are cut after each row at which it fires, and each cut is folded on its own.
    """

    _rows_per_firing = 1
    """The least number of rows of a window that has not ended between two firings."""

    def __init__(self, parts: WindowComponents, panes: Grid) -> None:
        super().__init__(parts)
        self._panes = panes
        self._cut_columns = (*self._pane_state.group_columns, CUT_NUMBER)
        states = self._pane_state.fold.state_columns.values()
        self._may_grow = self._window.keeps_rows and any(type.is_nested() for type in states)

    @abstractmethod
    def _number_cuts(self, rows: pl.DataFrame, known: pl.DataFrame | None) -> CutRows:
        """Return where windows fire; CUT_NUMBER is from 0 for each key and window.

        `known` are the stored states of windows. A window that has ended fires at each row.
        """

    @abstractmethod
    def _update_state(self, last: pl.DataFrame, trigger_state: pl.DataFrame | None) -> pl.DataFrame:
        """Return the state to store of windows after their last row."""

    def _store_rows(self, came: ArrivedRows) -> Iterator[Output]:
        yield from request_offload(self._pane_state.count_deferred_rows(for_lookup=True))
        for rows in expand_rows(self._panes, came.rows, self._clock.closed_end_us):
            yield from self._parts.results.emit_in_order(self._fire(rows))

    @abstractmethod
    def _fire(self, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Add rows to their windows, and return the state of each firing."""

    def _read_windows(self, due: DueWindows, late: pl.DataFrame | None) -> Iterator[pl.DataFrame]:
        """Read the states of windows that end, if they then fire."""
        return super()._read_windows(due, late) if self._window.fires_at_end else iter(())

    def _fire_windows(
        self, rows: pl.DataFrame, known: pl.DataFrame | None
    ) -> Iterator[pl.DataFrame]:
        """Add rows to windows with these stored states, and return the state of each firing."""
        import polars as pl

        filed = self._pane_state
        if self._is_too_much(rows, known):
            if known is not None:
                filed.runs.add(known)
            yield from self._fire(rows.head(rows.height // 2))
            yield from self._fire(rows.tail(-(rows.height // 2)))
            return
        numbered = self._number_cuts(rows, known)
        fires = numbered.rows.filter(IS_FIRING).select(self._cut_columns)
        cuts = filed.fold.begin(numbered.rows, self._cut_columns)
        if known is not None:
            first = known.with_columns(pl.lit(0, dtype=pl.Int64).alias(CUT_NUMBER))
            cuts = filed.fold.merge(_concat(cuts, first), self._cut_columns)
        if self._window.keeps_rows:
            cuts = self._add_earlier_cuts(cuts)
        self._store_last_cuts(cuts, fires, numbered.trigger_state)
        if fires.height:
            found = fires.join(
                cuts, on=self._cut_columns, how="left", nulls_equal=True, maintain_order="left"
            )
            yield found.select(*filed.group_columns, *filed.fold.state_columns)

    def _is_too_much(self, rows: pl.DataFrame, known: pl.DataFrame | None) -> bool:
        """Whether the states of all firings with these rows may take too much memory."""
        if not self._may_grow or rows.height < 2:
            return False
        most = rows.group_by(self._pane_state.group_columns).len()["len"].max()
        assert isinstance(most, int)
        size = rows.estimated_size() + (0 if known is None else known.estimated_size())
        return most > 1 and most * size > MAX_FIRING_BYTES * self._rows_per_firing

    def _add_earlier_cuts(self, cuts: pl.DataFrame) -> pl.DataFrame:
        """Merge into each cut all earlier ones of its window, in a logarithmic number of steps."""
        import polars as pl

        by, number, distance = self._cut_columns, pl.col(CUT_NUMBER), 1
        most = cuts[CUT_NUMBER].max()
        assert most is None or isinstance(most, int)
        while most is not None and distance <= most:
            later = cuts.filter(number >= distance)
            moved = cuts.with_columns(number + distance)
            earlier = moved.join(later.select(by), on=by, how="semi", nulls_equal=True)
            merged = self._pane_state.fold.merge(_concat(later, earlier), by)
            cuts = _concat(cuts.filter(number < distance), merged)
            distance *= 2
        return cuts

    def _store_last_cuts(
        self, cuts: pl.DataFrame, fires: pl.DataFrame, trigger_state: pl.DataFrame | None
    ) -> None:
        """Store each window as it is after its last row; a discarding one without what fired."""
        import polars as pl

        filed = self._pane_state
        if fires.height and not self._window.keeps_rows:
            cuts = cuts.join(fires, on=self._cut_columns, how="anti", nulls_equal=True)
        elif fires.height:
            number = pl.col(CUT_NUMBER)
            cuts = cuts.filter(number == number.max().over(filed.group_columns))
        stored = self._update_state(cuts, trigger_state)
        filed.runs.add(stored.select(*filed.group_columns, *filed.fold.state_columns))


class CountTriggerWindows(RowTriggerWindows):
    """Windows with a count trigger.

    ROW_COUNT is the number of rows of a key and window since it was last emitted. A window without
    such rows is not emitted again at its end.
    """

    def __init__(self, parts: WindowComponents, panes: Grid, count: int) -> None:
        super().__init__(parts, panes)
        self._count = self._rows_per_firing = count

    def _fire(self, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        filed = self._pane_state
        came = filed.fold.begin(rows, filed.group_columns)
        known = filed.runs.take_keys(came.select(filed.key).unique())
        states = came if known is None else filed.merge_panes(_concat(known, came))
        firing = self._find_firing(came, states)
        if not firing.height:
            filed.runs.add(states)
            return
        filed.runs.add(self._match(states, firing, "anti"))
        known = None if known is None else self._match(known, firing, "semi")
        yield from self._fire_windows(self._match(rows, firing, "semi"), known)

    def _find_firing(self, came: pl.DataFrame, states: pl.DataFrame) -> pl.DataFrame:
        """Return the keys and windows that fire as these rows come."""
        import polars as pl

        by = self._pane_state.group_columns
        full = states.filter(pl.col(ROW_COUNT) >= self._count).select(by)
        if not _reaches(came, self._clock.now_us):
            return full
        ended = came.filter(pl.col(SLOT) <= self._clock.now_us).select(by)
        return full.vstack(ended).unique()

    def _match(
        self, frame: pl.DataFrame, windows: pl.DataFrame, how: Literal["semi", "anti"]
    ) -> pl.DataFrame:
        by = self._pane_state.group_columns
        return frame.join(windows, on=by, how=how, nulls_equal=True, maintain_order="left")

    def _number_cuts(self, rows: pl.DataFrame, known: pl.DataFrame | None) -> CutRows:
        import polars as pl

        by = self._pane_state.group_columns
        number = pl.int_range(pl.len(), dtype=pl.Int64).over(by)
        if known is None:
            before = pl.lit(0, dtype=pl.Int64)
        else:
            earlier = known.select(*by, ROW_COUNT)
            rows = rows.join(earlier, on=by, how="left", nulls_equal=True, maintain_order="left")
            before = pl.col(ROW_COUNT).fill_null(0) % self._count
        at = number + before
        cut, fires = at // self._count, (at + 1) % self._count == 0
        if _reaches(rows, self._clock.now_us):
            ended = pl.col(SLOT) <= self._clock.now_us
            cut, fires = pl.when(ended).then(number).otherwise(cut), fires | ended
        marked = rows.with_columns(cut.alias(CUT_NUMBER), fires.alias(IS_FIRING))
        return CutRows(marked.drop(ROW_COUNT, strict=False))

    def _update_state(self, last: pl.DataFrame, trigger_state: pl.DataFrame | None) -> pl.DataFrame:
        import polars as pl

        return last.with_columns(pl.col(ROW_COUNT) % self._count)

    def _read_windows(self, due: DueWindows, late: pl.DataFrame | None) -> Iterator[pl.DataFrame]:
        """Read the windows that end with rows that were not emitted."""
        import polars as pl

        for states in super()._read_windows(due, late):
            yield states.filter(pl.col(ROW_COUNT) > 0)


def _reaches(frame: pl.DataFrame, now_us: int) -> bool:
    """Whether one of these windows has ended."""
    least = frame[SLOT].min()
    return isinstance(least, int) and least <= now_us


def _concat(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    return first.vstack(second.select(first.columns))


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
        except BaseException as error:
            reraise_interrupt(error)
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
