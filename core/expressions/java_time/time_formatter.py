"""Formatting of timestamps by a pattern.

All fields are formatted in the 400 years from 1970 (see `calendar`), in one call as far as Polars
has them; a year is formatted separately where it does not have four digits. A field whose text
cannot be reproduced exactly is refused by its letter: eras (G), and fields that changed between
versions of Java (F, g, v).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.expressions.batch_forms import compute_on_column
from headrace.core.expressions.java_time.pattern import (
    OptionalSection,
    PatternField,
    PatternPart,
    PatternText,
    TimePatternError,
    parse_time_pattern,
)
from headrace.core.expressions.typed import PolarsForm
from headrace.core.types import calendar
from headrace.core.types.data_types import STRING

if TYPE_CHECKING:
    import polars as pl

# Fields that Polars formats as Java does, some of them with literal characters.
_DIRECTIVES = {
    **{"M": "%-m", "MM": "%m", "MMM": "%b", "MMMM": "%B"},
    **{"L": "%-m", "LL": "%m", "LLL": "%b", "LLLL": "%B"},
    **{"d": "%-d", "dd": "%d", "D": "%-j", "DDD": "%j"},
    **{"E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A", "a": "%p"},
    **{"H": "%-H", "HH": "%H", "h": "%-I", "hh": "%I", "m": "%-M", "mm": "%M"},
    **{"s": "%-S", "ss": "%S", "SSS": "%3f", "SSSSSS": "%6f"},
    **{"SSSSSSS": "%6f0", "SSSSSSSS": "%6f00", "SSSSSSSSS": "%6f000"},
    **{"Q": "%q", "QQ": "0%q", "QQQ": "Q%q", "q": "%q", "qq": "0%q", "qqq": "Q%q"},
}

# Times are UTC, so zones and offsets always have the same text.
_ZONES = {
    **dict.fromkeys(("VV", "z", "zz", "zzz"), "UTC"),
    "zzzz": "Coordinated Universal Time",
    **dict.fromkeys(("O", "OOOO", "ZZZZ"), "GMT"),
    **dict.fromkeys(("X", "XX", "XXX", "XXXX", "XXXXX", "ZZZZZ"), "Z"),
    **{"x": "+00", "xx": "+0000", "xxx": "+00:00", "xxxx": "+0000", "xxxxx": "+00:00"},
    **dict.fromkeys(("Z", "ZZ", "ZZZ"), "+0000"),
}

# Directives that equal Java only in the years 0 to 9999, where most times are.
_FOUR_DIGIT_DIRECTIVES = {"yyyy": "%Y", "yy": "%y"}
_FOUR_DIGIT_US = (-719_528 * calendar.DAY_US, 2_932_897 * calendar.DAY_US - 1)

FieldFormatter: TypeAlias = "Callable[[pl.Expr], pl.Expr]"


def build_formatter(pattern: str) -> PolarsForm:
    """Return the form that formats a timestamp; TimePatternError names an unsupported field."""
    parts = parse_time_pattern(pattern)
    far = _build_concatenation(list(_join_texts(_split_pieces(parts, _DIRECTIVES))))
    match list(_join_texts(_split_pieces(parts, _DIRECTIVES | _FOUR_DIGIT_DIRECTIVES))):
        case [str(near)] if "%Y" in near or "%y" in near:
            return compute_on_column(_build_fast_formatter(near, far), STRING)
    return far


def _build_fast_formatter(directives: str, far: FieldFormatter) -> Callable[[pl.Series], pl.Series]:
    def write(times: pl.Series) -> pl.Series:
        import polars as pl

        micros = times.to_physical()
        if not ((micros >= _FOUR_DIGIT_US[0]) & (micros <= _FOUR_DIGIT_US[1])).all():
            return times.to_frame("time").select(far(pl.col("time"))).to_series()
        return micros.cast(pl.Datetime("us")).dt.strftime(directives)

    return write


def _build_concatenation(pieces: Sequence[str | FieldFormatter]) -> FieldFormatter:
    """Concatenate all pieces; a single text with directives is left to Polars alone."""

    def write(time: pl.Expr) -> pl.Expr:
        import polars as pl

        match pieces:
            case [str(only)] if _has_directives(only):
                return _format_piece(only, time)
        texts = [_format_piece(piece, time) for piece in pieces]
        return pl.when(time.is_not_null()).then(pl.concat_str([pl.lit(""), *texts]))

    return write


def _format_piece(piece: str | FieldFormatter, time: pl.Expr) -> pl.Expr:
    import polars as pl

    if not isinstance(piece, str):
        return piece(time)
    if not _has_directives(piece):
        return pl.lit(piece.replace("%%", "%"))
    return calendar.fold_time(time).dt.strftime(piece)


def _has_directives(text: str) -> bool:
    """Whether the text contains directives."""
    return "%" in text.replace("%%", "")


def _split_pieces(
    parts: Iterable[PatternPart], directives: dict[str, str]
) -> Iterator[str | FieldFormatter]:
    """Yield texts with Polars' directives, and functions for the fields that Polars lacks."""
    for part in parts:
        match part:
            case PatternText(text):
                yield text.replace("%", "%%")
            case OptionalSection(inner):
                yield from _split_pieces(inner, directives)
            case PatternField():
                yield directives.get(str(part)) or _ZONES.get(str(part)) or _build_field(part)


# Fields that are computed.
_COMPUTED_FIELDS = ("yyyyyy", "k", "kk", "K", "KK")


def _build_field(field: PatternField) -> FieldFormatter:
    match field.letter, field.count:
        case "y", count:
            return _build_year(count)
        case "S", 1 | 2 | 4 | 5 as count:
            unit = calendar.SECOND_US // 10**count
            return lambda time: _format_number(
                _extract_units(time, calendar.SECOND_US, unit), count
            )
        case "k", 1 | 2 as count:
            return lambda time: _format_number((_extract_hour(time) - 1) % 24 + 1, count)
        case "K", 1 | 2 as count:
            return lambda time: _format_number(_extract_hour(time) % 12, count)
        case "D", 2:
            return lambda time: _format_number(calendar.fold_time(time).dt.ordinal_day(), 2)
    raise unsupported_field_error(field)


def unsupported_field_error(field: PatternField) -> TimePatternError:
    """Return the error that explains why a field is refused."""
    letter, names = field.letter, (*_DIRECTIVES, *_ZONES, *_COMPUTED_FIELDS)
    counts = sorted({len(name) for name in names if name[0] == letter})
    if not counts:
        return TimePatternError(f"{letter} is not a field that can be formatted or parsed exactly")
    if field.count > counts[-1]:
        return TimePatternError(
            f"{field} is not supported: {letter} occurs at most {counts[-1]} times"
        )
    known = " or ".join(letter * count for count in counts)
    return TimePatternError(f"{field} is not supported: use {known}")


def _join_texts(pieces: Iterable[str | FieldFormatter]) -> Iterator[str | FieldFormatter]:
    """Join neighbouring texts."""
    text = ""
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            continue
        if text:
            yield text
        yield piece
        text = ""
    if text:
        yield text


def _extract_units(time: pl.Expr, whole: int, unit: int) -> pl.Expr:
    """Return the number of units in the remainder of a larger unit."""
    return calendar.to_micros(time) % whole // unit


def _extract_hour(time: pl.Expr) -> pl.Expr:
    return _extract_units(time, calendar.DAY_US, 3600 * calendar.SECOND_US)


def _format_number(number: pl.Expr, width: int) -> pl.Expr:
    """Format a number that is not negative, padded with zeros."""
    import polars as pl

    text = number.cast(pl.String)
    return text if width == 1 else text.str.zfill(width)


def _build_year(count: int) -> FieldFormatter:
    """Format the year: `yy` its last two digits, a plus sign if it has more than four digits."""

    def write(time: pl.Expr) -> pl.Expr:
        import polars as pl

        year = calendar.extract_year(calendar.truncate_to_day(time))
        if count == 1:
            return year.cast(pl.String)
        if count == 2:
            return _format_number(year.abs() % 100, 2)
        plus = (year >= 10**count) & pl.lit(count > 3)
        sign = pl.when(year < 0).then(pl.lit("-")).when(plus).then(pl.lit("+"))
        return sign.otherwise(pl.lit("")) + _format_number(year.abs(), count)

    return write
