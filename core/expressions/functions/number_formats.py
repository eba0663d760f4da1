"""Numbers as text by patterns: `to_char`, `to_number`, and `format_number`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.function import SqlFunction, TypedCall, function, overload
from headrace.core.expressions.functions.arguments import literal_text
from headrace.core.expressions.functions.charsets import CHARSETS
from headrace.core.expressions.functions.encodings import ENCODINGS
from headrace.core.expressions.functions.time_formats import TIME_FORMATS
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    AS_WRITTEN,
    NO_SPARK_FORM,
    Constant,
    ExpressionError,
    PolarsForm,
    TypedExpression,
)
from headrace.core.types.data_types import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    Decimal,
    Type,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.expressions.functions.number_patterns import NumberPattern

_OTHERS = {row.name: row for row in (*CHARSETS, *ENCODINGS, *TIME_FORMATS)}
_AS_DECIMALS: dict[Type, Decimal] = {
    **{FLOAT: Decimal(14, 7), DOUBLE: Decimal(30, 15)},
    STRING: Decimal(38, 18),
}
"""The types to which Spark converts what is no whole number and no decimal."""


def _parse_pattern(bound: BoundArguments) -> NumberPattern:
    from headrace.core.expressions.functions.number_patterns import (
        NumberPatternError,
        parse_number_pattern,
    )

    pattern = bound.constants[1]
    try:
        return parse_number_pattern("9" if pattern is None else str(pattern))
    except NumberPatternError as error:
        raise ExpressionError(str(error), bound.arguments[1].span, "as in '$9,999.00S'") from None


def _build_to_number(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_column

    pattern = _parse_pattern(bound)

    def parse(texts: pl.Series) -> pl.Series:
        import polars as pl

        values = [None if text is None else pattern.parse(text) for text in texts.to_list()]
        return pl.Series(values, dtype=to_polars(bound.result))

    form = compute_on_column(parse, bound.result)
    return lambda text, _: form(text)


def _spark_form_of_to_number(bound: BoundArguments) -> str:
    """Return the Spark form, which is NULL where `to_number` fails.

    Where the pattern has no digits before the point, Spark fails nevertheless.
    """
    pattern = _parse_pattern(bound)
    return "try_to_number({0}, {1})" if pattern.whole_digits else NO_SPARK_FORM


def _build_to_char(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_column

    pattern = _parse_pattern(bound)

    def write(numbers: pl.Series) -> pl.Series:
        import polars as pl

        texts = numbers.cast(pl.String).to_list()
        return pl.Series(
            [None if text is None else pattern.format(text) for text in texts], dtype=pl.String
        )

    form = compute_on_column(write, STRING)
    return lambda number, _: form(number)


_NUMBER_TO_CHAR = overload(
    "to_char(number: N, pattern: constant string) -> string", build=_build_to_char, nulls="strict"
)
_NUMBERS_TO_CHAR = function(
    *("to_char", "strings", "", _NUMBER_TO_CHAR), example=("to_char(454, '999')", "454")
)


def _resolve_to_char(call: TypedCall) -> TypedExpression:
    """Resolve by the type of the first argument."""
    if len(call.arguments) == 2:
        value, pattern = call.arguments
        if value.type in (DATE, TIMESTAMP):
            return _OTHERS["date_format"].resolve(call)
        if value.type == BINARY:
            return _resolve_bytes_to_char(call, pattern)
        if decimal := _AS_DECIMALS.get(value.type):
            value = build_cast(value, decimal, value.span)
            call = replace(call, arguments=(value, pattern))
    return _NUMBERS_TO_CHAR.resolve(call)


def _resolve_bytes_to_char(call: TypedCall, pattern: TypedExpression) -> TypedExpression:
    if isinstance(pattern, Constant) and pattern.value is None:
        return Constant(STRING, True, call.span, None)
    name = (literal_text(pattern) or "").lower()
    if name in ("base64", "hex"):
        return _OTHERS[name].resolve(replace(call, arguments=call.arguments[:1]))
    if name == "utf-8":
        return _OTHERS["decode"].resolve(call)
    raise ExpressionError(f"{call.name} wants 'base64', 'hex' or 'utf-8' for bytes", pattern.span)


NUMBER_FORMATS: tuple[SqlFunction, ...] = (
    function(
        "to_char",
        "strings",
        "A number as text by a pattern of 9 and 0 for digits, comma or G, point or D, $, and for"
        " the sign S, MI or PR; `#` for the digits of a number that has more. A time by a pattern"
        " as in date_format, and bytes as 'base64', 'hex' or 'utf-8'. It takes some 3 us a row, as"
        " Python writes each.",
        example=("to_char(-12454.8, '99G999D9S')", "12,454.8-"),
        more=(("to_char(date '2016-04-08', 'y')", "2016"), ("to_char(x'4142', 'hex')", "4142")),
        aliases=("to_varchar",),
        resolve=_resolve_to_char,
        signatures=(
            "to_char(number: N, pattern: constant string) -> string",
            "to_char(time: timestamp, pattern: constant string) -> string",
            "to_char(bytes: binary, format: constant string) -> string",
        ),
        spark=AS_WRITTEN,
    ),
    function(
        "to_number",
        "strings",
        "The number that a text stands for by a pattern, as in to_char; NULL if the text does not"
        " fit. The type has the digits of the pattern. It takes some 3 us a row, as Python reads"
        " each.",
        overload(
            "to_number(text: string, pattern: constant string) -> D",
            build=_build_to_number,
            returns=lambda bound: _parse_pattern(bound).type,
            spark=_spark_form_of_to_number,
        ),
        example=("to_number('12,454.8-', '99,999.9S')", "-12454.8"),
        aliases=("try_to_number",),
    ),
)
"""The functions of patterns of numbers."""
