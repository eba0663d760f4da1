"""Windows that fire when a user class decides so, by the rows that have arrived in them.

As with a count trigger, a row is added to each of its windows when it arrives, and the keys of a
batch are looked up at once: the class's state is stored with that of the window. The class is
called once for each key and window with rows in the batch, while the window has not ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.aggregates.partials import Unfit, series
from headrace.core.elements import FOREVER_US
from headrace.core.operators.folds import Fold
from headrace.core.operators.telling import Telling
from headrace.core.operators.windows.counted import Counted
from headrace.core.operators.windows.grid import Grid
from headrace.core.operators.windows.windows import Parts
from headrace.core.plan.nodes import BOUNDS
from headrace.core.plan.windows import Trigger
from headrace.core.state import SLOT
from headrace.core.types import TIMESTAMP, to_polars
from headrace.core.user_code import UserCodeError, made_of

if TYPE_CHECKING:
    import polars as pl

CAME = "__came"
"""The new rows of a window."""
FIRES = "__fires"
NEW = "__new"
"""The suffix of a column for its new value."""


class Remembering:
    """Another fold, with the state of a trigger class in each window.

    Of the states of a window that are merged, at most one has state of the class.
    """

    def __init__(self, fold: Fold, trigger: Trigger) -> None:
        assert trigger.state is not None and trigger.of is not None
        self._fold = fold
        self._trigger_state = {f"__t.{f.name}": to_polars(f.type) for f in trigger.state}
        self.reads = fold.reads | {*trigger.of.names}
        self.columns: Mapping[str, pl.DataType] = {**fold.columns, **self._trigger_state}
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


class Watched(Counted):
    """Windows with a user trigger.

    The grid of `parts` has one pane per window; `panes` is the grid by which rows arrive.
    """

    def __init__(self, parts: Parts, panes: Grid, telling: Telling) -> None:
        super().__init__(parts, panes, 0)
        trigger = parts.window.trigger
        assert trigger is not None and trigger.code is not None
        assert trigger.state is not None and trigger.of is not None
        self._code = trigger.code
        self._state_fields = {field.name: field for field in trigger.state}
        self._row_columns = trigger.of.names
        self._error_context = telling

    def _accumulated(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the windows that fire, including ended ones."""
        states = self._asked(rows)
        return self._put(states, states.clear())

    def _cut(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the windows that fire, including ended ones, and remove them."""
        import polars as pl

        states = self._asked(rows)
        return self._put(states, states.filter(pl.col(FIRES)))

    def _put(self, states: pl.DataFrame, gone: pl.DataFrame) -> pl.DataFrame:
        """Store all windows but the removed ones, and return those that fire."""
        import polars as pl

        by, kept = self._pane_state.by, (*self._pane_state.by, *self._pane_state.fold.columns)
        left = states.join(gone, on=by, how="anti", nulls_equal=True) if gone.height else states
        self._pane_state.runs.add(left.select(kept))
        return states.filter(pl.col(FIRES)).select(kept)

    def _asked(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the windows of these rows' keys with IS_FIRING and the class's new state."""
        import polars as pl

        filed, by = self._pane_state, self._pane_state.by
        came = filed.fold.begin(rows, by)
        known = filed.runs.take_keys(came.select(filed.key).unique())
        columns = (*by, *filed.fold.columns)
        states = came.select(columns)
        if known is not None:
            states = filed.merged(known.select(columns).vstack(states))
        groups = rows.group_by(by, maintain_order=True).agg(
            pl.struct(self._row_columns).implode().alias(CAME)
        )
        answers = self._answers(groups.join(states, on=by, nulls_equal=True, maintain_order="left"))
        found = states.join(answers, on=by, how="left", nulls_equal=True)
        news = [
            pl.when(pl.col(FIRES).is_null())
            .then(pl.col(f"__t.{name}"))
            .otherwise(pl.col(f"__t.{name}{NEW}"))
            .alias(f"__t.{name}")
            for name in self._state_fields
        ]
        return found.with_columns(*news, pl.col(FIRES).fill_null(False)).select(*columns, FIRES)

    def _answers(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Call the class with the new rows of each window; return its answers and states."""
        import polars as pl

        bounds = self._bounded(groups)
        ended = (groups[SLOT] <= self._clock.us).to_list()
        flat = groups[CAME].explode().struct.unnest()
        kept = groups.select(pl.col(f"__t.{name}").alias(name) for name in self._state_fields)
        states = kept.to_dicts() if self._state_fields else [{} for _ in ended]
        fires, start = list[bool](), 0
        for at, length in enumerate(groups[CAME].list.len().to_list()):
            piece, start = flat.slice(start, length), start + length
            fires.append(True if ended[at] else self._fires(piece, states[at], bounds, at))
        columns = [
            self._column(name, [state[name] for state in states], bounds)
            for name in self._state_fields
        ]
        answers = groups.select(self._pane_state.by)
        return answers.hstack([*columns, pl.Series(FIRES, fires, dtype=pl.Boolean())])

    def _fires(
        self, rows: pl.DataFrame, state: dict[str, Any], bounds: pl.DataFrame, at: int
    ) -> bool:
        row = bounds.row(at, named=True)
        made = made_of(self._code)
        try:
            answer = made.on_rows(rows, state, self._error_context.window(row))
        except Exception as error:
            raise self._told(UserCodeError(self._code.failed(error)), row) from error
        if state.keys() != self._state_fields.keys():
            known = ", ".join(self._state_fields) or "nothing"
            message = f"{self._code.shown} keeps {', '.join(state) or 'nothing'}, not {known}"
            hint = f'declare it in class {self._code.name}, as in state = {{"n": "bigint"}}'
            raise self._told(UserCodeError(message, hint), row)
        if not isinstance(answer, bool):
            came = type(answer).__name__
            message = f"{self._code.shown}: on_rows must return True or False, got {came}"
            raise self._told(UserCodeError(message), row)
        return answer

    def _column(self, name: str, values: list[object], bounds: pl.DataFrame) -> pl.Series:
        what = f'{self._code.shown} keeps a "{name}"'
        try:
            return series(f"__t.{name}{NEW}", values, self._state_fields[name].type, what)
        except Unfit as unfit:
            row = bounds.row(unfit.at, named=True)
            raise self._told(unfit, row) from unfit.__cause__

    def _told(self, error: UserCodeError, row: Mapping[str, object]) -> UserCodeError:
        where = self._error_context.said(row)
        return UserCodeError(f"{error.message} ({where})" if where else error.message, error.hint)

    def _bounded(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Return the columns that name each window."""
        import polars as pl

        end = pl.col(SLOT)
        if not self._window.bounded:
            return groups.select(*self._pane_state.key, pl.lit(FOREVER_US).alias(SLOT))
        time = to_polars(TIMESTAMP)
        bounds = (self._panes.start(end).cast(time), end.cast(time))
        named = (bound.alias(name) for bound, name in zip(bounds, BOUNDS, strict=True))
        return groups.select(*self._pane_state.key, *named)
