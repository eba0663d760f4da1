"""Functions of doubles: roots, powers, logarithms, and the test for NaN.

Square roots are exact. Exponentials, powers and logarithms come from the machine's mathematical
library, and Spark's from Java's StrictMath: they agree to 1e-15 of the value, not to the last bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, TypedCall, function, overload
from headrace.core.expressions.functions.arguments import build_mapping
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    Constant,
    ExpressionError,
    PolarsForm,
    TypedExpression,
)
from headrace.core.types.data_types import (
    DOUBLE,
    STRING,
    Array,
    MapType,
    Struct,
    Type,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl

_FAMILY = "numbers"


def _define_logarithm(name: str) -> SqlFunction:
    """Define a logarithm of a fixed base."""
    base = {"ln": "e", "log10": "10", "log2": "2"}[name]

    def build(bound: BoundArguments) -> PolarsForm:
        from headrace.core.expressions.arithmetic import doubles
        from headrace.core.expressions.batch_forms import compute_on_column

        return compute_on_column(doubles.LOGARITHMS[name], DOUBLE)

    return function(
        *(
            name,
            _FAMILY,
            f"The logarithm to base {base}, NULL unless the value is above 0; within 1e-15 of"
            " Spark's.",
        ),
        overload(f"{name}(value: double) -> double", build=build, spark=NO_SPARK_FORM),
        example={
            "ln": ("ln(1)", "0.0"),
            "log10": ("log10(1000)", "3.0"),
            "log2": ("log2(8)", "3.0"),
        }[name],
    )


def _build_natural_log(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.arithmetic import doubles
    from headrace.core.expressions.batch_forms import compute_on_column

    return compute_on_column(doubles.LOGARITHMS["ln"], DOUBLE)


def _build_log(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.arithmetic.doubles import compute_logarithm
    from headrace.core.expressions.batch_forms import compute_on_frame

    return compute_on_frame(compute_logarithm, DOUBLE)


def _build_power(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.arithmetic.doubles import raise_to_power
    from headrace.core.expressions.batch_forms import compute_on_frame

    return compute_on_frame(raise_to_power, DOUBLE)


def _resolve_typeof(call: TypedCall) -> TypedExpression:
    if len(call.arguments) != 1:
        message = f"typeof takes 1 argument, got {len(call.arguments)}"
        raise ExpressionError(message, call.span, "as in typeof(value)")
    type = call.arguments[0].type
    return Constant(STRING, False, call.span, _format_type(type))


def _format_type(type: Type) -> str:
    """Return the name of a type in Spark, without nullability, and with field names as they are."""
    match type:
        case Array(element):
            return f"array<{_format_type(element)}>"
        case MapType(key, value):
            return f"map<{_format_type(key)},{_format_type(value)}>"
        case Struct(fields):
            inside = (f"{field.name}:{_format_type(field.type)}" for field in fields)
            return f"struct<{','.join(inside)}>"
    return str(type)


_MAX_BIGINT = 2**63 - 1


def _build_interval_bucket(bound: BoundArguments) -> PolarsForm:
    form = build_mapping(_find_bucket)(bound)

    def find(value: pl.Expr, low: pl.Expr, high: pl.Expr, count: pl.Expr) -> pl.Expr:
        lengths = (each.to_physical().cast(to_polars(DOUBLE)) for each in (value, low, high))
        return form(*lengths, count)

    return find


def _find_bucket(value: float, low: float, high: float, count: int) -> int | None:
    """Return the number of the bucket, 0 below and one more above; None where there are none."""
    ends = math.isfinite(low) and math.isfinite(high) and low != high
    if not (0 < count < _MAX_BIGINT and ends) or math.isnan(value):
        return None
    if value < low if low < high else value > low:
        return 0
    if value >= high if low < high else value <= high:
        return count + 1
    before = count * abs(value - low) / abs(high - low)
    if math.isnan(before):
        return 1
    return int(before) + 1 if before <= _MAX_BIGINT else -_MAX_BIGINT - 1  # as Java wraps around


MATHEMATICS = (
    function(
        *("sqrt", _FAMILY, "The square root; NaN of a negative number."),
        overload("sqrt(value: double) -> double", lambda value: value.sqrt(), nulls="strict"),
        example=("sqrt(16)", "4.0"),
    ),
    function(
        *("exp", _FAMILY, "e raised to the power of the value; within 1e-15 of Spark's."),
        overload(
            "exp(value: double) -> double",
            lambda value: value.exp(),
            nulls="strict",
            spark=NO_SPARK_FORM,
        ),
        example=("exp(0)", "1.0"),
    ),
    _define_logarithm("ln"),
    _define_logarithm("log10"),
    _define_logarithm("log2"),
    function(
        *(
            "log",
            _FAMILY,
            "The logarithm to a base, by default e; NULL unless base and value are above 0; within"
            " 1e-15 of Spark's.",
        ),
        overload("log(value: double) -> double", build=_build_natural_log, spark=NO_SPARK_FORM),
        overload(
            "log(base: double, value: double) -> double", build=_build_log, spark=NO_SPARK_FORM
        ),
        example=("log(10, 100)", "2.0"),
        more=(("log(1)", "0.0"),),
    ),
    function(
        *(
            "power",
            _FAMILY,
            "The first number raised to the power of the second; within 1e-15 of Spark's.",
        ),
        overload(
            "power(base: double, exponent: double) -> double",
            build=_build_power,
            nulls="strict",
            spark=NO_SPARK_FORM,
        ),
        example=("power(2, 10)", "1024.0"),
        aliases=("pow",),
    ),
    function(
        *("isnan", _FAMILY, "Whether the value is NaN; false for NULL."),
        overload(
            "isnan(value: double) -> boolean",
            lambda value: value.is_nan().fill_null(False),
            nulls="never",
        ),
        example=("isnan(double('NaN'))", "true"),
        more=(("isnan(null)", "false"),),
    ),
    function(
        *("typeof", _FAMILY, "The type of the value, as text."),
        example=("typeof(1 + 1.5)", "decimal(3,1)"),
        resolve=_resolve_typeof,
        signatures=("typeof(value: T) -> string",),
    ),
    function(
        *(
            "width_bucket",
            _FAMILY,
            "The number of the bucket of a value, from 1, where a range is divided into a number of"
            " buckets of one width; 0 below the range, one more than the number above.",
        ),
        overload(
            "width_bucket(value: double, low: double, high: double, count: bigint) -> bigint",
            build=build_mapping(_find_bucket),
        ),
        *(
            overload(
                f"width_bucket(value: {letter}, low: {letter}, high: {letter}, count: bigint)"
                " -> bigint",
                build=_build_interval_bucket,
                spark=NO_SPARK_FORM,
            )
            for letter in "QY"
        ),
        example=("width_bucket(5.3, 0.2, 10.6, 5)", "3"),
    ),
)
