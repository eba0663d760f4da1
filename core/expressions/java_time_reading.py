"""Text read by a pattern of Java's DateTimeFormatter, as strictly as Spark has it read.

A pattern becomes one regular expression, which knows how many digits each field takes and how far
its numbers go, and an expression that adds up what it caught. What does not match is null, and so
is a day that its month has not. What is missing is 1970, January, the 1st, midnight.

Java reads from the left and never goes back, a regular expression does. The two agree where no text
can be taken apart in two ways, so patterns are refused where one can: a number without a fixed
width before more digits, a section in brackets that begins like what follows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.expressions import calendar
from headrace.core.expressions.calendar import Number
from headrace.core.expressions.java_time import (
    Letters,
    Part,
    PatternError,
    Section,
    Text,
    parse_pattern,
    unknown,
)
from headrace.core.expressions.typed import Form
from headrace.core.types import TIMESTAMP

if TYPE_CHECKING:
    import polars as pl

_DIGITS = frozenset("0123456789")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)

# Case does not count, and Java compares single characters: these are letters of ASCII to it.
_ALIKE = {"i": "\u0131\u0130", "k": "\u212a", "s": "\u017f"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part as a regular expression that catches `field`, with the characters it begins with.

    Digits are "fixed" in number, or "greedy": as many as there are.
    """

    regex: str
    field: str
    first: frozenset[str]
    digits: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """A section in brackets."""

    pieces: tuple[Item, ...]


Item: TypeAlias = "Piece | Choice"


def reader(pattern: str) -> Form:
    """How a text is read as a timestamp by a pattern; PatternError says why it cannot be."""
    from headrace.core.expressions.batches import per_column

    parts = parse_pattern(pattern)
    items = tuple(map(_item, parts))
    _check_unambiguous(items, frozenset())
    fields = [piece.field for piece in _flat(items) if piece.field]
    _check_fields(fields)
    if not any(isinstance(item, Piece) and item.field not in ("", "zone") for item in items):
        raise PatternError("a pattern that is read needs a field outside of brackets")
    regex = f"^{_regex(items)}$"
    optional = frozenset(fields) - {item.field for item in items if isinstance(item, Piece)}
    plain, directives = _quick(parts)

    def read(text: pl.Series) -> pl.Series:
        if directives and text.str.contains(plain).all():
            read = text.str.to_datetime(directives, strict=False, time_unit="us")
            return read.dt.replace_time_zone("UTC")
        texts = text.str.extract_groups(regex).struct.unnest().to_dict()
        return _timestamp(Caught(texts, optional))

    return per_column(read, TIMESTAMP)


# Fields of fixed width, which Polars reads several times faster, once their shape is known.
_QUICK = {
    **{"yyyy": ("[0-9]{4}", "%Y"), "MM": ("[0-9]{2}", "%m"), "dd": ("[0-9]{2}", "%d")},
    **{"HH": ("[0-9]{2}", "%H"), "mm": ("[0-9]{2}", "%M"), "ss": ("[0-5][0-9]", "%S")},
}


def _quick(parts: Sequence[Part]) -> tuple[str, str]:
    """The shape of a plain date and time, and Polars' directives for it; empty for what is not."""
    shape, directives, fields = "", "", set()
    for part in parts:
        match part:
            case Text(text):
                shape, directives = shape + re.escape(text), directives + text.replace("%", "%%")
            case Letters("S", count) if directives.endswith("."):
                shape, directives = f"{shape}[0-9]{{1,{count}}}", f"{directives[:-1]}%.f"
                fields |= {"S", "ss"}
            case Letters() if str(part) in _QUICK:
                regex, directive = _QUICK[str(part)]
                shape, directives = shape + regex, directives + directive
                fields.add(str(part))
            case _:
                return "", ""
    time = {"HH", "mm"} if fields & {"HH", "mm", "ss"} else set()
    complete = fields >= {"yyyy", "MM", "dd"} | time and ("S" not in fields or "%S" in directives)
    return (f"^{shape}$", directives) if complete else ("", "")


def _flat(items: Sequence[Item]) -> Iterator[Piece]:
    for item in items:
        if isinstance(item, Piece):
            yield item
        else:
            yield from _flat(item.pieces)


def _regex(items: Sequence[Item]) -> str:
    return "".join(
        item.regex if isinstance(item, Piece) else f"(?:{_regex(item.pieces)})?" for item in items
    )


# What would read a text otherwise than Java does.


def _check_unambiguous(items: Sequence[Item], after: frozenset[str]) -> None:
    greedy = False
    for place, item in enumerate(items):
        behind = _first(items[place + 1 :], after)
        if isinstance(item, Choice):
            starts_itself = item.pieces and isinstance(item.pieces[0], Piece)
            if not starts_itself or _first(item.pieces, frozenset()) & behind:
                raise PatternError("a section in brackets must not begin like what follows it")
            _check_unambiguous(item.pieces, behind)
            greedy = False
            continue
        greedy = item.digits == "greedy" or (greedy and item.digits == "fixed")
        if greedy and behind & _DIGITS and not _goes_on(items, place):
            raise PatternError("a number without a fixed width cannot stand before more digits")


def _goes_on(items: Sequence[Item], place: int) -> bool:
    """Whether a run of digits is parted from its end, so that a number in front takes the rest."""
    if place + 1 == len(items):
        return False
    item, following = items[place], items[place + 1]
    parted = isinstance(item, Piece) and item.field not in ("fraction", "zone")
    return parted and isinstance(following, Piece) and following.digits == "fixed"


def _first(items: Sequence[Item], after: frozenset[str]) -> frozenset[str]:
    """The characters with which the rest may begin."""
    found: frozenset[str] = frozenset()
    for item in items:
        if isinstance(item, Piece):
            return found | item.first
        found |= _first(item.pieces, frozenset())
    return found | after


_SAME = (
    ("year", "short_year"),
    ("month", "month_name", "day_of_year"),
    ("day", "day_of_year"),
    ("hour", "hour_from_1", "half_hour", "half_hour_from_1"),
    ("half", "hour", "hour_from_1"),
)


def _check_fields(fields: Sequence[str]) -> None:
    for field in fields:
        if fields.count(field) > 1:
            raise PatternError(f"two fields say the {_spoken(field)}")
    for same in _SAME:
        said = [field for field in same if field in fields]
        if len(said) > 1:
            raise PatternError(f"{_spoken(said[0])} and {_spoken(said[1])} do not go together")


def _spoken(field: str) -> str:
    return {"half": "a (AM or PM)"}.get(field, field.replace("_", " "))


# The parts as regular expressions.


def _item(part: Part) -> Item:
    match part:
        case Section(parts):
            return Choice(tuple(map(_item, parts)))
        case Text(text):
            return _text(text)
        case Letters(letter="y"):
            return _year(part)
        case Letters(letter="S", count=count) if count <= 9:
            return Piece(f"(?P<fraction>[0-9]{{1,{count}}})", "fraction", _DIGITS, "greedy")
        case Letters(letter="M" | "L", count=3 | 4 as count):
            names = [_alike(name[:3] if count == 3 else name) for name in _MONTHS]
            first = frozenset("".join(_either(name[0]) for name in _MONTHS))
            return Piece(f"(?P<month_name>{'|'.join(names)})", "month_name", first)
        case Letters("a", 1):
            return Piece("(?P<half>[aApP])[mM]", "half", frozenset("aApP"))
        case Letters(letter="X" | "x" | "Z", count=1 | 2 | 3):
            return _zone(part)
        case Letters():
            return _numeral(part)
    raise AssertionError(part)


def _text(text: str) -> Piece:
    for character in text:
        if not character.isascii() and character.lower() != character.upper():
            raise PatternError(f'"{character}" is read in either case, which is not built yet')
    return Piece("".join(map(_alike, text)), "", frozenset(_either(text[0])))


def _either(character: str) -> str:
    """All characters that Java takes for one when case does not count."""
    lower = character.lower()
    return "".join(dict.fromkeys(lower + character.upper() + _ALIKE.get(lower, "")))


def _alike(text: str) -> str:
    classes = (_either(character) for character in text)
    return "".join(f"[{c}]" if len(c) > 1 else re.escape(c) for c in classes)


# Numbers of one, two and three digits, by field.
_SMALL = "[1-9]"
_RANGES = {
    "M": ("month", _SMALL, "1[0-2]"),
    "L": ("month", _SMALL, "1[0-2]"),
    "d": ("day", _SMALL, "[12][0-9]|3[01]"),
    "H": ("hour", "[0-9]", "1[0-9]|2[0-3]"),
    "k": ("hour_from_1", _SMALL, "1[0-9]|2[0-4]"),
    "K": ("half_hour", "[0-9]", "1[01]"),
    "h": ("half_hour_from_1", _SMALL, "1[0-2]"),
    "m": ("minute", "[0-9]", "[1-5][0-9]"),
    "s": ("second", "[0-9]", "[1-5][0-9]"),
    "D": ("day_of_year", _SMALL, "[1-9][0-9]"),
}
_LAST_DAYS = "[12][0-9]{2}|3[0-5][0-9]|36[0-6]"


def _numeral(field: Letters) -> Piece:
    """A number: so many digits as there are letters, or up to 19 for a single letter."""
    if field.letter in "EQq":
        raise PatternError(f"{field.letter} is written, but Spark does not read it")
    if field.letter not in _RANGES or field.count > (3 if field.letter == "D" else 2):
        raise unknown(field)
    name, one, two = _RANGES[field.letter]
    if field.letter == "D":
        return _day_of_year(field.count, one, two)
    if field.count == 2:
        return Piece(f"(?P<{name}>0{one}|{two})", name, _DIGITS, "fixed")
    regex = f"(?P<{name}>0{{0,18}}{one}|0{{0,17}}(?:{two}))"
    return Piece(regex, name, _DIGITS | {"-"}, "greedy")


def _day_of_year(count: int, one: str, two: str) -> Piece:
    regexes = {
        1: f"0{{0,18}}{one}|0{{0,17}}{two}|0{{0,16}}(?:{_LAST_DAYS})",
        2: f"0{{1,2}}{one}|0?{two}|{_LAST_DAYS}",
        3: f"00{one}|0{two}|{_LAST_DAYS}",
    }
    first = _DIGITS | {"-"} if count == 1 else _DIGITS
    digits = "fixed" if count == 3 else "greedy"
    return Piece(f"(?P<day_of_year>{regexes[count]})", "day_of_year", first, digits)


def _year(field: Letters) -> Piece:
    """Years of more than six digits are in no timestamp, so that they are not read either.

    `yyyy` is four digits, or more behind a plus, or as many behind a minus.
    """
    count = field.count
    if count == 2:
        return Piece("(?P<short_year>[0-9]{2})", "short_year", _DIGITS, "fixed")
    below = "|".join(_filled(digits, count) for digits in range(1, 7))
    if count in (1, 3):
        regex = f"-(?:{below})|{_filled(0, count)}|{below}"
        return Piece(f"(?P<year>{regex})", "year", _DIGITS | {"-"}, "greedy")
    above = "|".join(_filled(digits, count + 1) for digits in range(7))
    regex = f"-(?:{below})|[0-9]{{{count}}}|[+](?:{above})"
    return Piece(f"(?P<year>{regex})", "year", _DIGITS | frozenset("+-"), "greedy")


def _filled(digits: int, width: int) -> str:
    """Numbers of just so many digits, with zeros before them up to a width or to 19 in all."""
    number = f"[1-9][0-9]{{{digits - 1}}}" if digits else ""
    return f"0{{{max(width - digits, 0)},{19 - digits}}}{number}"


def _zone(field: Letters) -> Piece:
    """An offset; X reads Z as none, and a single X may go without the minutes."""
    if str(field) == "x":
        raise PatternError("x is written, but not read: use xx or XXX")
    colon = ":" if field.count == 3 and field.letter != "Z" else ""
    minutes = f"{colon}(?P<zone_minute>[0-5][0-9])"
    if str(field) == "X":
        minutes = f"(?:{minutes})?"
    regex = f"(?P<zone>[+-])(?P<zone_hour>[0-9]{{2}}){minutes}"
    if field.letter == "X":
        regex = f"(?:[zZ]|{regex})"
    first = frozenset("+-zZ" if field.letter == "X" else "+-")
    return Piece(regex, "zone", first, "greedy" if str(field) == "X" else "")


# What was caught, added up: step by step, on columns (see `calendar`).


@dataclass(frozen=True, slots=True)
class Caught:
    """The texts of the fields; those in brackets may be missing where the text matched."""

    texts: dict[str, pl.Series]
    optional: frozenset[str]

    def number(self, field: str, default: int) -> Number:
        """The number of a field; null where the whole text did not match."""
        text = self.texts.get(field)
        return default if text is None else self.filled(field, _bigint(text), default)

    def filled(self, field: str, value: pl.Series, default: int) -> pl.Series:
        """The value with a default where the field is missing."""
        return value.fill_null(default) if field in self.optional else value


def _bigint(column: pl.Series) -> pl.Series:
    import polars as pl

    return column.cast(pl.Int64)


def _timestamp(caught: Caught) -> pl.Series:
    import polars as pl

    time = _hour(caught) * 3600 + caught.number("minute", 0) * 60 + caught.number("second", 0)
    seconds = _days(caught) * 86_400 + time - _offset(caught)
    column = pl.Series([seconds]) if isinstance(seconds, int) else seconds
    micros = column.cast(pl.Int128) * pl.Series([calendar.SECOND_US], dtype=pl.Int128)
    if "fraction" in caught.texts:
        micros = micros + _fraction(caught)
    return micros.cast(pl.Int64, strict=False).cast(pl.Datetime("us", "UTC"))


def _days(caught: Caught) -> Number:
    year = caught.number("year", 1970)
    if "short_year" in caught.texts:
        year = caught.number("short_year", -30) + 2000
    if "day_of_year" in caught.texts:
        return calendar.ordinal_days(year, caught.number("day_of_year", 1))
    return calendar.civil_days(year, _month(caught), caught.number("day", 1))


def _month(caught: Caught) -> Number:
    import polars as pl

    name = caught.texts.get("month_name")
    if name is None:
        return caught.number("month", 1)
    numbers = {month[:3].upper(): number for number, month in enumerate(_MONTHS, 1)}
    short = name.str.slice(0, 3).str.to_uppercase().str.replace("\u0130", "I", literal=True)
    found = short.replace_strict(numbers, default=None, return_dtype=pl.Int64)
    return caught.filled("month_name", found, 1)


def _hour(caught: Caught) -> Number:
    """The hour of the day; half a day counts from 12, and is the first one unless said."""
    half = caught.texts.get("half")
    later: Number = 0
    if half is not None:
        later = caught.filled("half", _bigint((half == "P") | (half == "p")), 0) * 12
    if "hour_from_1" in caught.texts:
        return caught.number("hour_from_1", 0) % 24
    if "half_hour_from_1" in caught.texts:
        return caught.number("half_hour_from_1", 0) % 12 + later
    return caught.number("hour", 0) + caught.number("half_hour", 0) + later


def _offset(caught: Caught) -> Number:
    """Seconds before UTC; null beyond 18 hours."""
    zone = caught.texts.get("zone")
    if zone is None:
        return 0
    minutes = _bigint(caught.texts["zone_minute"]).fill_null(0)
    size = (_bigint(caught.texts["zone_hour"]) * 60 + minutes) * 60
    east = (size * (1 - _bigint(zone == "-") * 2)).fill_null(0)
    return calendar.only(east, (size <= 18 * 3600).fill_null(True))


def _fraction(caught: Caught) -> pl.Series:
    """The first six digits behind the point."""
    digits = caught.texts["fraction"].str.pad_end(6, "0").str.slice(0, 6)
    return caught.filled("fraction", _bigint(digits), 0)
