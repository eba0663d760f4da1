"""Windows that also fire whenever a number of rows of a key has arrived in them.

A row is added to each of its windows when it arrives, since each counts separately, and the keys of
a batch are looked up at once, since their windows may fire. Every firing is emitted, with the rows
up to that at which it fires, in arrival order: results do not depend on where batches are cut. Of a
discarding window only the rest stays in its state.

Windows that fire when a user class decides so, by the rows that have arrived in them.

As with a count trigger, a row is added to each of its windows when it arrives, and the keys of a
batch are looked up at once: the class's state is stored with that of the window. The class is
called once for each key and window with rows in the batch, while the window has not ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from headrace.core.aggregates.user_partials import InvalidGroupResult, build_series
from headrace.core.api.state import SLOT
from headrace.core.api.user_code import UserCodeError, get_instance
from headrace.core.operators.folds import ROW_COUNT, Fold
from headrace.core.operators.group_error_context import GroupErrorContext
from headrace.core.operators.operator import Output, request_offload
from headrace.core.operators.windows.due_windows import DueWindows
from headrace.core.operators.windows.grid import Grid
from headrace.core.operators.windows.pane_expander import expand_rows
from headrace.core.operators.windows.window_operator import WindowComponents, WindowOperator
from headrace.core.operators.windows.window_rows import ArrivedRows
from headrace.core.plan.nodes import WINDOW_BOUNDS
from headrace.core.plan.nodes.windows import Trigger
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import MAX_WATERMARK_US

if TYPE_CHECKING:
    import polars as pl


CUT_NUMBER = "__turn"
"""The number of the firing, of a key and window, that a new row is first part of."""


IS_FIRING = "__fires"
"""Whether a window fires with this row."""


MAX_FIRING_BYTES = 1 << 26
"""The approximate memory of the states that are merged for firings at once."""


class RowTriggerWindows(WindowOperator, ABC):
    """Windows that fire at certain rows: each firing is emitted, in the order of these rows.

    The grid of `parts` has one pane per window; `panes` is the grid by which rows arrive. The rows
    of a key and window are cut after each row at which it fires, and each cut is folded on its own.
    """

    def __init__(self, parts: WindowComponents, panes: Grid) -> None:
        super().__init__(parts)
        self._panes = panes
        self._cut_columns = (*self._pane_state.group_columns, CUT_NUMBER)
        states = self._pane_state.fold.state_columns.values()
        self._may_grow = self._window.keeps_rows and any(type.is_nested() for type in states)

    @abstractmethod
    def _number_cuts(self, rows: pl.DataFrame, known: pl.DataFrame | None) -> pl.DataFrame:
        """Return the rows with IS_FIRING and CUT_NUMBER, from 0 for each key and window.

        `known` are the stored states of windows. A window that has ended fires at each row.
        """

    @abstractmethod
    def _mark_emitted(self, last: pl.DataFrame) -> pl.DataFrame:
        """Return the state to store of windows after their last row."""

    def _store_rows(self, came: ArrivedRows) -> Iterator[Output]:
        yield from request_offload(self._pane_state.count_deferred_rows(asking=True))
        for rows in expand_rows(self._panes, came.rows, self._clock.closed_end_us):
            yield from self._parts.results.emit_in_order(self._fire(rows))

    @abstractmethod
    def _fire(self, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Add rows to their windows, and return the state of each firing."""

    def _fire_windows(
        self, rows: pl.DataFrame, known: pl.DataFrame | None
    ) -> Iterator[pl.DataFrame]:
        """Add rows to windows with these stored states, and return the state of each firing."""
        import polars as pl

        filed = self._pane_state
        numbered = self._number_cuts(rows, known)
        fires = numbered.filter(IS_FIRING).select(self._cut_columns)
        if self._may_grow and self._is_too_much(rows, known, fires):
            if known is not None:
                filed.runs.add(known)
            yield from self._fire(rows.head(rows.height // 2))
            yield from self._fire(rows.tail(-(rows.height // 2)))
            return
        cuts = filed.fold.begin(numbered, self._cut_columns)
        if known is not None:
            first = known.with_columns(pl.lit(0, dtype=pl.Int64).alias(CUT_NUMBER))
            cuts = filed.fold.merge(_concat(cuts, first), self._cut_columns)
        if self._window.keeps_rows:
            cuts = self._add_earlier_cuts(cuts)
        self._store_last_cuts(cuts, fires)
        if fires.height:
            found = fires.join(
                cuts, on=self._cut_columns, how="left", nulls_equal=True, maintain_order="left"
            )
            yield found.select(*filed.group_columns, *filed.fold.state_columns)

    def _is_too_much(
        self, rows: pl.DataFrame, known: pl.DataFrame | None, fires: pl.DataFrame
    ) -> bool:
        """Whether the states of these firings may take too much memory."""
        if fires.height < 2:
            return False
        most = fires.group_by(self._pane_state.group_columns).len()["len"].max()
        assert isinstance(most, int)
        size = rows.estimated_size() + (0 if known is None else known.estimated_size())
        return most > 1 and most * size > MAX_FIRING_BYTES

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

    def _store_last_cuts(self, cuts: pl.DataFrame, fires: pl.DataFrame) -> None:
        """Store each window as it is after its last row; a discarding one without what fired."""
        import polars as pl

        filed = self._pane_state
        if fires.height and not self._window.keeps_rows:
            cuts = cuts.join(fires, on=self._cut_columns, how="anti", nulls_equal=True)
        elif fires.height:
            number = pl.col(CUT_NUMBER)
            cuts = cuts.filter(number == number.max().over(filed.group_columns))
        stored = self._mark_emitted(cuts)
        filed.runs.add(stored.select(*filed.group_columns, *filed.fold.state_columns))


class CountTriggerWindows(RowTriggerWindows):
    """Windows with a count trigger.

    ROW_COUNT is the number of rows of a key and window since it was last emitted. A window without
    such rows is not emitted again at its end.
    """

    def __init__(self, parts: WindowComponents, panes: Grid, count: int) -> None:
        super().__init__(parts, panes)
        self._count = count

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

    def _number_cuts(self, rows: pl.DataFrame, known: pl.DataFrame | None) -> pl.DataFrame:
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
        return rows.with_columns(cut.alias(CUT_NUMBER), fires.alias(IS_FIRING)).drop(
            ROW_COUNT, strict=False
        )

    def _mark_emitted(self, last: pl.DataFrame) -> pl.DataFrame:
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


NEW_ROWS = "__came"
"""The new rows of a window."""


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


class UserTriggerWindows(WindowOperator):
    """Windows with a user trigger.

    The grid of `parts` has one pane per window; `panes` is the grid by which rows arrive.
    """

    def __init__(
        self, parts: WindowComponents, panes: Grid, error_context: GroupErrorContext
    ) -> None:
        super().__init__(parts)
        self._panes = panes
        trigger = parts.window.trigger
        assert trigger is not None and trigger.code is not None
        assert trigger.state is not None and trigger.input_columns is not None
        self._code = trigger.code
        self._state_fields = {field.name: field for field in trigger.state}
        self._row_columns = trigger.input_columns.names
        self._error_context = error_context

    def _store_rows(self, came: ArrivedRows) -> Iterator[Output]:
        yield from request_offload(self._pane_state.count_deferred_rows(asking=True))
        make = self._fire_accumulating if self._window.keeps_rows else self._fire_discarding
        for rows in expand_rows(self._panes, came.rows, self._clock.closed_end_us):
            yield from self._parts.results.emit([make(rows)])

    def _fire_accumulating(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the windows that fire, including ended ones."""
        states = self._evaluate(rows)
        return self._store_windows(states, states.clear())

    def _fire_discarding(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the windows that fire, including ended ones, and remove them."""
        import polars as pl

        states = self._evaluate(rows)
        return self._store_windows(states, states.filter(pl.col(IS_FIRING)))

    def _store_windows(self, states: pl.DataFrame, gone: pl.DataFrame) -> pl.DataFrame:
        """Store all windows but the removed ones, and return those that fire."""
        import polars as pl

        by, kept = (
            self._pane_state.group_columns,
            (*self._pane_state.group_columns, *self._pane_state.fold.state_columns),
        )
        left = states.join(gone, on=by, how="anti", nulls_equal=True) if gone.height else states
        self._pane_state.runs.add(left.select(kept))
        return states.filter(pl.col(IS_FIRING)).select(kept)

    def _evaluate(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the windows of these rows' keys with IS_FIRING and the class's new state."""
        import polars as pl

        filed, by = self._pane_state, self._pane_state.group_columns
        came = filed.fold.begin(rows, by)
        known = filed.runs.take_keys(came.select(filed.key).unique())
        columns = (*by, *filed.fold.state_columns)
        states = came.select(columns)
        if known is not None:
            states = filed.merge_panes(known.select(columns).vstack(states))
        groups = rows.group_by(by, maintain_order=True).agg(
            pl.struct(self._row_columns).implode().alias(NEW_ROWS)
        )
        answers = self._call_trigger(
            groups.join(states, on=by, nulls_equal=True, maintain_order="left")
        )
        found = states.join(answers, on=by, how="left", nulls_equal=True)
        news = [
            pl.when(pl.col(IS_FIRING).is_null())
            .then(pl.col(f"__t.{name}"))
            .otherwise(pl.col(f"__t.{name}{NEW_SUFFIX}"))
            .alias(f"__t.{name}")
            for name in self._state_fields
        ]
        return found.with_columns(*news, pl.col(IS_FIRING).fill_null(False)).select(
            *columns, IS_FIRING
        )

    def _call_trigger(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Call the class with the new rows of each window; return its answers and states."""
        import polars as pl

        bounds = self._name_windows(groups)
        ended = (groups[SLOT] <= self._clock.now_us).to_list()
        flat = groups[NEW_ROWS].explode().struct.unnest()
        kept = groups.select(pl.col(f"__t.{name}").alias(name) for name in self._state_fields)
        states = kept.to_dicts() if self._state_fields else [{} for _ in ended]
        fires, start = list[bool](), 0
        for at, length in enumerate(groups[NEW_ROWS].list.len().to_list()):
            piece, start = flat.slice(start, length), start + length
            fires.append(
                True if ended[at] else self._evaluate_window(piece, states[at], bounds, at)
            )
        columns = [
            self._build_state_column(name, [state[name] for state in states], bounds)
            for name in self._state_fields
        ]
        answers = groups.select(self._pane_state.group_columns)
        return answers.hstack([*columns, pl.Series(IS_FIRING, fires, dtype=pl.Boolean())])

    def _evaluate_window(
        self, rows: pl.DataFrame, state: dict[str, Any], bounds: pl.DataFrame, at: int
    ) -> bool:
        row = bounds.row(at, named=True)
        made = get_instance(self._code)
        try:
            answer = made.on_rows(rows, state, self._error_context.build_window(row))
        except Exception as error:
            raise self._add_context(UserCodeError(self._code.format_error(error)), row) from error
        if state.keys() != self._state_fields.keys():
            known = ", ".join(self._state_fields) or "nothing"
            message = (
                f"{self._code.display_name} keeps {', '.join(state) or 'nothing'}, not {known}"
            )
            hint = f'declare it in class {self._code.name}, as in state = {{"n": "bigint"}}'
            raise self._add_context(UserCodeError(message, hint), row)
        if not isinstance(answer, bool):
            came = type(answer).__name__
            message = f"{self._code.display_name}: on_rows must return True or False, got {came}"
            raise self._add_context(UserCodeError(message), row)
        return answer

    def _build_state_column(
        self, name: str, values: list[object], bounds: pl.DataFrame
    ) -> pl.Series:
        what = f'{self._code.display_name} keeps a "{name}"'
        try:
            return build_series(
                f"__t.{name}{NEW_SUFFIX}", values, self._state_fields[name].type, what
            )
        except InvalidGroupResult as unfit:
            row = bounds.row(unfit.at, named=True)
            raise self._add_context(unfit, row) from unfit.__cause__

    def _add_context(self, error: UserCodeError, row: Mapping[str, object]) -> UserCodeError:
        where = self._error_context.describe_group(row)
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
