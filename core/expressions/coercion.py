"""Common types, to which two types are widened, and the implicit casts that convert to them.

Spark's rules with ANSI off, minus those that the design refuses: text is never converted to a
number, nor a number to a boolean, without `build_cast`. A string literal next to a date or a
timestamp is parsed as one, and a literal that cannot be parsed is an error here rather than a NULL
for every row.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import time

from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.typed import Constant, ExpressionError, TypedExpression, to_expr
from headrace.core.types.data_types import (
    DATE,
    DAY,
    DAY_TIME,
    DOUBLE,
    FLOAT_TYPES,
    INTEGER_DIGITS,
    INTEGER_TYPES,
    MAX_DIGITS,
    MAX_TIME_DIGITS,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TIMESTAMP_TYPES,
    Array,
    Decimal,
    Field,
    MapType,
    Struct,
    Time,
    Type,
    is_numeric,
)

_PRECEDENCE = (*INTEGER_TYPES, *FLOAT_TYPES)

# The years 1 to 9999, as days since the epoch.
_PYTHON_DAYS = (-719_162, 2_932_897)


def to_decimal_type(type: Type) -> Decimal | None:
    """Return the decimal type that holds every value of an integer or decimal type."""
    if isinstance(type, Decimal):
        return type
    return Decimal(INTEGER_DIGITS[type], 0) if type in INTEGER_DIGITS else None


def common_type(left: Type, right: Type) -> Type | None:
    """Return the type to which both are widened, or None where they are not compatible.

    >>> from headrace.core.types.data_types import BIGINT, INT
    >>> str(common_type(INT, BIGINT)), str(common_type(Decimal(4, 2), INT))
    ('bigint', 'decimal(12,2)')
    """
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if {left, right} <= {DATE, *TIMESTAMP_TYPES}:
        return TIMESTAMP if TIMESTAMP in (left, right) else TIMESTAMP_NTZ
    if isinstance(left, Time) and isinstance(right, Time):
        return Time(max(left.precision, right.precision))
    if {left, right} == {DAY, DAY_TIME}:
        return DAY_TIME
    match left, right:
        case Array(a), Array(b):
            element = common_type(a, b)
            return Array(element) if element else None
        case MapType(k, v), MapType(other_k, other_v):
            key, value = common_type(k, other_k), common_type(v, other_v)
            return MapType(key, value) if key and value else None
        case Struct(a), Struct(b):
            return _common_struct(a, b)
    return _common_number(left, right) if is_numeric(left) and is_numeric(right) else None


def _common_number(left: Type, right: Type) -> Type | None:
    if left in _PRECEDENCE and right in _PRECEDENCE:
        return max(left, right, key=_PRECEDENCE.index)
    if left in FLOAT_TYPES or right in FLOAT_TYPES:
        return DOUBLE
    a, b = to_decimal_type(left), to_decimal_type(right)
    assert a and b, "one of the two is a decimal"
    scale = max(a.scale, b.scale)
    digits = max(a.precision - a.scale, b.precision - b.scale) + scale
    return Decimal(digits, scale) if digits <= MAX_DIGITS else None


def _common_struct(left: tuple[Field, ...], right: tuple[Field, ...]) -> Type | None:
    if [field.name for field in left] != [field.name for field in right]:
        return None
    types = [common_type(a.type, b.type) for a, b in zip(left, right, strict=True)]
    fields = zip(left, right, types, strict=True)
    if None in types:
        return None
    return Struct(
        tuple(Field(a.name, type, a.nullable or b.nullable) for a, b, type in fields if type)
    )


def common_argument_type(arguments: Iterable[TypedExpression]) -> Type | None:
    """Return the common type of several expressions; string literals adapt to a date or a
    timestamp."""
    result: Type = NULL
    literals: list[TypedExpression] = []
    for argument in arguments:
        if isinstance(argument, Constant) and argument.type == STRING:
            literals.append(argument)
            continue
        wider = common_type(result, argument.type)
        if wider is None:
            return None
        result = wider
    if not literals or result in (DATE, *TIMESTAMP_TYPES) or isinstance(result, Time):
        return result
    return STRING if result in (NULL, STRING) else None


def coerce_to(typed: TypedExpression, target: Type) -> TypedExpression | None:
    """Cast the expression implicitly, or return None where only `build_cast` converts it."""
    if typed.type == target:
        return typed
    is_time = target in (DATE, *TIMESTAMP_TYPES) or isinstance(target, Time)
    if typed.type == STRING and is_time and isinstance(typed, Constant):
        return parse_literal(typed, target)
    narrower = typed.type in INTEGER_TYPES and target in INTEGER_TYPES
    if common_type(typed.type, target) == target or narrower:
        return build_cast(typed, target, typed.span)
    shown = typed.type in TIMESTAMP_TYPES and target in (DATE, TIMESTAMP_NTZ)
    return build_cast(typed, target, typed.span) if shown else None


def parse_literal(typed: Constant, target: Type) -> TypedExpression:
    """Parse a string literal to a date, a timestamp or a time, or raise an ExpressionError."""
    import polars as pl

    read = build_cast(typed, target, typed.span)
    value = pl.select(to_expr(read)).to_series()
    if value.null_count():
        example = {DATE: "'2026-01-31'", TIME: "'08:00:00'"}.get(target, "'2026-01-31 08:00:00'")
        raise ExpressionError(
            f"wanted a {target} here, got {typed.value!r}", typed.span, f"write it as {example}"
        )
    if isinstance(target, Time):
        return _build_time_constant(typed, target, value.item())
    first, last = _PYTHON_DAYS if target == DATE else (86_400_000_000 * d for d in _PYTHON_DAYS)
    if not first <= value.to_physical().item() < last:
        return read  # the year is out of the range of Python's dates
    # Parsed once, here, and not again for every batch.
    return Constant(target, False, typed.span, value.item())


def _build_time_constant(typed: Constant, target: Time, value: time) -> Constant:
    if len(str(typed.value).partition(".")[2].rstrip("0 ")) > MAX_TIME_DIGITS:
        message = f"a time has at most {MAX_TIME_DIGITS} digits of a second's fraction"
        raise ExpressionError(f"{message}, got {typed.value!r}", typed.span)
    return Constant(target, False, typed.span, value)
