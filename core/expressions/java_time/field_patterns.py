"""The parts of a pattern as regular expressions, each as strict as Java.

They encode how many digits a field takes and the range of its numbers.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from headrace.core.expressions.java_time.pattern import (
    OptionalSection,
    PatternField,
    PatternPart,
    PatternText,
    TimePatternError,
)
from headrace.core.expressions.java_time.time_formatter import unsupported_field_error
from headrace.core.types.lazy_dataclass import dataclass

DIGITS = frozenset("0123456789")
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)

# Java ignores case and compares single characters: to it these equal ASCII letters.
_EQUAL_LETTERS = {"i": "\u0131\u0130", "k": "\u212a", "s": "\u017f"}


@dataclass(frozen=True, slots=True)
class FieldPattern:
    """A part as a regular expression that captures `field`, with its possible first characters.

    Digits are "fixed" in number, or "greedy": as many as there are.
    """

    regex: str
    field: str
    first_characters: frozenset[str]
    digits: str = ""


@dataclass(frozen=True, slots=True)
class OptionalPattern:
    """An optional section in brackets."""

    items: tuple[PatternItem, ...]


PatternItem: TypeAlias = "FieldPattern | OptionalPattern"


def build_item(part: PatternPart) -> PatternItem:
    """Translate a part to a regular expression; TimePatternError if none is as strict as Java."""
    match part:
        case OptionalSection(parts):
            return OptionalPattern(tuple(map(build_item, parts)))
        case PatternText(text):
            return _build_text(text)
        case PatternField(letter="y"):
            return _build_year(part)
        case PatternField(letter="S", count=count) if count <= 9:
            return FieldPattern(f"(?P<fraction>[0-9]{{1,{count}}})", "fraction", DIGITS, "greedy")
        case PatternField(letter="M" | "L", count=3 | 4 as count):
            names = [_ignore_case(name[:3] if count == 3 else name) for name in MONTHS]
            first = frozenset("".join(_equal_characters(name[0]) for name in MONTHS))
            return FieldPattern(f"(?P<month_name>{'|'.join(names)})", "month_name", first)
        case PatternField("a", 1):
            return FieldPattern("(?P<half>[aApP])[mM]", "half", frozenset("aApP"))
        case PatternField(letter="X" | "x" | "Z", count=1 | 2 | 3) if str(part) != "x":
            return _build_zone(part)
        case PatternField():
            return _build_number(part)
    raise AssertionError(part)


def _build_text(text: str) -> FieldPattern:
    for character in text:
        if not character.isascii() and character.lower() != character.upper():
            raise TimePatternError(f'"{character}" is read in either case, which is not built yet')
    return FieldPattern("".join(map(_ignore_case, text)), "", frozenset(_equal_characters(text[0])))


def _equal_characters(character: str) -> str:
    """Return all characters that Java treats as equal to this one, ignoring case."""
    lower = character.lower()
    return "".join(dict.fromkeys(lower + character.upper() + _EQUAL_LETTERS.get(lower, "")))


def _ignore_case(text: str) -> str:
    classes = (_equal_characters(character) for character in text)
    return "".join(f"[{c}]" if len(c) > 1 else re.escape(c) for c in classes)


# Numbers of one, two and three digits, by field.
_NONZERO_DIGIT = "[1-9]"
_FIELD_RANGES = {
    "M": ("month", _NONZERO_DIGIT, "1[0-2]"),
    "L": ("month", _NONZERO_DIGIT, "1[0-2]"),
    "d": ("day", _NONZERO_DIGIT, "[12][0-9]|3[01]"),
    "H": ("hour", "[0-9]", "1[0-9]|2[0-3]"),
    "k": ("hour_from_1", _NONZERO_DIGIT, "1[0-9]|2[0-4]"),
    "K": ("half_hour", "[0-9]", "1[01]"),
    "h": ("half_hour_from_1", _NONZERO_DIGIT, "1[0-2]"),
    "m": ("minute", "[0-9]", "[1-5][0-9]"),
    "s": ("second", "[0-9]", "[1-5][0-9]"),
    "D": ("day_of_year", _NONZERO_DIGIT, "[1-9][0-9]"),
}
_LAST_DAYS = "[12][0-9]{2}|3[0-5][0-9]|36[0-6]"


def _build_number(field: PatternField) -> FieldPattern:
    """Build the regular expression of a number: one digit a letter, or up to 19 for a single
    letter."""
    if field.letter in "EQq":
        raise TimePatternError(f"{field.letter} can be formatted, but Spark does not parse it")
    if field.letter in "VzOXxZ":
        raise TimePatternError(
            f"{field} can be formatted, but not parsed: use X to XXX, xx, xxx or Z"
        )
    if field.letter not in _FIELD_RANGES or field.count > (3 if field.letter == "D" else 2):
        raise unsupported_field_error(field)
    name, one, two = _FIELD_RANGES[field.letter]
    if field.letter == "D":
        return _build_day_of_year(field.count, one, two)
    if field.count == 2:
        return FieldPattern(f"(?P<{name}>0{one}|{two})", name, DIGITS, "fixed")
    regex = f"(?P<{name}>0{{0,18}}{one}|0{{0,17}}(?:{two}))"
    return FieldPattern(regex, name, DIGITS | {"-"}, "greedy")


def _build_day_of_year(count: int, one: str, two: str) -> FieldPattern:
    regexes = {
        1: f"0{{0,18}}{one}|0{{0,17}}{two}|0{{0,16}}(?:{_LAST_DAYS})",
        2: f"0{{1,2}}{one}|0?{two}|{_LAST_DAYS}",
        3: f"00{one}|0{two}|{_LAST_DAYS}",
    }
    first = DIGITS | {"-"} if count == 1 else DIGITS
    digits = "fixed" if count == 3 else "greedy"
    return FieldPattern(f"(?P<day_of_year>{regexes[count]})", "day_of_year", first, digits)


def _build_year(field: PatternField) -> FieldPattern:
    """Build the regular expression of a year.

    Years of more than six digits are out of the range of a timestamp, so they do not match. `yyyy`
    is four digits, or more after a plus sign, or four and more after a minus sign.
    """
    count = field.count
    if count == 2:
        return FieldPattern("(?P<short_year>[0-9]{2})", "short_year", DIGITS, "fixed")
    below = "|".join(_pad_number(digits, count) for digits in range(1, 7))
    if count in (1, 3):
        regex = f"-(?:{below})|{_pad_number(0, count)}|{below}"
        return FieldPattern(f"(?P<year>{regex})", "year", DIGITS | {"-"}, "greedy")
    above = "|".join(_pad_number(digits, count + 1) for digits in range(7))
    regex = f"-(?:{below})|[0-9]{{{count}}}|[+](?:{above})"
    return FieldPattern(f"(?P<year>{regex})", "year", DIGITS | frozenset("+-"), "greedy")


def _pad_number(digits: int, width: int) -> str:
    """Match numbers of exactly this many digits, zero-padded to a width or to 19 digits."""
    number = f"[1-9][0-9]{{{digits - 1}}}" if digits else ""
    return f"0{{{max(width - digits, 0)},{19 - digits}}}{number}"


def _build_zone(field: PatternField) -> FieldPattern:
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
    return FieldPattern(regex, "zone", first, "greedy" if str(field) == "X" else "")
