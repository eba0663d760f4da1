"""Rounding functions: abs, sign, ceil, floor, round and bround, with Spark's result types."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.expressions.casts import cast_form
from headrace.core.expressions.coercion import decimal_of
from headrace.core.expressions.function import Function, function, overload
from headrace.core.expressions.functions.arguments import signed_in_spark
from headrace.core.expressions.signature import Bound
from headrace.core.expressions.typed import AS_WRITTEN, OURS, ExpressionError, Form
from headrace.core.types import (
    BIGINT,
    FLOAT,
    FLOATS,
    MAX_DIGITS,
    Decimal,
    Type,
    is_integer,
    to_polars,
)

_FAMILY = "numbers"
# The most digits to which a double or a float is rounded exactly.
_MOST_DIGITS, _MOST_FLOAT_DIGITS = 20, 12
# The type to which Spark casts a double or float for ceil and floor with digits.
_STEPPED = {"float": Decimal(14, 7), "double": Decimal(30, 15)}


def _absolute(bound: Bound) -> Form:
    from headrace.core.expressions import exact
    from headrace.core.expressions.batches import once

    type = bound.result
    if not isinstance(type, Decimal) or type.precision <= exact.SIGNED_DIGITS:
        return lambda value: value.abs()
    return once(lambda value: exact.absolute(value, type), type)


def _digits(bound: Bound) -> int:
    """Return the digit to round to: 0 if it is omitted or NULL."""
    digits = bound.constants.get(1)
    return digits if isinstance(digits, int) else 0


def rounded_type(type: Decimal, digits: int) -> Decimal:
    """Return the type of a decimal rounded to this many digits: it may grow by one before the
    point.

    >>> str(rounded_type(Decimal(10, 2), 1)), str(rounded_type(Decimal(4, 2), -3))
    ('decimal(10,1)', 'decimal(4,0)')
    """
    whole = type.precision - type.scale + 1
    if digits < 0:
        return Decimal(min(max(whole, 1 - digits), MAX_DIGITS), 0)
    scale = min(type.scale, digits)
    return Decimal(min(whole + scale, MAX_DIGITS), scale)


def _round_type(bound: Bound) -> Type:
    value = bound.types[0]
    return rounded_type(value, _digits(bound)) if isinstance(value, Decimal) else value


def _spark(bound: Bound) -> str:
    """Return the Spark form: Spark fails where a decimal of 38 digits rounds up to 39; and it
    rounds the digits of a double, which differ by the version of Java where they are many or the
    result is a decimal."""
    value, result = bound.types[0], bound.result
    full = any(isinstance(t, Decimal) and t.precision == MAX_DIGITS for t in (value, result))
    digits = value in FLOATS and (isinstance(result, Decimal) or _digits(bound) < 0)
    return OURS if full or digits else AS_WRITTEN


def _check_digits(bound: Bound) -> None:
    type = bound.types[0]
    most = _MOST_FLOAT_DIGITS if type == FLOAT else _MOST_DIGITS
    if type in FLOATS and not -_MOST_DIGITS <= _digits(bound) <= most:
        message = (
            f"a {type} can be rounded to -{_MOST_DIGITS} to {most} digits, got {_digits(bound)}"
        )
        raise ExpressionError(message, bound.arguments[1].span)


def _round(*, half_even: bool) -> Callable[[Bound], Form]:
    def build(bound: Bound) -> Form:
        from headrace.core.expressions import rounding
        from headrace.core.expressions.batches import once, per_column

        type, result, digits = bound.types[0], bound.result, _digits(bound)
        if isinstance(type, Decimal) and isinstance(result, Decimal):
            form = once(rounding.of_decimal(type, digits, result, half_even=half_even), result)
        elif is_integer(type):
            form = rounding.of_integer(digits, to_polars(type), half_even=half_even)
        else:
            form = per_column(
                lambda value: rounding.round_double(value, digits, half_even=half_even), result
            )
        return lambda value, *_: form(value)

    return build


def _rounding(name: str, doc: str, *examples: tuple[str, str]) -> Function:
    first, *more = examples
    return function(
        *(name, _FAMILY, doc),
        overload(
            f"{name}(value: N, [digits: constant int]) -> N",
            build=_round(half_even=name == "bround"),
            returns=_round_type,
            check=_check_digits,
            spark=_spark,
        ),
        example=first,
        more=tuple(more),
    )


def _step_source(type: Type) -> Decimal:
    """Return the decimal type from which a number is rounded up or down."""
    if type in FLOATS:
        return _STEPPED[str(type)]
    exact = decimal_of(type)
    assert exact, "all other numbers are exact"
    return exact


def _step_type(bound: Bound) -> Type:
    value = bound.types[0]
    if len(bound.types) > 1:
        return rounded_type(_step_source(value), _digits(bound))
    if not isinstance(value, Decimal):
        return BIGINT
    return rounded_type(value, 0) if value.scale else value


def _step(*, up: bool) -> Callable[[Bound], Form]:
    def build(bound: Bound) -> Form:
        value, result = bound.types[0], bound.result
        if isinstance(result, Decimal):
            return _stepped(value, result, _digits(bound), up=up)
        number = cast_form(value, BIGINT)
        if is_integer(value):
            return number
        return lambda value: number(value.ceil() if up else value.floor())

    return build


def _stepped(value: Type, result: Decimal, digits: int, *, up: bool) -> Form:
    from headrace.core.expressions import rounding
    from headrace.core.expressions.batches import once

    source = _step_source(value)
    number = cast_form(value, source)
    step = once(rounding.stepper(source, digits, result, up=up), result)
    return lambda value, *_: step(number(value))


def _stepping(name: str, alias: tuple[str, ...], doc: str, *examples: tuple[str, str]) -> Function:
    first, *more = examples
    return function(
        *(name, _FAMILY, doc),
        overload(
            f"{name}(value: N, [digits: constant int]) -> N",
            build=_step(up=name == "ceil"),
            returns=_step_type,
            spark=_spark,
        ),
        example=first,
        more=tuple(more),
        aliases=alias,
    )


ROUNDING = (
    function(
        *("abs", _FAMILY, "The absolute value; the least integer is unchanged."),
        overload("abs(value: N) -> N", build=_absolute, spark=signed_in_spark),
        example=("abs(-3)", "3"),
        more=(("abs(-1.50)", "1.50"),),
    ),
    function(
        *("sign", _FAMILY, "The sign: -1.0, 0.0 or 1.0 for a number below, at or above 0."),
        overload("sign(value: double) -> double", lambda value: value.sign(), nulls="strict"),
        example=("sign(-3)", "-1.0"),
        aliases=("signum",),
    ),
    _stepping(
        *(
            "ceil",
            ("ceiling",),
            "The smallest whole number that is not below the value; with digits, a decimal.",
        ),
        *(("ceil(-1.2)", "-1"), ("ceil(1.234, 2)", "1.24"), ("ceil(1.5D)", "2")),
    ),
    _stepping(
        *(
            "floor",
            (),
            "The largest whole number that is not above the value; with digits, a decimal.",
        ),
        *(("floor(-1.2)", "-2"), ("floor(1.236, 2)", "1.23"), ("floor(1.5D)", "1")),
    ),
    _rounding(
        *(
            "round",
            "The number rounded half up to `digits` digits, 0 by default; they may be negative.",
        ),
        *(("round(2.5)", "3"), ("round(2.675D, 2)", "2.68"), ("round(1250, -2)", "1300")),
    ),
    _rounding(
        *("bround", "The number rounded half to even to `digits` digits, 0 by default."),
        *(("bround(2.5)", "2"), ("bround(2.665D, 2)", "2.66"), ("bround(1250, -2)", "1200")),
    ),
)
