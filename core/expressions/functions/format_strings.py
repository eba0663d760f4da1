"""Values in texts: `format_string`, and numbers with separators: `format_number`."""

from __future__ import annotations

from decimal import Decimal as PythonDecimal
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, TypedCall, function, overload
from headrace.core.expressions.functions.arguments import clip_at_zero, literal_int, literal_text
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    AS_WRITTEN,
    NO_SPARK_FORM,
    Constant,
    ExpressionError,
    FunctionCall,
    PolarsForm,
    TypedExpression,
)
from headrace.core.types.data_types import (
    BINARY,
    DATE,
    FLOAT,
    FLOAT_TYPES,
    INTERVAL_TYPES,
    NULL,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Struct,
    Type,
)

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.expressions.functions.printf_formats import Conversion

_SIGNATURE = "format_string(format: constant string, [value: any...]) -> string"


def _resolve_format_string(call: TypedCall) -> TypedExpression:
    from headrace.core.expressions.functions.printf_formats import PrintfError, parse_format

    if not call.arguments:
        message = f"{call.name} takes at least 1 argument, got 0"
        raise ExpressionError(message, call.span, f"its signature is {_SIGNATURE}")
    format, *values = call.arguments
    if isinstance(format, Constant) and format.value is None:
        return Constant(STRING, True, call.span, None)
    text = literal_text(format)
    if text is None:
        message = f"{call.name} wants a format in quotes, got {format.type}"
        raise ExpressionError(message, format.span, "as in format_string('%s: %d', 'a', 1)")
    types = [value.type for value in values]
    try:
        parts = [*parse_format(text, types)]
    except PrintfError as error:
        hint = "a conversion is written as %s for any value, %d, %x, %o, %e, %f, %g, %c or %b"
        raise ExpressionError(str(error), format.span, hint) from None
    used = [part for part in parts if not isinstance(part, str)]
    for part in used:
        if part.letter == "s":
            _check_shown(values[part.argument])
    is_other = any(part.letter in "efgc" for part in used)
    is_other |= any(types[p.argument] in FLOAT_TYPES for p in used if p.letter == "s")
    form = partial(_join_parts, parts, types)
    spark = NO_SPARK_FORM if is_other else AS_WRITTEN
    is_nullable = any(part.letter == "c" for part in used)
    arguments = tuple(values)
    if not arguments:
        return Constant(STRING, False, call.span, "".join(map(str, parts)))
    return FunctionCall(STRING, is_nullable, call.span, call.name, arguments, form, spark)


def _check_shown(value: TypedExpression) -> None:
    if isinstance(value.type, Array | Struct) or value.type == BINARY or "map<" in str(value.type):
        message = f"%s does not take {value.type}"
        raise ExpressionError(message, value.span, "cast(... as string) is its text")


def _join_parts(parts: list[str | Conversion], types: list[Type], *values: pl.Expr) -> pl.Expr:
    import polars as pl

    from headrace.core.expressions.batch_forms import evaluate_once

    def join(*columns: pl.Expr) -> pl.Expr:
        texts = [
            pl.lit(part)
            if isinstance(part, str)
            else _write_column(part, columns[part.argument], types[part.argument])
            for part in parts
        ]
        every = columns[0].is_null() | columns[0].is_not_null()
        joined = pl.concat_str(texts) if texts else pl.lit("")
        return pl.when(every).then(joined)

    return evaluate_once(join, STRING)(*values)


def _write_column(part: Conversion, value: pl.Expr, type: Type) -> pl.Expr:
    import polars as pl

    from headrace.core.expressions.batch_forms import compute_on_column

    if part.letter == "s":
        value = _to_java_text(value, type)
    elif type == FLOAT:
        value = value.cast(pl.Float64)
    elif part.letter == "b" and type != NULL:
        value = value if str(type) == "boolean" else pl.when(value.is_not_null()).then(True)
    if part.is_plain:
        return value.cast(pl.String).fill_null("null")

    def write(values: pl.Series) -> pl.Series:
        return pl.Series([_write_value(part, each) for each in values.to_list()], dtype=pl.String)

    return compute_on_column(write, STRING)(value)


def _write_value(part: Conversion, value: object) -> str | None:
    """Format a value; None for a number that is no character's."""
    is_character = part.letter != "c" or not isinstance(value, int) or 0 <= value <= 0x10FFFF
    return part.write(value) if is_character else None


def _to_java_text(value: pl.Expr, type: Type) -> pl.Expr:
    """Return the text of a value inside of Spark: of a date or time, the number of it."""
    import polars as pl

    from headrace.core.expressions.casts.to_text import to_text

    if type in (DATE, TIMESTAMP, *INTERVAL_TYPES):
        return value.to_physical().cast(pl.String)
    return value.cast(pl.String) if type == NULL else to_text(type, plain=False)(value)


_MOST_PLACES = 340
"""The largest number of digits that Java writes after the point of a double."""


def _format_places(value: float | int | PythonDecimal, places: int) -> str | None:
    """Format with commas and that many digits after the point; None if the number is negative."""
    if places < 0:
        return None
    if isinstance(value, PythonDecimal):
        return f"{value:,.{places}f}"
    places = min(places, _MOST_PLACES)
    if isinstance(value, int):
        return f"{value:,}.{'0' * places}" if places else f"{value:,}"
    if value != value:
        return "NaN"
    if abs(value) == float("inf"):
        return "∞" if value > 0 else "-∞"
    if abs(value) < 10.0 ** (15 - places):
        return f"{value:,.{places}f}"
    from headrace.core.expressions.functions.decimal_patterns import format_fixed

    return f"{PythonDecimal(format_fixed(value, places)):,f}"


def _build_places(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import map_values

    return map_values(_format_places, STRING)


def _build_number_pattern(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import map_values
    from headrace.core.expressions.functions.decimal_patterns import parse_decimal_pattern

    text = bound.constants[1]
    assert text is None or isinstance(text, str)
    pattern = parse_decimal_pattern(text or "")
    if pattern is None:
        message = f"format_number does not take the pattern {text!r}"
        hint = "a pattern has #, 0, commas and one point, as in '#,##0.00'"
        raise ExpressionError(message, bound.arguments[1].span, hint)

    def write(value: float | PythonDecimal) -> str:
        return pattern.write(PythonDecimal(value) if isinstance(value, int) else value)

    form = map_values(write, STRING)
    return lambda value, _: form(value)


def _grow_places(bound: BoundArguments) -> PolarsForm | None:
    """Return the size of a decimal with its digits after the point; other numbers have few."""
    if not isinstance(bound.types[0], Decimal):
        return None
    return lambda value, places: clip_at_zero(places) + 64


def _spark_form_of_number(bound: BoundArguments) -> str:
    """Return none for a double: Java writes some of them with a digit too many.

    There is none for places that are not known either: Spark runs out of memory where they are
    many.
    """
    places = literal_int(bound.arguments[1])
    is_known = bound.types[1] == STRING or (places is not None and places <= _MOST_PLACES)
    return AS_WRITTEN if is_known and bound.types[0] not in FLOAT_TYPES else NO_SPARK_FORM


FORMAT_STRINGS: tuple[SqlFunction, ...] = (
    function(
        "format_string",
        "strings",
        "The format with values in place of its conversions, as in Java: %s for any value, %d, %x"
        " and %o for whole numbers, %f, %e and %g for doubles, %c for the code of a character, %b"
        " for whether there is a value, %% and %n; with flags, width, precision and the number of"
        " the argument, as in %2$-10s. A date or time is the number of its days or microseconds."
        " Each conversion but %s and %d alone takes some 2 us a row, as Python formats each value.",
        example=("format_string('%s: %,d', 'days', 1000)", "days: 1,000"),
        more=(("format_string('%08.3f|%-5s|', 3.14159D, 'a')", "0003.142|a    |"),),
        aliases=("printf",),
        resolve=_resolve_format_string,
        signatures=(_SIGNATURE,),
    ),
    function(
        "format_number",
        "strings",
        "A number with commas and that many digits after the point, or by a pattern of #, 0, comma"
        " and point; half is rounded to the even digit. It takes some 2 us a row, as Python formats"
        " each.",
        overload(
            "format_number(number: N, places: int) -> string",
            build=_build_places,
            growth=_grow_places,
            spark=_spark_form_of_number,
        ),
        overload(
            "format_number(number: N, pattern: constant string) -> string",
            build=_build_number_pattern,
            nulls="strict",
            spark=_spark_form_of_number,
        ),
        example=("format_number(12332.123456, 4)", "12,332.1235"),
        more=(("format_number(12332.123456, '#,###.#')", "12,332.1"),),
    ),
)
"""The functions of values in texts."""
