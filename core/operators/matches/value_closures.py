"""Typed expressions as Python functions, for a few values at a time.

A condition that compares a row with the rows matched before it is tested for one row and one
history after the other, far too often for a frame each time. Functions are composed from those of
the parts of an expression, and give the same values as Polars. An expression that has another part
has none: it is computed over a frame of one row.

Times are whole numbers, as they are stored.

Tests: tests/core/operators/matches/test_value_closures.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.typed import (
    ColumnReference,
    FunctionCall,
    TypedExpression,
    find_inputs,
    is_fallible,
)
from headrace.core.operators.matches.match_state import to_physical_type
from headrace.core.patterns.runs import History, Row
from headrace.core.types.data_types import (
    BIGINT,
    DOUBLE,
    FLOAT_TYPES,
    INT,
    SMALLINT,
    TIMESTAMP_TYPES,
    TINYINT,
    Decimal,
    Interval,
    Type,
    is_nested,
    to_polars,
)

ValueFunction: TypeAlias = "Callable[[History | None, Row], Any]"
"""The value of an expression for a tested row, after these matched rows."""

_BITS: Mapping[Type, int] = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def build_value_function(
    typed: TypedExpression, columns: Mapping[str, ValueFunction]
) -> ValueFunction | None:
    """Return the function of an expression over these columns; None if it has another part."""
    if not find_inputs(typed):
        return _build_constant(typed)
    if is_fallible(typed):
        return None
    match typed:
        case ColumnReference(name=name):
            return columns.get(name)
        case FunctionCall(function="cast", arguments=(argument,)):
            return _build_cast(typed.type, argument, columns)
        case FunctionCall(function=name, arguments=arguments):
            parts = [build_value_function(each, columns) for each in arguments]
            found = [part for part in parts if part is not None]
            return _build_call(name, typed, found) if len(found) == len(parts) else None
    return None


def _build_constant(typed: TypedExpression) -> ValueFunction | None:
    import polars as pl

    if is_fallible(typed):
        return None
    column = pl.select(to_expr(typed)).to_series()
    value = column.cast(to_physical_type(to_polars(typed.type))).to_list()[0]
    return lambda history, row: value


def _build_cast(
    type: Type, argument: TypedExpression, columns: Mapping[str, ValueFunction]
) -> ValueFunction | None:
    """Return the function of a cast that changes no value."""
    value, before = build_value_function(argument, columns), argument.type
    if value is None:
        return None
    if type == before or (before in _BITS and _BITS.get(type, 0) >= _BITS[before]):
        return value
    if type == DOUBLE and (before in _BITS or before in FLOAT_TYPES):
        return lambda history, row: None if (x := value(history, row)) is None else float(x)
    if isinstance(type, Decimal) and isinstance(before, Decimal):
        digits, before_digits = type.precision - type.scale, before.precision - before.scale
        return value if type.scale >= before.scale and digits >= before_digits else None
    return None


def _build_call(name: str, call: FunctionCall, parts: list[ValueFunction]) -> ValueFunction | None:
    types = [argument.type for argument in call.arguments]
    match name, parts:
        case ("and" | "between", [left, right]):
            return lambda history, row: _and(left(history, row), right, history, row)
        case "or", [left, right]:
            return lambda history, row: _or(left(history, row), right, history, row)
        case "not", [value]:
            return lambda history, row: None if (x := value(history, row)) is None else not x
        case "isnull", [value]:
            return lambda history, row: value(history, row) is None
        case "isnotnull", [value]:
            return lambda history, row: value(history, row) is not None
        case "if", [condition, then, otherwise]:
            return lambda history, row: (then if condition(history, row) else otherwise)(
                history, row
            )
        case _, [left, right] if name in _COMPARISONS and types[0] == types[1]:
            if is_nested(types[0]):
                return None
            return _build_comparison(name, left, right, is_float=types[0] in FLOAT_TYPES)
        case _, [left, right] if name in _ARITHMETIC:
            return _build_arithmetic(name, call.type, types, left, right)
        case "/", [left, right] if call.type == DOUBLE and types == [DOUBLE, DOUBLE]:
            return lambda history, row: _divide(left(history, row), right(history, row))
    return None


def _and(left: Any, right: ValueFunction, history: History | None, row: Row) -> bool | None:
    if left is False:
        return False
    other = right(history, row)
    if other is False:
        return False
    return None if left is None or other is None else True


def _or(left: Any, right: ValueFunction, history: History | None, row: Row) -> bool | None:
    if left is True:
        return True
    other = right(history, row)
    if other is True:
        return True
    return None if left is None or other is None else False


def _build_comparison(
    name: str, left: ValueFunction, right: ValueFunction, *, is_float: bool
) -> ValueFunction:
    compare = _COMPARISONS[name]

    def compute(history: History | None, row: Row) -> bool | None:
        one, other = left(history, row), right(history, row)
        if one is None or other is None:
            return None
        if is_float and (one != one or other != other):
            # NaN equals itself and is larger than all numbers.
            return compare(one != one, other != other) if one != one or other != other else None
        return compare(one, other)

    return compute


def _build_arithmetic(
    name: str, type: Type, types: list[Type], left: ValueFunction, right: ValueFunction
) -> ValueFunction | None:
    compute, bits = _ARITHMETIC[name], 0
    if types == [type, type] and type in _BITS:
        bits = _BITS[type]
    elif name != "*" and types[0] in TIMESTAMP_TYPES:
        if not (_is_duration(types[1]) or (name == "-" and types[0] == types[1])):
            return None
        bits = 64
    elif types != [DOUBLE, DOUBLE] or type != DOUBLE:
        return None
    half = 1 << (bits - 1) if bits else 0

    def calculate(history: History | None, row: Row) -> Any:
        one, other = left(history, row), right(history, row)
        if one is None or other is None:
            return None
        value = compute(one, other)
        if bits and not -half <= value < half:
            value = (value + half) % (2 * half) - half  # whole numbers wrap around
        return value

    return calculate


def _is_duration(type: Type) -> bool:
    return isinstance(type, Interval) and not type.is_months


def _divide(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other
