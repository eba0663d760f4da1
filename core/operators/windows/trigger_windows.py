"""Windows that also fire whenever a number of rows of a key has arrived in them.

A row is added to each of its windows when it arrives, since each counts separately, and the keys of
a batch are looked up at once, since their windows may fire. An accumulating window is emitted at
most once per batch. A discarding one is cut at exactly the count of rows, in arrival order, and
only the rest stays in its state.

Windows that fire when a user class decides so, by the rows that have arrived in them.

As with a count trigger, a row is added to each of its windows when it arrives, and the keys of a
batch are looked up at once: the class's state is stored with that of the window. The class is
called once for each key and window with rows in the batch, while the window has not ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.aggregates.user_partials import InvalidGroupResult, build_series
from headrace.core.api.state import SLOT
from headrace.core.api.user_code import UserCodeError, get_instance
from headrace.core.operators.folds import ROW_COUNT, Fold
from headrace.core.operators.group_error_context import GroupErrorContext
from headrace.core.operators.operator import Output, request_offload
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
"""The number of the cut, of a count of rows each, that a row of a key and window belongs to."""


class CountTriggerWindows(WindowOperator):
    """Windows with a count trigger.

    The grid of `parts` has one pane per window; `panes` is the grid by which rows arrive. ROW_COUNT
    is the number of rows of a key and window since it was last emitted.
    """

    def __init__(self, parts: WindowComponents, panes: Grid, count: int) -> None:
        super().__init__(parts)
        self._panes = panes
        self._count = count

    def _store_rows(self, came: ArrivedRows) -> Iterator[Output]:
        yield from request_offload(self._pane_state.count_deferred_rows(asking=True))
        make = self._fire_accumulating if self._window.keeps_rows else self._fire_discarding
        for rows in expand_rows(self._panes, came.rows, self._clock.closed_end_us):
            yield from self._parts.results.emit([make(rows)])

    def _fire_accumulating(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the windows with enough new rows, and the ended windows with new rows."""
        import polars as pl

        filed = self._pane_state
        came = filed.fold.begin(rows, filed.group_columns)
        known = filed.runs.take_keys(came.select(filed.key).unique())
        states = came if known is None else filed.merge_panes(_concat(known, came))
        full = pl.col(ROW_COUNT) >= self._count
        filed.runs.add(
            states.with_columns(pl.when(full).then(0).otherwise(ROW_COUNT).alias(ROW_COUNT))
        )
        ended = came.filter(pl.col(SLOT) <= self._clock.now_us).select(filed.group_columns)
        again = states.join(ended, on=filed.group_columns, how="semi", nulls_equal=True).filter(
            ~full
        )
        return _concat(states.filter(full), again)

    def _fire_discarding(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the cuts that are full, and the rows of ended windows."""
        import polars as pl

        filed = self._pane_state
        by = (*filed.group_columns, CUT_NUMBER)
        known = filed.runs.take_keys(rows.select(filed.key).unique())
        turns = self._number_cuts(rows, known)
        states = filed.fold.begin(turns, by)
        if known is not None:
            first = known.with_columns(pl.lit(0, dtype=pl.Int64).alias(CUT_NUMBER))
            states = filed.fold.merge(_concat(states, first), by)
        full = (pl.col(ROW_COUNT) == self._count) | (pl.col(SLOT) <= self._clock.now_us)
        kept = (*filed.group_columns, *filed.fold.state_columns)
        filed.runs.add(states.filter(~full).select(kept))
        return states.filter(full).sort(CUT_NUMBER).select(kept)

    def _number_cuts(self, rows: pl.DataFrame, known: pl.DataFrame | None) -> pl.DataFrame:
        import polars as pl

        by = self._pane_state.group_columns
        number = pl.int_range(pl.len(), dtype=pl.Int64).over(by)
        if known is None:
            return rows.with_columns((number // self._count).alias(CUT_NUMBER))
        before = known.select(*by, ROW_COUNT)
        found = rows.join(before, on=by, how="left", nulls_equal=True, maintain_order="left")
        turn = (number + pl.col(ROW_COUNT).fill_null(0)) // self._count
        return found.with_columns(turn.alias(CUT_NUMBER)).drop(ROW_COUNT)


def _concat(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    return first.vstack(second.select(first.columns))


NEW_ROWS = "__came"
"""The new rows of a window."""


IS_FIRING = "__fires"


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


class UserTriggerWindows(CountTriggerWindows):
    """Windows with a user trigger.

    The grid of `parts` has one pane per window; `panes` is the grid by which rows arrive.
    """

    def __init__(
        self, parts: WindowComponents, panes: Grid, error_context: GroupErrorContext
    ) -> None:
        super().__init__(parts, panes, 0)
        trigger = parts.window.trigger
        assert trigger is not None and trigger.code is not None
        assert trigger.state is not None and trigger.input_columns is not None
        self._code = trigger.code
        self._state_fields = {field.name: field for field in trigger.state}
        self._row_columns = trigger.input_columns.names
        self._error_context = error_context

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
