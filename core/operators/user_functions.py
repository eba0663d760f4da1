"""Folds that call user functions: `apply`, and evictors in Python.

All rows of a window are kept until it fires. `apply` turns them into output rows; an evictor
chooses which of them the aggregates, `apply` or `top` see. The function is called once per key and
window, with a DataFrame of the rows in order.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.api.user_code import UserCode, UserCodeError, get_instance, reraise_interrupt
from headrace.core.api.window_classes import Window
from headrace.core.operators.folds import (
    GROUP_NUMBER,
    KEPT_ROWS,
    Fold,
    collect_rows,
    get_order_columns,
    unnest_rows,
)
from headrace.core.operators.group_error_context import GroupErrorContext
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.operators.user_results import ResultSchema
from headrace.core.plan import nodes
from headrace.core.plan.nodes.windows import Evict
from headrace.core.types.data_types import TIMESTAMP, Schema, to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, ORDER
from headrace.core.types.row_order import ORDER_TYPE

if TYPE_CHECKING:
    import polars as pl


class GroupFunction:
    """A user function, or an instance of a callable user class; loaded on first use."""

    def __init__(self, code: UserCode, error_context: GroupErrorContext) -> None:
        self.name = code.display_name
        self._code = code
        self._error_context = error_context
        self._function: Callable[..., object] | None = None
        self._wants_window = False

    def bind_groups(self, groups: pl.DataFrame, by: Sequence[str]) -> GroupCalls:
        """Bind the function to the groups of a frame, one row each, named by the columns `by`."""
        if self._function is None:
            function = self._code.load()
            self._function = get_instance(self._code) if isinstance(function, type) else function
            self._wants_window = count_arguments(self._function) > 1
        return GroupCalls(
            self._function, self._wants_window, self._code, self._error_context, groups.select(by)
        )


class GroupCalls:
    """The calls of a user function for the groups of a frame."""

    def __init__(
        self,
        function: Callable[..., object],
        wants_window: bool,
        code: UserCode,
        error_context: GroupErrorContext,
        groups: pl.DataFrame,
    ) -> None:
        self._function = function
        self._wants_window = wants_window
        self._code = code
        self._error_context = error_context
        self._groups = groups

    def call(self, at: int, rows: pl.DataFrame) -> object:
        """Call the function with the rows of a group and return its result."""
        try:
            if self._wants_window:
                return self._function(rows, self._build_window(at))
            return self._function(rows)
        except BaseException as error:
            reraise_interrupt(error)
            raise self.add_context(at, UserCodeError(self._code.format_error(error))) from error

    def add_context(self, at: int, error: UserCodeError) -> UserCodeError:
        """Add the key and window of the group to the error."""
        where = (
            self._error_context.describe_group(self._groups.row(at, named=True))
            if self._groups.width
            else ""
        )
        return UserCodeError(f"{error.message} ({where})" if where else error.message, error.hint)

    def _build_window(self, at: int) -> Window:
        row = self._groups.row(at, named=True) if self._groups.width else {}
        return self._error_context.build_window(row)


def count_arguments(function: Callable[..., Any]) -> int:
    """Return how many arguments a function accepts, at most two."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return min(2, sum(each.kind in plain for each in found))


ROW_NUMBER = "__row"
"""The column of row numbers by which the rows that an evictor returns are identified."""


ORIGIN_GROUP = "__from"
"""The column with the number of the group that an output row was made from."""


class _AllRowsFold:
    """A fold that keeps all rows of a group; with `newest` also their greatest event time."""

    def __init__(self, row: Mapping[str, pl.DataType], *, newest: bool) -> None:
        import polars as pl

        self._row = {**{n: row[n] for n in sorted(row)}, ORDER: to_polars(ORDER_TYPE)}
        newest_of = {EVENT_TIME: to_polars(TIMESTAMP)} if newest else {}
        self._newest = [pl.col(EVENT_TIME).max()] if newest else []
        self.input_columns = frozenset((*self._row, *newest_of))
        self.state_columns = {KEPT_ROWS: pl.List(pl.Struct(self._row)), **newest_of}

    def begin(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the rows of each group as a list, in order."""
        import polars as pl

        return collect_rows(
            rows.sort(get_order_columns()), by, pl.struct(*self._row), *self._newest
        )

    def merge(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Merge the lists of each group."""
        return self.begin(unnest_rows(states, (*by, *self.state_columns.keys() - {KEPT_ROWS})), by)


class ApplyFold(_AllRowsFold):
    """The fold of `apply`.

    A window that may fire again has at most one row, which replaces the one emitted before.
    """

    def __init__(
        self,
        operation: nodes.Apply,
        grouping: GroupingKey,
        error_context: GroupErrorContext,
        *,
        newest: bool,
    ) -> None:
        self.input_types = get_polars_types(operation.input_columns)
        super().__init__(self.input_types, newest=newest)
        if newest:
            self.input_types = {**self.input_types, EVENT_TIME: to_polars(TIMESTAMP)}
        self._grouping = grouping
        self._visible_columns = operation.input_columns.names
        self._fires_again = operation.window.can_fire_again
        self._function = GroupFunction(operation.code, error_context)
        self._schema = ResultSchema(operation.code.display_name, operation.returns)

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the rows that the function returns, each after the columns of its group."""
        import polars as pl

        inside = dict(zip(self._grouping.internal_names, self._grouping.names, strict=True))
        named = [pl.col(name).alias(inside.get(name, name)) for name in by]
        newest = [name for name in self.state_columns if name != KEPT_ROWS and name not in by]
        made = self._call_function(states, by)
        origin = made[ORIGIN_GROUP]
        groups = states.select(*named, *newest)[origin]
        rows = groups.hstack(made.drop(ORIGIN_GROUP).get_columns())
        if not self._fires_again:
            return rows
        silent = states.select(*named, *newest).with_row_index(ORIGIN_GROUP)
        silent = silent.join(origin.unique().to_frame(), on=ORIGIN_GROUP, how="anti")
        rows = rows.with_columns(pl.lit(False).alias(DELETE))
        if not silent.height:
            return rows
        deletes = silent.with_columns(pl.lit(True).alias(DELETE))
        both = pl.concat([rows.with_columns(origin), deletes], how="diagonal")
        return both.sort(ORIGIN_GROUP, maintain_order=True).drop(ORIGIN_GROUP)

    def _call_function(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Call the function for each group, and return its rows with ORIGIN_GROUP."""
        import polars as pl

        groups = self._function.bind_groups(states, by)
        number = pl.Series(ORIGIN_GROUP, [], dtype=pl.UInt32)
        frames = [self._schema.build_frame([]).with_columns(number)]
        for at, piece in enumerate(iterate_groups(states, self._visible_columns)):
            answer = groups.call(at, piece)
            try:
                frame = self._convert_result(answer)
            except UserCodeError as error:
                raise groups.add_context(at, error) from error.__cause__
            if self._fires_again and frame.height > 1:
                message = f"{self._function.name} returned {frame.height} rows for a window"
                hint = "each firing replaces the row: return one row, or set accumulate: false"
                raise groups.add_context(at, UserCodeError(f"{message} that may fire again", hint))
            frames.append(frame.with_columns(pl.lit(at, dtype=number.dtype).alias(ORIGIN_GROUP)))
        return pl.concat(frames)

    def _convert_result(self, answer: object) -> pl.DataFrame:
        """Convert the return value for one window into the declared columns."""
        import polars as pl

        if isinstance(answer, pl.DataFrame):
            return self._schema.validate_frame(answer)
        if isinstance(answer, list | dict | None):
            return self._schema.build_frame(self._schema.parse_rows(answer))
        message = f"{self._function.name} must return a DataFrame, dicts or None"
        raise UserCodeError(f"{message}, got {type(answer).__name__}")


class UserEvictingFold(_AllRowsFold):
    """A fold of the rows that a user's evictor selects.

    Another fold computes the result of these rows.
    """

    def __init__(
        self,
        evict: Evict,
        inner: Fold,
        types: Mapping[str, pl.DataType],
        error_context: GroupErrorContext,
    ) -> None:
        """`types` are the types of the columns that the inner fold reads."""
        assert evict.code is not None and evict.input_columns is not None
        read = {name: types[name] for name in inner.input_columns - {ORDER}}
        super().__init__({**get_polars_types(evict.input_columns), **read}, newest=False)
        self._inner = inner
        self._visible_columns = evict.input_columns.names
        self._error_context = error_context
        self._function = GroupFunction(evict.code, error_context)

    def finish(self, states: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the inner fold's results of the selected rows, also for groups without any."""
        import polars as pl

        numbered = states.with_row_index(GROUP_NUMBER)
        flat = unnest_rows(numbered, (GROUP_NUMBER,))
        rows = flat[self._select_rows(states, by)]
        with self._error_context.resolve_numbers(numbered, GROUP_NUMBER):
            of_group = self._inner.begin(rows, (GROUP_NUMBER,))
            if of_group.height < numbered.height:
                nothing = self._inner.begin(rows.clear().drop(GROUP_NUMBER), ())
                empty = numbered.select(GROUP_NUMBER).join(of_group, on=GROUP_NUMBER, how="anti")
                of_none = empty.join(nothing, how="cross").select(of_group.columns)
                of_group = pl.concat([of_group, of_none])
        found = numbered.drop(KEPT_ROWS).join(of_group, on=GROUP_NUMBER, maintain_order="left")
        return self._inner.finish(found, by)

    def _select_rows(self, states: pl.DataFrame, by: Sequence[str]) -> pl.Series:
        """Return the numbers of the selected rows among all rows."""
        import polars as pl

        groups, start, row_numbers = self._function.bind_groups(states, by), 0, list[pl.Series]()
        for at, piece in enumerate(iterate_groups(states, self._visible_columns)):
            numbers = pl.int_range(start, start + piece.height, eager=True).alias(ROW_NUMBER)
            answer = returned = groups.call(at, piece.with_columns(numbers))
            if isinstance(answer, pl.Series) and answer.dtype == pl.Boolean:
                answer = numbers.filter(answer) if answer.len() == piece.height else None
            elif isinstance(answer, pl.DataFrame):
                answer = answer[ROW_NUMBER] if ROW_NUMBER in answer.columns else None
                if answer is not None and not answer.is_in(numbers.implode()).all():
                    answer = None
            else:
                answer = None
            if answer is None:
                actual = type(returned).__name__
                message = f"{self._function.name} must return some of the rows, got {actual}"
                hint = "filter them, or return a Series of booleans, one per row"
                raise groups.add_context(at, UserCodeError(message, hint))
            row_numbers.append(answer.cast(pl.Int64).unique().sort())
            start += piece.height
        return pl.concat(row_numbers) if row_numbers else pl.Series(ROW_NUMBER, [], pl.Int64)


def iterate_groups(states: pl.DataFrame, shown: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Iterate over the rows of each group, with these columns."""
    rows = unnest_rows(states, ()).select(shown)
    start = 0
    for length in states[KEPT_ROWS].list.len().to_list():
        yield rows.slice(start, length)
        start += length


def get_polars_types(columns: Schema) -> dict[str, pl.DataType]:
    """Return the Polars types of these columns."""
    return {field.name: to_polars(field.type) for field in columns}
