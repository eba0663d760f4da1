"""Values in texts: `format_string`, and numbers with separators: `format_number`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal as PythonDecimal
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, TypedCall, function, overload
from headrace.core.expressions.functions.arguments import clip_at_zero, literal_text
from headrace.core.expressions.functions.printf_formats import (
    Conversion,
    PrintfError,
    parse_format,
)
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

_SIGNATURE = "format_string(format: constant string, [value: any...]) -> string"


def _resolve_format_string(call: TypedCall) -> TypedExpression:
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
    used = [part for part in parts if isinstance(part, Conversion)]
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


_NUMBER_PATTERN = re.compile(
    r"(?P<prefix>[^#0,.;%‰¤'E\-]*)(?P<whole>[#,]*[0,]*)(?P<point>\.(?P<zeros>0*)(?P<rest>#*))?"
    r"(?P<suffix>[^#,.;%‰¤'E\-]*)"
)
_DEFAULT_PATTERN = "#,##0"
_MOST_PLACES = 340
"""The largest number of digits that Java writes after the point of a double."""


@dataclass(frozen=True, slots=True)
class DecimalPattern:
    """A pattern of Java's DecimalFormat, of digits, separators and the text around them."""

    prefix: str
    suffix: str
    least_whole: int
    least_part: int
    most_part: int
    group: int
    has_point: bool

    def write(self, value: float | PythonDecimal) -> str:
        """Format a number; half is rounded to the even digit."""
        if value != value:
            return "NaN"
        text = format_fixed(value, self.most_part)
        is_negative = text.startswith("-")
        whole, _, part = text.lstrip("-").partition(".")
        if whole.isdigit():
            whole = self._group(whole.lstrip("0").rjust(self.least_whole, "0"))
            part = part[: self.least_part] + part[self.least_part :].rstrip("0")
            point = "." if part or self.has_point else ""
            text = f"{whole}{point}{part}" if whole or part else "0"
        else:
            text = "∞"
        return f"{'-' if is_negative else ''}{self.prefix}{text}{self.suffix}"

    def _group(self, digits: str) -> str:
        if not self.group or len(digits) <= self.group:
            return digits
        first = len(digits) % self.group
        groups = [digits[at : at + self.group] for at in range(first, len(digits), self.group)]
        return ",".join([digits[:first], *groups] if first else groups)


def format_fixed(value: float | PythonDecimal, places: int) -> str:
    """Format with that many digits after the point; half is rounded to the even digit.

    A double has the digits of its shortest text, and what is rounded is its exact value.
    """
    if isinstance(value, float) and abs(value) < 10.0 ** (15 - places):
        return f"{value:.{places}f}"
    exact = PythonDecimal(repr(value)) if isinstance(value, float) else value
    exponent = exact.as_tuple().exponent
    if isinstance(value, float) and isinstance(exponent, int) and -exponent > places:
        return f"{value:.{places}f}"
    return f"{exact:.{places}f}" if exact.is_finite() else str(value)


def parse_decimal_pattern(text: str) -> DecimalPattern | None:
    """Parse a pattern of Java's DecimalFormat; None for what is none, or has no meaning here.

    >>> parse_decimal_pattern("$#,##0.00").write(1234.5)
    '$1,234.50'
    """
    match = _NUMBER_PATTERN.fullmatch(text or _DEFAULT_PATTERN)
    if match is None:
        return None
    whole, _, last = match["whole"].rpartition(",")
    digits = (whole + last).replace(",", "")
    if "," in match["whole"] and not last:
        return None
    hashes, zeros = digits.count("#"), digits.count("0") + len(match["zeros"] or "")
    rest = len(match["rest"] or "")
    if match["point"] and not zeros and (hashes or rest):
        # Without a zero, the last digit before the point is one, or the first one after it.
        rest = hashes + rest - max(len(digits), 1)
        hashes, zeros = max(len(digits), 1) - 1, 1
    total = hashes + zeros + rest
    return DecimalPattern(
        match["prefix"],
        match["suffix"],
        (len(digits) if match["point"] else total) - hashes,
        max(0, hashes + zeros - len(digits)) if match["point"] else 0,
        total - len(digits) if match["point"] else 0,
        len(last) if "," in match["whole"] else 0,
        bool(match["point"]) and len(digits) in (0, total),
    )


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
    return f"{PythonDecimal(format_fixed(value, places)):,f}"


def _build_places(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import map_values

    return map_values(_format_places, STRING)


def _build_number_pattern(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import map_values

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
    """Return none for a double: Java writes some of them with a digit too many."""
    return NO_SPARK_FORM if bound.types[0] in FLOAT_TYPES else AS_WRITTEN


FORMAT_STRINGS: tuple[SqlFunction, ...] = (
    function(
        "format_string",
        "strings",
        "The format with values in place of its conversions, as in Java: %s for any value, %d, %x"
        " and %o for whole numbers, %f, %e and %g for doubles, %c for the code of a character, %b"
        " for whether there is a value, %% and %n; with flags, width, precision and the number of"
        " the argument, as in %2$-10s. A date or time is the number of its days or microseconds.",
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
        " and point; half is rounded to the even digit.",
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
