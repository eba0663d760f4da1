"""Rounding functions: abs, sign, ceil, floor, round and bround, with Spark's result types."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.expressions.casts import build_cast_form
from headrace.core.expressions.coercion import to_decimal_type
from headrace.core.expressions.function import SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import spark_form_of_negation
from headrace.core.expressions.functions.interval_fields import ABSOLUTE_OVERLOADS, SIGN_OVERLOADS
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import AS_WRITTEN, NO_SPARK_FORM, ExpressionError, PolarsForm
from headrace.core.types.data_types import (
    BIGINT,
    FLOAT,
    FLOAT_TYPES,
    MAX_DIGITS,
    STRING,
    Decimal,
    Type,
    is_integer,
    to_polars,
)

_FAMILY = "numbers"
# The most digits to which a double or a float is rounded exactly.
_MAX_DOUBLE_DIGITS, _MAX_FLOAT_DIGITS = 20, 12
# The type to which Spark casts a double or float for ceil and floor with digits.
_STEP_DECIMALS = {"float": Decimal(14, 7), "double": Decimal(30, 15)}


def _build_absolute(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.arithmetic import decimals
    from headrace.core.expressions.batch_forms import evaluate_once

    type = bound.result
    if not isinstance(type, Decimal) or type.precision <= decimals.NEGATED_DIGITS:
        return lambda value: value.abs()
    return evaluate_once(lambda value: decimals.absolute_value(value, type), type)


def _rounding_digits(bound: BoundArguments) -> int:
    """Return the digit to round to: 0 if it is omitted or NULL."""
    digits = bound.constants.get(1)
    return digits if isinstance(digits, int) else 0


def compute_rounded_type(type: Decimal, digits: int) -> Decimal:
    """Return the type of a decimal rounded to this many digits: it may grow by one before the
    point.

    >>> str(compute_rounded_type(Decimal(10, 2), 1)), str(compute_rounded_type(Decimal(4, 2), -3))
    ('decimal(10,1)', 'decimal(4,0)')
    """
    whole = type.precision - type.scale + 1
    if digits < 0:
        return Decimal(min(max(whole, 1 - digits), MAX_DIGITS), 0)
    scale = min(type.scale, digits)
    return Decimal(min(whole + scale, MAX_DIGITS), scale)


def _rounding_type(bound: BoundArguments) -> Type:
    value = bound.types[0]
    return (
        compute_rounded_type(value, _rounding_digits(bound))
        if isinstance(value, Decimal)
        else value
    )


def _spark_form(bound: BoundArguments) -> str:
    """Return the Spark form: Spark fails where a decimal of 38 digits rounds up to 39; and it
    rounds the digits of a double, which differ by the version of Java where they are many or the
    result is a decimal."""
    value, result = bound.types[0], bound.result
    full = any(isinstance(t, Decimal) and t.precision == MAX_DIGITS for t in (value, result))
    digits = value in FLOAT_TYPES and (isinstance(result, Decimal) or _rounding_digits(bound) < 0)
    return NO_SPARK_FORM if full or digits else AS_WRITTEN


def _check_digits(bound: BoundArguments) -> None:
    type = bound.types[0]
    max_digits = _MAX_FLOAT_DIGITS if type == FLOAT else _MAX_DOUBLE_DIGITS
    if type in FLOAT_TYPES and not -_MAX_DOUBLE_DIGITS <= _rounding_digits(bound) <= max_digits:
        message = (
            f"a {type} can be rounded to -{_MAX_DOUBLE_DIGITS} to {max_digits} digits, got "
            f"{_rounding_digits(bound)}"
        )
        raise ExpressionError(message, bound.arguments[1].span)


def _build_rounding(*, half_even: bool) -> Callable[[BoundArguments], PolarsForm]:
    def build(bound: BoundArguments) -> PolarsForm:
        from headrace.core.expressions.arithmetic import rounding
        from headrace.core.expressions.batch_forms import compute_on_column, evaluate_once

        type, result, digits = bound.types[0], bound.result, _rounding_digits(bound)
        if isinstance(type, Decimal) and isinstance(result, Decimal):
            form = evaluate_once(
                rounding.build_decimal_rounding(type, digits, result, half_even=half_even), result
            )
        elif is_integer(type):
            form = rounding.build_integer_rounding(digits, to_polars(type), half_even=half_even)
        else:
            form = compute_on_column(
                lambda value: rounding.round_double(value, digits, half_even=half_even), result
            )
        return lambda value, *_: form(value)

    return build


def _define_rounding(name: str, doc: str, *examples: tuple[str, str]) -> SqlFunction:
    first, *more = examples
    return function(
        *(name, _FAMILY, doc),
        overload(
            f"{name}(value: N, [digits: constant int]) -> N",
            build=_build_rounding(half_even=name == "bround"),
            returns=_rounding_type,
            check=_check_digits,
            spark=_spark_form,
        ),
        example=first,
        more=tuple(more),
    )


def _step_source(type: Type) -> Decimal:
    """Return the decimal type from which a number is rounded up or down."""
    if type == STRING:
        return Decimal(38, 18)
    if type in FLOAT_TYPES:
        return _STEP_DECIMALS[str(type)]
    exact = to_decimal_type(type)
    assert exact, "all other numbers are exact"
    return exact


def _step_type(bound: BoundArguments) -> Type:
    value = bound.types[0]
    if len(bound.types) > 1:
        return compute_rounded_type(_step_source(value), _rounding_digits(bound))
    if not isinstance(value, Decimal):
        return BIGINT
    return compute_rounded_type(value, 0) if value.scale else value


def _build_step(*, up: bool) -> Callable[[BoundArguments], PolarsForm]:
    def build(bound: BoundArguments) -> PolarsForm:
        value, result = bound.types[0], bound.result
        if isinstance(result, Decimal):
            return _build_decimal_step(value, result, _rounding_digits(bound), up=up)
        number = build_cast_form(value, BIGINT)
        if is_integer(value):
            return number
        return lambda value: number(value.ceil() if up else value.floor())

    return build


def _build_decimal_step(value: Type, result: Decimal, digits: int, *, up: bool) -> PolarsForm:
    from headrace.core.expressions.arithmetic import rounding
    from headrace.core.expressions.batch_forms import evaluate_once

    source = _step_source(value)
    number = build_cast_form(value, source)
    step = evaluate_once(rounding.build_rounding_up_or_down(source, digits, result, up=up), result)
    return lambda value, *_: step(number(value))


def _define_step(
    name: str, alias: tuple[str, ...], doc: str, *examples: tuple[str, str]
) -> SqlFunction:
    first, *more = examples
    return function(
        *(name, _FAMILY, doc),
        overload(
            f"{name}(value: N, [digits: constant int]) -> N",
            build=_build_step(up=name == "ceil"),
            returns=_step_type,
            spark=_spark_form,
        ),
        overload(
            f"{name}(value: exact string, digits: constant int) -> D",
            build=_build_step(up=name == "ceil"),
            returns=_step_type,
            spark=_spark_form,
        ),
        example=first,
        more=tuple(more),
        aliases=alias,
    )


ROUNDING = (
    function(
        *("abs", _FAMILY, "The absolute value; the least integer is unchanged."),
        overload("abs(value: N) -> N", build=_build_absolute, spark=spark_form_of_negation),
        *ABSOLUTE_OVERLOADS,
        example=("abs(-3)", "3"),
        more=(("abs(-1.50)", "1.50"),),
    ),
    function(
        *("sign", _FAMILY, "The sign: -1.0, 0.0 or 1.0 for a number below, at or above 0."),
        overload("sign(value: double) -> double", lambda value: value.sign(), nulls="strict"),
        *SIGN_OVERLOADS,
        example=("sign(-3)", "-1.0"),
        aliases=("signum",),
    ),
    _define_step(
        *(
            "ceil",
            ("ceiling",),
            "The smallest whole number that is not below the value; with digits, a decimal.",
        ),
        *(("ceil(-1.2)", "-1"), ("ceil(1.234, 2)", "1.24"), ("ceil(1.5D)", "2")),
    ),
    _define_step(
        *(
            "floor",
            (),
            "The largest whole number that is not above the value; with digits, a decimal.",
        ),
        *(("floor(-1.2)", "-2"), ("floor(1.236, 2)", "1.23"), ("floor(1.5D)", "1")),
    ),
    _define_rounding(
        *(
            "round",
            "The number rounded half up to `digits` digits, 0 by default; they may be negative.",
        ),
        *(("round(2.5)", "3"), ("round(2.675D, 2)", "2.68"), ("round(1250, -2)", "1300")),
    ),
    _define_rounding(
        *("bround", "The number rounded half to even to `digits` digits, 0 by default."),
        *(("bround(2.5)", "2"), ("bround(2.665D, 2)", "2.66"), ("bround(1250, -2)", "1200")),
    ),
)
