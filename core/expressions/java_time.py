"""Patterns of dates and times as Java's DateTimeFormatter has them, and as Spark narrows them.

`yyyy-MM-dd'T'HH:mm[:ss]`: runs of letters are fields, the rest is text, quoted where it has
letters. Spark refuses what counts weeks, and narrow names. A field whose text we cannot give
exactly is refused by its letter: eras (G), and what changed between versions of Java (F, g, v).

The writing half is here, `java_time_reading` has the other. Times are written in the 400 years from
1970 (see `calendar`), in one go as far as Polars has the field, and the year is written apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.expressions import calendar
from headrace.core.expressions.batches import per_column
from headrace.core.expressions.typed import Form
from headrace.core.types import STRING

if TYPE_CHECKING:
    import polars as pl


class PatternError(ValueError):
    """A pattern that Spark refuses, or that we do."""


@dataclass(frozen=True, slots=True)
class Letters:
    """A field: a letter so many times."""

    letter: str
    count: int

    def __str__(self) -> str:
        return self.letter * self.count


@dataclass(frozen=True, slots=True)
class Text:
    """Characters that stand for themselves."""

    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """What stands in brackets: read where it is there, always written."""

    parts: tuple[Part, ...]


Part: TypeAlias = "Letters | Text | Section"

_WEEKS = frozenset("YWwuec")
_NARROW = {**dict.fromkeys("MLEQq", 5), "y": 7}
_RESERVED = frozenset("{}#")


def parse_pattern(pattern: str) -> tuple[Part, ...]:
    """The parts of a pattern; PatternError says which character does not belong there.

    >>> parse_pattern("yyyy'T'")
    (Letters(letter='y', count=4), Text(text='T'))
    """
    levels: list[list[Part]] = [[]]
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character.isascii() and character.isalpha():
            count = len(pattern) - at - len(pattern[at:].lstrip(character))
            levels[-1].append(_letters(character, count))
            at += count
            continue
        at += 1
        if character == "'":
            text, at = _quoted(pattern, at)
            levels[-1].append(Text(text))
        elif character == "[":
            levels.append([])
        elif character == "]":
            _close(levels)
        elif character in _RESERVED:
            raise PatternError(f"{character} is reserved: write '{character}' in quotes")
        else:
            levels[-1].append(Text(character))
    while len(levels) > 1:
        _close(levels)
    return tuple(levels[0])


def _close(levels: list[list[Part]]) -> None:
    if len(levels) == 1:
        raise PatternError("] closes no [")
    inner = tuple(levels.pop())
    levels[-1].append(Section(inner))


def _quoted(pattern: str, start: int) -> tuple[str, int]:
    """The text up to the closing quote, and where the pattern goes on; two quotes are one."""
    at = start
    while (end := pattern.find("'", at)) >= 0:
        if pattern[end + 1 : end + 2] == "'" and end > start:
            at = end + 2
            continue
        return pattern[start:end].replace("''", "'") or "'", end + 1
    raise PatternError("a quote is not closed")


def _letters(letter: str, count: int) -> Letters:
    if letter in _WEEKS:
        raise PatternError(f"{letter} counts weeks, which Spark refuses: use weekofyear(...)")
    if count >= _NARROW.get(letter, count + 1):
        raise PatternError(f"{letter * count} is too long: Spark has no narrow names")
    return Letters(letter, count)


# Fields that Polars writes as Java does. Literal characters stand beside some of them.
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

# Times are UTC, so that zones and offsets are always written the same.
_ZONES = {
    **dict.fromkeys(("VV", "z", "zz", "zzz"), "UTC"),
    "zzzz": "Coordinated Universal Time",
    **dict.fromkeys(("O", "OOOO", "ZZZZ"), "GMT"),
    **dict.fromkeys(("X", "XX", "XXX", "XXXX", "XXXXX", "ZZZZZ"), "Z"),
    **{"x": "+00", "xx": "+0000", "xxx": "+00:00", "xxxx": "+0000", "xxxxx": "+00:00"},
    **dict.fromkeys(("Z", "ZZ", "ZZZ"), "+0000"),
}

# The same of fields that it only has so in the years 0 to 9999, which is where most times are.
_NEAR_DIRECTIVES = {"yyyy": "%Y", "yy": "%y"}
_NEAR_US = (-719_528 * calendar.DAY_US, 2_932_897 * calendar.DAY_US - 1)

Writer: TypeAlias = "Callable[[pl.Expr], pl.Expr]"


def writer(pattern: str) -> Form:
    """How a timestamp is written by a pattern; PatternError names what cannot be."""
    parts = parse_pattern(pattern)
    far = _written(list(_joined(_pieces(parts, _DIRECTIVES))))
    match list(_joined(_pieces(parts, _DIRECTIVES | _NEAR_DIRECTIVES))):
        case [str(near)] if "%Y" in near or "%y" in near:
            return per_column(_near(near, far), STRING)
    return far


def _near(directives: str, far: Writer) -> Callable[[pl.Series], pl.Series]:
    def write(times: pl.Series) -> pl.Series:
        import polars as pl

        micros = times.to_physical()
        if not ((micros >= _NEAR_US[0]) & (micros <= _NEAR_US[1])).all():
            return times.to_frame("time").select(far(pl.col("time"))).to_series()
        return micros.cast(pl.Datetime("us")).dt.strftime(directives)

    return write


def _written(pieces: Sequence[str | Writer]) -> Writer:
    """All pieces in a row; a single text with directives is Polars' own affair."""

    def write(time: pl.Expr) -> pl.Expr:
        import polars as pl

        match pieces:
            case [str(only)] if _directs(only):
                return _piece(only, time)
        texts = [_piece(piece, time) for piece in pieces]
        return pl.when(time.is_not_null()).then(pl.concat_str([pl.lit(""), *texts]))

    return write


def _piece(piece: str | Writer, time: pl.Expr) -> pl.Expr:
    import polars as pl

    if not isinstance(piece, str):
        return piece(time)
    if not _directs(piece):
        return pl.lit(piece.replace("%%", "%"))
    return calendar.folded_time(time).dt.strftime(piece)


def _directs(text: str) -> bool:
    """Whether there are directives in it."""
    return "%" in text.replace("%%", "")


def _pieces(parts: Iterable[Part], directives: dict[str, str]) -> Iterator[str | Writer]:
    """Text with Polars' directives in it, or what writes a field that Polars has not."""
    for part in parts:
        match part:
            case Text(text):
                yield text.replace("%", "%%")
            case Section(inner):
                yield from _pieces(inner, directives)
            case Letters():
                yield directives.get(str(part)) or _ZONES.get(str(part)) or _field(part)


def _field(field: Letters) -> Writer:
    match field.letter, field.count:
        case "y", count:
            return _year(count)
        case "S", 1 | 2 | 4 | 5 as count:
            unit = calendar.SECOND_US // 10**count
            return lambda time: _number(_part(time, calendar.SECOND_US, unit), count)
        case "k", 1 | 2 as count:
            return lambda time: _number((_hour(time) - 1) % 24 + 1, count)
        case "K", 1 | 2 as count:
            return lambda time: _number(_hour(time) % 12, count)
        case "D", 2:
            return lambda time: _number(calendar.folded_time(time).dt.ordinal_day(), 2)
    raise unknown(field)


def unknown(field: Letters) -> PatternError:
    """Why a field is refused."""
    known = {name[0] for name in (*_DIRECTIVES, *_ZONES)} | set("ykK")
    if field.letter in known:
        return PatternError(f"{field} is not a field: {field.letter} is not written so often")
    return PatternError(f"{field.letter} is not a field that can be written or read exactly")


def _joined(pieces: Iterable[str | Writer]) -> Iterator[str | Writer]:
    """Neighbouring texts as one."""
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


def _part(time: pl.Expr, whole: int, unit: int) -> pl.Expr:
    """How many units there are in what a whole leaves over."""
    return calendar.micros(time) % whole // unit


def _hour(time: pl.Expr) -> pl.Expr:
    return _part(time, calendar.DAY_US, 3600 * calendar.SECOND_US)


def _number(number: pl.Expr, width: int) -> pl.Expr:
    """A number that is not negative, filled up with zeros."""
    import polars as pl

    text = number.cast(pl.String)
    return text if width == 1 else text.str.zfill(width)


def _year(count: int) -> Writer:
    """The year: `yy` its last two digits, a plus where it is too long for four letters."""

    def write(time: pl.Expr) -> pl.Expr:
        import polars as pl

        year = calendar.year(calendar.date_of(time))
        if count == 1:
            return year.cast(pl.String)
        if count == 2:
            return _number(year.abs() % 100, 2)
        plus = (year >= 10**count) & pl.lit(count > 3)
        sign = pl.when(year < 0).then(pl.lit("-")).when(plus).then(pl.lit("+"))
        return sign.otherwise(pl.lit("")) + _number(year.abs(), count)

    return write
