"""The conditions of variables: over single rows for a whole batch, and over rows before for one.

Each row gets a number with a bit for each variable that it fits. A condition that also reads the
rows matched before it (a crossed one) is first tested as far as it depends on the row alone.

Tests: tests/core/operators/matches/test_match_operator.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.core.aggregates import compute_partial_states
from headrace.core.aggregates.calls import AggregateCall
from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.typed import (
    ColumnReference,
    FunctionCall,
    TypedExpression,
    find_inputs,
    is_fallible,
)
from headrace.core.operators.matches.match_rows import MatchedRowColumns
from headrace.core.operators.matches.value_closures import ValueFunction, build_value_function
from headrace.core.operators.matches.value_folds import ValueFold, build_value_fold
from headrace.core.patterns.runs import History, Row, list_rows
from headrace.core.plan.nodes import Match, MatchCondition
from headrace.core.plan.nodes.matches import find_filter_variable

if TYPE_CHECKING:
    import polars as pl


class RowConditions:
    """The conditions of a pattern's variables."""

    def __init__(self, match: Match, columns: MatchedRowColumns) -> None:
        numbers = {name: at for at, name in enumerate(match.pattern.names)}
        crossed = {numbers[c.variable]: c for c in match.conditions if c.is_crossed}
        self.crossed = frozenset(crossed)
        """The variables whose conditions also read the rows matched before."""
        self._tests = {
            variable: _build_test(condition, columns) for variable, condition in crossed.items()
        }
        bits = {at: True for at in range(len(numbers))} | {
            numbers[each.variable]: each for each in match.conditions
        }
        self._always = sum(1 << at for at, each in bits.items() if each is True)
        self._conditions = [
            (1 << at, parts)
            for at, each in bits.items()
            if isinstance(each, MatchCondition) and (parts := list(_list_row_parts(each)))
        ]
        self._always += sum(
            1 << at
            for at, each in bits.items()
            if isinstance(each, MatchCondition) and not list(_list_row_parts(each))
        )

    def build_filter(self, variables: int) -> pl.Expr | None:
        """Return what the rows fulfil that may fit one of these variables; None if all may."""
        import polars as pl

        if variables & self._always:
            return None
        conditions = (_combine(parts) for bit, parts in self._conditions if bit & variables)
        return pl.any_horizontal(conditions)

    def test_rows(self, rows: pl.DataFrame) -> pl.Series:
        """Return the variables that each row fits, as bits."""
        import polars as pl

        fits = pl.lit(self._always, dtype=pl.Int64)
        for bit, parts in self._conditions:
            fits = fits + pl.when(_combine(parts)).then(pl.lit(bit, dtype=pl.Int64)).otherwise(0)
        fitting = rows.select(fits.alias("fits")).to_series()
        return fitting if len(fitting) == rows.height else fitting.new_from_index(0, rows.height)

    def test_crossed(self, variable: int, history: History | None, row: Row) -> bool:
        """Test a row for a crossed variable, after the rows matched before it."""
        return self._tests[variable](history, row) is True


def _combine(parts: Iterable[TypedExpression]) -> pl.Expr:
    """Return whether all parts of a condition are true."""
    import polars as pl

    return pl.all_horizontal(to_expr(part).fill_null(False) for part in parts)


def _list_row_parts(condition: MatchCondition) -> Iterator[TypedExpression]:
    """Yield the parts of a condition, which must all be true, that depend on the row alone."""
    if not condition.is_crossed:
        yield condition.value.finish
        return
    calls = {call.name for call in condition.value.calls}
    for part in _list_conjuncts(condition.value.finish):
        if find_inputs(part).isdisjoint(calls) and not is_fallible(part):
            yield part


def _list_conjuncts(typed: TypedExpression) -> Iterator[TypedExpression]:
    match typed:
        case FunctionCall(function="and", arguments=arguments):
            for argument in arguments:
                yield from _list_conjuncts(argument)
        case _:
            yield typed


def _build_test(condition: MatchCondition, columns: MatchedRowColumns) -> ValueFunction:
    """Return the test of a crossed condition: a Python function, or one that makes a frame."""
    values = _build_column_functions(columns)
    for call in condition.value.calls:
        read = _build_reference(call, columns)
        if read is None:
            return _FrameTest(condition, columns)
        values[call.name] = read
    return build_value_function(condition.value.finish, values) or _FrameTest(condition, columns)


def _get_value(at: int, history: History | None, row: Row) -> Any:
    return row[at]


def _build_reference(call: AggregateCall, columns: MatchedRowColumns) -> ValueFunction | None:
    """Return the value of a call over the matched rows; None if there is no function for it."""
    function = call.name.removeprefix("__").partition("(")[0]
    variable = None
    if call.condition is not None:
        variable = find_filter_variable(call.condition.typed)
    positions = columns.find_positions(variable)
    if function == "count" and not call.inputs:
        return partial(_count_rows, positions)
    if len(call.inputs) != 1:
        return None
    typed = call.inputs[0].typed
    match typed:
        case ColumnReference(name=name) if name in columns.places:
            at = columns.places[name]
            if function == "last":
                return partial(_get_last, positions, at)
            if function == "first":
                return partial(_get_first, positions, at)
    read = build_value_function(typed, _build_column_functions(columns))
    fold = build_value_fold(function, typed.type)
    return None if read is None or fold is None else partial(_fold_values, positions, read, fold)


def _build_column_functions(columns: MatchedRowColumns) -> dict[str, ValueFunction]:
    """Return the values of the columns of a row."""
    return {name: partial(_get_value, at) for name, at in columns.places.items()}


def _count_rows(positions: frozenset[int], history: History | None, row: Row) -> int:
    count = 0
    while history is not None:
        history, position, _ = history
        count += position in positions
    return count


def _get_last(positions: frozenset[int], at: int, history: History | None, row: Row) -> Any:
    while history is not None:
        history, position, matched = history
        if position in positions:
            return matched[at]
    return None


def _get_first(positions: frozenset[int], at: int, history: History | None, row: Row) -> Any:
    value = None
    while history is not None:
        history, position, matched = history
        if position in positions:
            value = matched[at]
    return value


def _fold_values(
    positions: frozenset[int],
    read: ValueFunction,
    fold: ValueFold,
    history: History | None,
    row: Row,
) -> Any:
    found = list_rows(history)
    return fold([read(None, matched) for position, matched in found if position in positions])


class _FrameTest:
    """The test of a condition by Polars, over a frame of the matched rows."""

    def __init__(self, condition: MatchCondition, columns: MatchedRowColumns) -> None:
        self._calls = condition.value.calls
        self._columns = columns
        self._finish = to_expr(condition.value.finish).alias("fits")

    def __call__(self, history: History | None, row: Row) -> bool | None:
        """Test a row after these matched rows."""
        matched = self._columns.build_frame([history])
        state = compute_partial_states(matched, (), self._calls)
        values = state.select(call.finish() for call in self._calls)
        tested = self._columns.build_row_frame(row)
        found: Mapping[str, Any] = tested.hstack(values).select(self._finish).row(0, named=True)
        value = found["fits"]
        return None if value is None else bool(value)
