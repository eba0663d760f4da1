"""The parts of a pattern as regular expressions, each as strict as Java.

They encode how many digits a field takes and the range of its numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from headrace.core.expressions.java_time.pattern import (
    Letters,
    Part,
    PatternError,
    Section,
    Text,
)
from headrace.core.expressions.java_time.writing import unknown

DIGITS = frozenset("0123456789")
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)

# Java ignores case and compares single characters: to it these equal ASCII letters.
_ALIKE = {"i": "\u0131\u0130", "k": "\u212a", "s": "\u017f"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part as a regular expression that captures `field`, with its possible first characters.

    Digits are "fixed" in number, or "greedy": as many as there are.
    """

    regex: str
    field: str
    first: frozenset[str]
    digits: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """An optional section in brackets."""

    pieces: tuple[Item, ...]


Item: TypeAlias = "Piece | Choice"


def piece_of(part: Part) -> Item:
    """Translate a part to a regular expression; PatternError where none is as strict as Java."""
    match part:
        case Section(parts):
            return Choice(tuple(map(piece_of, parts)))
        case Text(text):
            return _text(text)
        case Letters(letter="y"):
            return _year(part)
        case Letters(letter="S", count=count) if count <= 9:
            return Piece(f"(?P<fraction>[0-9]{{1,{count}}})", "fraction", DIGITS, "greedy")
        case Letters(letter="M" | "L", count=3 | 4 as count):
            names = [_alike(name[:3] if count == 3 else name) for name in MONTHS]
            first = frozenset("".join(_either(name[0]) for name in MONTHS))
            return Piece(f"(?P<month_name>{'|'.join(names)})", "month_name", first)
        case Letters("a", 1):
            return Piece("(?P<half>[aApP])[mM]", "half", frozenset("aApP"))
        case Letters(letter="X" | "x" | "Z", count=1 | 2 | 3) if str(part) != "x":
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
    """Return all characters that Java treats as equal to this one, ignoring case."""
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
    """Build the regular expression of a number: one digit a letter, or up to 19 for a single
    letter."""
    if field.letter in "EQq":
        raise PatternError(f"{field.letter} can be formatted, but Spark does not parse it")
    if field.letter in "VzOXxZ":
        raise PatternError(f"{field} can be formatted, but not parsed: use X to XXX, xx, xxx or Z")
    if field.letter not in _RANGES or field.count > (3 if field.letter == "D" else 2):
        raise unknown(field)
    name, one, two = _RANGES[field.letter]
    if field.letter == "D":
        return _day_of_year(field.count, one, two)
    if field.count == 2:
        return Piece(f"(?P<{name}>0{one}|{two})", name, DIGITS, "fixed")
    regex = f"(?P<{name}>0{{0,18}}{one}|0{{0,17}}(?:{two}))"
    return Piece(regex, name, DIGITS | {"-"}, "greedy")


def _day_of_year(count: int, one: str, two: str) -> Piece:
    regexes = {
        1: f"0{{0,18}}{one}|0{{0,17}}{two}|0{{0,16}}(?:{_LAST_DAYS})",
        2: f"0{{1,2}}{one}|0?{two}|{_LAST_DAYS}",
        3: f"00{one}|0{two}|{_LAST_DAYS}",
    }
    first = DIGITS | {"-"} if count == 1 else DIGITS
    digits = "fixed" if count == 3 else "greedy"
    return Piece(f"(?P<day_of_year>{regexes[count]})", "day_of_year", first, digits)


def _year(field: Letters) -> Piece:
    """Build the regular expression of a year.

    Years of more than six digits are out of the range of a timestamp, so they do not match. `yyyy`
    is four digits, or more after a plus sign, or four and more after a minus sign.
    """
    count = field.count
    if count == 2:
        return Piece("(?P<short_year>[0-9]{2})", "short_year", DIGITS, "fixed")
    below = "|".join(_filled(digits, count) for digits in range(1, 7))
    if count in (1, 3):
        regex = f"-(?:{below})|{_filled(0, count)}|{below}"
        return Piece(f"(?P<year>{regex})", "year", DIGITS | {"-"}, "greedy")
    above = "|".join(_filled(digits, count + 1) for digits in range(7))
    regex = f"-(?:{below})|[0-9]{{{count}}}|[+](?:{above})"
    return Piece(f"(?P<year>{regex})", "year", DIGITS | frozenset("+-"), "greedy")


def _filled(digits: int, width: int) -> str:
    """Match numbers of exactly this many digits, zero-padded to a width or to 19 digits."""
    number = f"[1-9][0-9]{{{digits - 1}}}" if digits else ""
    return f"0{{{max(width - digits, 0)},{19 - digits}}}{number}"


def _zone(field: Letters) -> Piece:
    """Build the regular expression of an offset; X reads Z as zero, and a single X may omit the
    minutes."""
    colon = ":" if field.count == 3 and field.letter != "Z" else ""
    minutes = f"{colon}(?P<zone_minute>[0-5][0-9])"
    if str(field) == "X":
        minutes = f"(?:{minutes})?"
    regex = f"(?P<zone>[+-])(?P<zone_hour>[0-9]{{2}}){minutes}"
    if field.letter == "X":
        regex = f"(?:[zZ]|{regex})"
    first = frozenset("+-zZ" if field.letter == "X" else "+-")
    return Piece(regex, "zone", first, "greedy" if str(field) == "X" else "")
