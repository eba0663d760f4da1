"""Numbers as Spark's lexer types them: `1` int, `1L` bigint, `1.5` decimal(2,1), `1e3` double.

Interval literals, part by part, as numbers of microseconds or of months.

Spark's rules: only seconds have fractions (truncated to microseconds), `'1 2:03' day to minute` is
one part, several parts are added up, and months never mix with days and time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal as PythonDecimal

from headrace.core.expressions.parsing.lexer import SqlToken
from headrace.core.expressions.parsing.syntax_tree import Literal
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.types.data_types import (
    BIGINT,
    DAY,
    DOUBLE,
    FLOAT,
    INT,
    MAX_DIGITS,
    MONTH_FIELDS,
    SMALLINT,
    TIME_FIELDS,
    TINYINT,
    YEAR_MONTH,
    Atom,
    Decimal,
    Interval,
    Type,
)
from headrace.core.types.lazy_pattern import compile_pattern

_SUFFIX = compile_pattern(r"(BD|[LSYFD])?$", re.IGNORECASE)


_BITS: dict[Atom, int] = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}


_INTEGER_SUFFIX: dict[str, Atom] = {"Y": TINYINT, "S": SMALLINT, "L": BIGINT}


_FLOAT_SUFFIX: dict[str, Atom] = {"F": FLOAT, "D": DOUBLE}


def build_number_literal(token: SqlToken, minus: SqlToken | None = None) -> Literal:
    """Build the literal of a number, with the minus sign before it if there is one."""
    span = minus.span.extend_to(token.span) if minus else token.span
    digits = _SUFFIX.sub("", token.text)
    suffix = token.text[len(digits) :].upper()
    text = f"-{digits}" if minus else digits
    if suffix in _FLOAT_SUFFIX:
        return _build_double(text, _FLOAT_SUFFIX[suffix], span)
    if suffix in _INTEGER_SUFFIX:
        return _build_integer(text, (_INTEGER_SUFFIX[suffix],), span)
    if suffix == "BD":
        return _build_decimal(text, span)
    if "e" in digits.lower():
        return _build_double(text, DOUBLE, span)
    if "." in digits:
        return _build_decimal(text, span)
    return _build_integer(text, (INT, BIGINT), span)


def _build_integer(text: str, types: tuple[Atom, ...], span: Span) -> Literal:
    if not text.lstrip("-").isdigit():
        raise ExpressionError(f"{text} is not a whole number", span, "leave out the suffix")
    value = int(text)
    for type in types:
        if -(1 << (_BITS[type] - 1)) <= value < 1 << (_BITS[type] - 1):
            return Literal(span, value, type)
    if types == (INT, BIGINT):
        return _build_decimal(text, span)
    raise ExpressionError(f"{text} does not fit into {types[0]}", span)


def _build_double(text: str, type: Type, span: Span) -> Literal:
    value = float(text)
    limit = 3.4028234663852886e38 if type == FLOAT else math.inf
    if abs(value) > limit or math.isinf(value):
        raise ExpressionError(f"{text} does not fit into {type}", span)
    return Literal(span, value, type)


def _build_decimal(text: str, span: Span) -> Literal:
    value = PythonDecimal(text)
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "digits have no NaN"
    scale = max(-exponent, 0)
    precision = max(len(value.as_tuple().digits) + max(exponent, 0), scale, 1)
    if precision > MAX_DIGITS:
        raise ExpressionError(f"{text} has more than {MAX_DIGITS} digits", span)
    return Literal(span, value, Decimal(precision, scale))


_SECOND = 1_000_000


_DAY = 86_400 * _SECOND


_INTERVAL_UNITS: dict[str, tuple[Interval, int]] = {
    "year": (Interval("year", "year"), 12),
    "month": (Interval("month", "month"), 1),
    "week": (DAY, 7 * _DAY),
    "day": (DAY, _DAY),
    "hour": (Interval("hour", "hour"), 3600 * _SECOND),
    "minute": (Interval("minute", "minute"), 60 * _SECOND),
    "second": (Interval("second", "second"), _SECOND),
    "millisecond": (Interval("second", "second"), 1000),
    "microsecond": (Interval("second", "second"), 1),
}


_INTERVAL_NUMBER = compile_pattern(
    r"\s*(?P<signs>[+-]{0,2})\s*(?P<number>\d+(?:\.\d*)?|\.\d+)\s*", re.ASCII
)


_INTERVAL_PART = compile_pattern(rf"{_INTERVAL_NUMBER.pattern}(?P<unit>[A-Za-z]+)\s*", re.ASCII)


# The fields of `interval '...' unit to unit`, their largest values, and an example of each form.
_INTERVAL_FIELDS = ("day", "hour", "minute", "second")


_RANGE_TEXT = compile_pattern(
    r"\s*(?P<signs>[+-]{0,2})(?P<fields>\d+(?: \d{1,2})?(?::\d{1,2}){0,2}(?:\.\d{1,9})?)\s*",
    re.ASCII,
)


_LARGEST_VALUES = {"hour": 23, "minute": 59, "second": 59}


_RANGE_SHAPES = {
    ("day", "hour"): ("1 02", r"\d+ \d+"),
    ("day", "minute"): ("1 02:03", r"\d+ \d+:\d+"),
    ("day", "second"): ("1 02:03:04.5", r"\d+ \d+:\d+:\d+(\.\d+)?"),
    ("hour", "minute"): ("02:03", r"\d+:\d+"),
    ("hour", "second"): ("02:03:04.5", r"\d+:\d+:\d+(\.\d+)?"),
    ("minute", "second"): ("03:04.5", r"\d+:\d+(\.\d+)?"),
}


def parse_interval(value: str, unit: str, to_unit: str | None) -> tuple[Interval, int]:
    """Return the type and count of one part of a literal; ValueError describes an invalid one.

    >>> parse_interval("90", "minutes", None)[1], parse_interval("-1-2", "year", "month")[1]
    (5400000000, -14)
    """
    if to_unit is not None:
        return _parse_unit_range(value, unit.lower(), to_unit.lower())
    return _parse_single_unit(value, unit) if unit else _parse_units_text(value)


def sum_interval_parts(parts: Iterable[tuple[Interval, int]]) -> tuple[Interval, int]:
    """Add up parts; ValueError where months meet days and time, or the sum is out of range.

    The type has the fields from the first to the last one of the parts.
    """
    parts = list(parts)
    kinds = {type.is_months for type, _ in parts}
    if len(kinds) > 1:
        raise ValueError("an interval has months, or days and time, but not both")
    count = sum(count for _, count in parts)
    is_months = kinds.pop()
    limit = 1 << (31 if is_months else 63)
    if not -limit <= count < limit:
        raise ValueError("the interval is too long")
    fields = (MONTH_FIELDS if is_months else TIME_FIELDS).index
    first = min((type.first for type, _ in parts), key=fields)
    return Interval(first, max((type.last for type, _ in parts), key=fields)), count


def _parse_single_unit(value: str, unit: str) -> tuple[Interval, int]:
    """Parse `interval 90 minutes`."""
    name = unit.lower().removesuffix("s")
    if name not in _INTERVAL_UNITS:
        raise ValueError(f'wanted a unit such as {", ".join(_INTERVAL_UNITS)}, got "{unit}"')
    match = _INTERVAL_NUMBER.fullmatch(value)
    if match is None:
        raise ValueError(f'wanted a number of {name}s, got "{value}"')
    if "." in match["number"] and name != "second":
        raise ValueError(f"only seconds have fractions, got {value.strip()} {unit}")
    return sum_interval_parts(
        [(_INTERVAL_UNITS[name][0], _parse_sign(match) * _to_count(match["number"], name))]
    )


def _parse_units_text(text: str) -> tuple[Interval, int]:
    """Parse `interval '1 day 2 hours'`."""
    body = re.sub(r"^\s*interval\s", "", text, flags=re.IGNORECASE)
    parts, at = [], 0
    while match := _INTERVAL_PART.match(body, at):
        parts.append(_parse_single_unit(match["signs"] + match["number"], match["unit"]))
        at = match.end()
    if not parts or at < len(body):
        raise ValueError(f'wanted numbers and units such as "1 day 2 hours", got "{text}"')
    return sum_interval_parts(parts)


def _parse_unit_range(value: str, first: str, last: str) -> tuple[Interval, int]:
    if (first, last) == ("year", "month"):
        return _parse_years_and_months(value)
    if (first, last) not in _RANGE_SHAPES:
        raise ValueError(f"there is no interval of {first} to {last}")
    example, shape = _RANGE_SHAPES[first, last]
    match = _RANGE_TEXT.fullmatch(value)
    if match is None or not re.fullmatch(shape, match["fields"], re.ASCII):
        raise ValueError(f'wanted text such as "{example}" for {first} to {last}, got "{value}"')
    names = _INTERVAL_FIELDS[_INTERVAL_FIELDS.index(first) : _INTERVAL_FIELDS.index(last) + 1]
    numbers = re.split("[ :]", match["fields"])
    for name, digits in list(zip(names, numbers, strict=True))[1:]:
        if int(digits.partition(".")[0]) > _LARGEST_VALUES[name]:
            raise ValueError(f"{name}s must be at most {_LARGEST_VALUES[name]} here, got {digits}")
    count = sum(map(_to_count, numbers, names))
    return sum_interval_parts([(Interval(first, last), _parse_sign(match) * count)])


def _parse_years_and_months(value: str) -> tuple[Interval, int]:
    match = re.fullmatch(r"\s*(?P<signs>[+-]{0,2})(\d+)-(\d+)\s*", value, re.ASCII)
    if match is None:
        raise ValueError(f'wanted text such as "1-2" for year to month, got "{value}"')
    years, months = int(match[2]), int(match[3])
    if months > 11:
        raise ValueError(f"months must be at most 11 here, got {months}")
    return sum_interval_parts([(YEAR_MONTH, _parse_sign(match) * (years * 12 + months))])


def _to_count(number: str, unit: str) -> int:
    """Convert a number of units to microseconds (further digits are truncated) or months."""
    whole, _, fraction = number.partition(".")
    return int(whole or 0) * _INTERVAL_UNITS[unit][1] + int(fraction.ljust(6, "0")[:6])


def _parse_sign(match: re.Match[str]) -> int:
    """Return the sign: a minus before the quotes and another inside cancel out."""
    return -1 if match["signs"].count("-") % 2 else 1
