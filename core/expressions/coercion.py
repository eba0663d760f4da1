"""Common types, to which two types are widened, and the implicit casts that convert to them.

Spark's rules with ANSI off. There are three, which differ where a text meets another type:

- a comparison converts the text: to the other type, or to a double next to a decimal with digits
  after the point;
- values of which one is chosen (`coalesce`, `case`, `in`, `array`) all become text;
- a parameter of a function converts its argument to its own type.

`common_type` has none of them: it is the type to which two values are widened without a text, as in
a union. A string literal is converted once, here, and not again for every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import time

from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.casts.rules import find_refusal
from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.typed import (
    Constant,
    ExpressionError,
    ExpressionWarning,
    FunctionCall,
    TypedExpression,
)
from headrace.core.types.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT_TYPES,
    INTEGER_DIGITS,
    INTEGER_TYPES,
    INTERVAL_TYPES,
    MAX_DIGITS,
    MAX_TIME_DIGITS,
    MONTH_FIELDS,
    NULL,
    STRING,
    TIME,
    TIME_FIELDS,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TIMESTAMP_TYPES,
    Array,
    Decimal,
    Field,
    Interval,
    MapType,
    Struct,
    Time,
    Type,
    is_nested,
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
    if isinstance(left, Interval) and isinstance(right, Interval):
        return _common_interval(left, right)
    match left, right:
        case Array(a), Array(b):
            element = common_type(a, b)
            return Array(element) if element else None
        case MapType(k, v), MapType(other_k, other_v):
            key, value = common_type(k, other_k), common_type(v, other_v)
            return MapType(key, value) if key and value else None
        case Struct(a), Struct(b):
            return _common_struct(a, b, common_type)
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


def _common_interval(left: Interval, right: Interval) -> Interval | None:
    """Return the type with all fields of both, if both are of months or none is."""
    if left.is_months != right.is_months:
        return None
    position = (MONTH_FIELDS + TIME_FIELDS).index
    first, last = (
        min(left.first, right.first, key=position),
        max(left.last, right.last, key=position),
    )
    return Interval(first, last)


def _common_struct(
    left: tuple[Field, ...], right: tuple[Field, ...], common: Callable[[Type, Type], Type | None]
) -> Type | None:
    if [field.name for field in left] != [field.name for field in right]:
        return None
    types = [common(a.type, b.type) for a, b in zip(left, right, strict=True)]
    fields = zip(left, right, types, strict=True)
    if None in types:
        return None
    return Struct(
        tuple(Field(a.name, type, a.nullable or b.nullable) for a, b, type in fields if type)
    )


def wider_type(left: Type, right: Type) -> Type | None:
    """Return the type of either of two values: text, where one is text; None where there is none.

    Decimals of more than 38 digits together lose digits after the point, as in Spark.

    >>> from headrace.core.types.data_types import INT
    >>> str(wider_type(INT, STRING)), str(wider_type(Decimal(38, 2), Decimal(38, 0)))
    ('string', 'decimal(38,0)')
    """
    if (common := common_type(left, right)) is not None:
        return common
    match left, right:
        case Array(a), Array(b):
            element = wider_type(a, b)
            return Array(element) if element else None
        case Struct(a), Struct(b):
            return _common_struct(a, b, wider_type)
    one, two = to_decimal_type(left), to_decimal_type(right)
    if one and two:
        whole = max(one.precision - one.scale, two.precision - two.scale)
        return Decimal(MAX_DIGITS, MAX_DIGITS - whole)
    other = right if left == STRING else left
    if STRING not in (left, right) or is_nested(other):
        return None
    return None if other in (BINARY, BOOLEAN) else STRING


def common_type_of_all(types: Iterable[Type]) -> Type | None:
    """Return the type to which several values are widened; text is none of numbers and dates."""
    result: Type = NULL
    for type in types:
        if STRING in (result, type) and not {result, type} <= {STRING, NULL}:
            return None
        wider = wider_type(result, type)
        if wider is None:
            return None
        result = wider
    return result


def choose_type(types: Iterable[Type]) -> Type | None:
    """Return the type of any of several values; texts come first, as in Spark, so that a date and a
    number are both text next to one."""
    ordered = sorted(types, key=lambda type: not _contains_text(type))
    result: Type = NULL
    for type in ordered:
        wider = wider_type(result, type)
        if wider is None:
            return None
        result = wider
    return result


def _contains_text(type: Type) -> bool:
    return type == STRING or (isinstance(type, Array) and _contains_text(type.element))


def comparison_type(left: Type, right: Type, *, equality: bool) -> Type | None:
    """Return the type in which two values are compared: of a boolean and a number, for equality."""
    if STRING in (left, right) and left != right:
        other = right if left == STRING else left
        if isinstance(other, Decimal) and other.scale:
            return DOUBLE
        if is_nested(other) or other in INTERVAL_TYPES:
            return None
        return STRING if other == NULL else other
    if equality and BOOLEAN in (left, right):
        other = right if left == BOOLEAN else left
        if is_numeric(other):
            return other
    nested = is_nested(left) or is_nested(right)
    return common_type(left, right) if nested else wider_type(left, right)


def common_argument_type(arguments: Iterable[TypedExpression]) -> Type | None:
    """Return the type to which several arguments are widened; string literals adapt to a date or a
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
    """Widen the expression to a type, or narrow an integer or a timestamp, as a parameter takes it;
    None where it is another type."""
    if typed.type == target:
        return typed
    is_time = target in (DATE, *TIMESTAMP_TYPES) or isinstance(target, Time)
    if typed.type == STRING and is_time and isinstance(typed, Constant):
        return convert_implicitly(typed, target)
    narrower = typed.type in INTEGER_TYPES and target in INTEGER_TYPES
    if common_type(typed.type, target) == target or narrower:
        return build_cast(typed, target, typed.span)
    shown = typed.type in TIMESTAMP_TYPES and target in (DATE, TIMESTAMP_NTZ)
    return build_cast(typed, target, typed.span) if shown else None


def coerce_argument(typed: TypedExpression, target: Type) -> TypedExpression | None:
    """Convert the argument of a function to the type of its parameter, as Spark does implicitly;
    None where Spark does not."""
    if (widened := coerce_to(typed, target)) is not None:
        return widened
    return convert_implicitly(typed, target) if _is_implicit(typed.type, target) else None


def _is_implicit(source: Type, target: Type) -> bool:
    """Whether Spark converts an argument to a parameter of this type."""
    match source, target:
        case Array(a), Array(b):
            return a == b or _is_implicit(a, b)
    if is_nested(source) or is_nested(target):
        return False
    if STRING in (source, target):
        return target != BOOLEAN and find_refusal(source, target, try_=False) is None
    times = (DATE, *TIMESTAMP_TYPES)
    both = (is_numeric(source), is_numeric(target)), (source in times, target in times)
    return (True, True) in both or source == NULL


def convert_implicitly(typed: TypedExpression, target: Type) -> TypedExpression:
    """Cast the expression; a string literal is converted here, if it can be.

    One that cannot is NULL for every row, which its cast warns of.
    """
    import polars as pl

    cast = build_cast(typed, target, typed.span)
    if (
        not isinstance(typed, Constant)
        or typed.type != STRING
        or not isinstance(cast, FunctionCall)
    ):
        return cast
    value = pl.select(to_expr(cast)).to_series()
    if value.null_count():
        return replace(cast, warning=_warn_of_literal(typed, target))
    if isinstance(target, Time):
        return _build_time_constant(typed, target, value.item())
    if target in (DATE, *TIMESTAMP_TYPES):
        unit = 1 if target == DATE else 86_400_000_000
        first, last = (unit * days for days in _PYTHON_DAYS)
        if not first <= value.to_physical().item() < last:
            return cast  # the year is out of the range of Python's dates
    return Constant(target, False, typed.span, value.item())


def _build_time_constant(typed: Constant, target: Time, value: time) -> Constant:
    if len(str(typed.value).partition(".")[2].rstrip("0 ")) > MAX_TIME_DIGITS:
        message = f"a time has at most {MAX_TIME_DIGITS} digits of a second's fraction"
        raise ExpressionError(f"{message}, got {typed.value!r}", typed.span)
    return Constant(target, False, typed.span, value)


def _warn_of_literal(typed: Constant, target: Type) -> ExpressionWarning:
    message = f"{typed.value!r} cannot be converted to {target}, so this is null for every row"
    return ExpressionWarning(message, typed.span, _literal_hint(target))


def _literal_hint(target: Type) -> str:
    examples = {DATE: "'2026-01-31'", TIME: "'08:00:00'"}
    example = "'2026-01-31 08:00:00'" if target in TIMESTAMP_TYPES else examples.get(target)
    return f"write it as {example}" if example else ""


def parse_literal(typed: Constant, target: Type) -> TypedExpression:
    """Parse the text of `date '...'` and the like, or raise an ExpressionError."""
    converted = convert_implicitly(typed, target)
    if isinstance(converted, FunctionCall) and converted.warning:
        message = f"wanted a {target} here, got {typed.value!r}"
        raise ExpressionError(message, typed.span, _literal_hint(target))
    return converted
