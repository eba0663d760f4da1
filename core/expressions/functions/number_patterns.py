"""Patterns of numbers, as `to_number` and `to_char` take them: `$99,999.00S`.

A pattern is `[MI|S] [$] digits [. digits] [MI|S|PR]`, where G is a comma and D a point. A group of
digits that starts with 0 before the point has exactly that many digits, any other has at most that
many. `NumberPattern` reads a text that fits it, and formats a number by it. Both run per value, as
Spark's rules for blanks and signs go character by character; formatting does that only once for
each number of digits and sign, and then puts the digits of a value into that template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal as PythonDecimal
from functools import cache
from typing import Literal, TypeAlias

from headrace.core.types.data_types import MAX_DIGITS, Decimal
from headrace.core.types.lazy_dataclass import dataclass

Mark: TypeAlias = Literal["S", "MI", "PR", ""]

_PATTERN = re.compile(
    r"(?P<before>MI|S)?(?P<dollar>\$)?(?P<whole>[09,G]*)(?:(?P<point>[.D])(?P<part>[09]*))?"
    r"(?P<after>MI|S|PR)?"
)
_SHAPE = "[MI|S] [$] [0|9|G|,]... [.|D] [0|9]... [PR|MI|S]"
_FIRST_SLOT = 0xE000
JAVA_SPACES = frozenset(
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a"
    "\u2028\u2029\u205f\u3000"
)
_BLANK = re.compile(r"[\t-\r\x1c- ]")


class NumberPatternError(Exception):
    """A text that is no pattern of numbers."""


@dataclass(frozen=True, slots=True)
class DigitGroup:
    """The digits between two commas of a pattern."""

    count: int
    is_exact: bool

    def takes(self, count: int) -> bool:
        """Whether a number may have that many digits here."""
        return count == self.count if self.is_exact else count <= self.count


@dataclass(frozen=True)
class NumberPattern:
    """A pattern: the groups before the point from left to right, the digits after it, and marks.

    `sign_before` and `sign_after` are the marks of the sign at both ends.
    """

    groups: tuple[DigitGroup, ...]
    decimals: int
    has_point: bool
    has_dollar: bool
    sign_before: Mark
    sign_after: Mark

    @property
    def type(self) -> Decimal:
        """The type of the numbers that fit the pattern."""
        return Decimal(self.whole_digits + self.decimals, self.decimals)

    @property
    def whole_digits(self) -> int:
        """The largest number of digits before the point."""
        return sum(group.count for group in self.groups)

    def parse(self, text: str) -> PythonDecimal | None:
        """Return the number that a text stands for, or None if it does not fit the pattern."""
        if self.groups and (match := _find_fast_pattern(self).fullmatch(text)):
            whole, part = (match["whole"].replace(",", ""), match["part"] or "")
            if not (whole or part):
                return None
            number = PythonDecimal(f"{whole or '0'}.{part.ljust(self.decimals, '0')}")
            marks = (match["before"], match["after"])
            is_negative = (marks.count("-") + marks.count(">")) % 2
            return -number if is_negative else number
        if self.groups and text.isascii() and not _BLANK.search(text):
            return None
        reader = _NumberReader(text)
        fits = reader.accept_all(self)
        if not fits or reader.at < len(text) or not (reader.whole or reader.part):
            return None
        number = PythonDecimal(f"{reader.whole or '0'}.{reader.part.ljust(self.decimals, '0')}")
        if number.adjusted() >= self.whole_digits and number:
            return None
        return -number if reader.is_negative else number

    def format(self, number: str) -> str:
        """Format the digits of a number; those of one that has too many become `#`."""
        before, _, after = number.partition(".")
        is_negative = before.startswith("-")
        before, after = before.lstrip("-0"), after.rstrip("0")
        if len(before) > self.whole_digits or len(after) > self.decimals:
            before, after = "#" * self.whole_digits, "#" * self.decimals
            return self._write(before, after, is_negative=is_negative)
        digits = before + after.ljust(self.decimals, "0")
        parts = _find_template(self, len(before), is_negative)
        return "".join([part if isinstance(part, str) else digits[part] for part in parts])

    def make_template(self, length: int, *, is_negative: bool) -> Iterator[str | slice]:
        """Yield texts, and which digits are between them, of numbers with that many digits before
        the point."""
        slots = "".join(chr(_FIRST_SLOT + at) for at in range(length + self.decimals))
        written = self._write(slots[:length], slots[length:], is_negative=is_negative)
        for part in re.findall(r"[\ue000-\ue0ff]+|[^\ue000-\ue0ff]+", written):
            first = ord(part[0]) - _FIRST_SLOT
            yield slice(first, first + len(part)) if part[0] in slots else part

    def _write(self, before: str, after: str, *, is_negative: bool) -> str:
        result = ["<"] if self.sign_after == "PR" and is_negative else []
        self._write_sign(result, self.sign_before, is_negative=is_negative)
        if self.has_dollar:
            result.append("$")
        self._write_whole(result, before.rjust(self.whole_digits))
        if self.has_point:
            if result and result[-1] == " ":
                result[-1] = "0"
            result += [".", *after]
        self._write_sign(result, self.sign_after, is_negative=is_negative)
        _blank_lone_point(result)
        text = "".join(result)
        return "0" if text in ("", "+", "-") else text

    def _write_whole(self, result: list[str], digits: str) -> None:
        rest = iter(digits)
        for index, group in enumerate(self.groups):
            if index and result and _is_digit(result[-1]):
                result.append(",")
            elif index:
                _append_blank(result)
            for _ in range(group.count):
                digit = next(rest)
                if digit != " " or group.is_exact:
                    result.append("0" if digit == " " else digit)
                else:
                    _append_blank(result)

    def _write_sign(self, result: list[str], mark: Mark, *, is_negative: bool) -> None:
        if mark == "S" or (mark and is_negative):
            _blank_lone_point(result)
            sign = ">" if mark == "PR" else "-" if is_negative else "+"
            _append_sign(result, sign)
        elif mark == "PR":
            _blank_lone_point(result)
            result += "  "
        elif mark:
            result.append(" ")


@cache
def _find_fast_pattern(pattern: NumberPattern) -> re.Pattern[str]:
    """Return the regular expression of the texts without blanks that fit a pattern."""
    signs = {"S": "[+-]?", "MI": "-?", "PR": "", "": ""}
    whole, is_exact = "", False
    for index, group in enumerate(pattern.groups):
        count = f"{{{group.count}}}" if group.is_exact else f"{{0,{group.count}}}"
        is_exact |= group.is_exact
        last = index == len(pattern.groups) - 1
        digits = f"{whole}[0-9]{count}"
        whole = digits if last else f"(?:{digits},){'' if is_exact else '?'}"
    point = (
        rf"(?:\.(?P<part>[0-9]{{0,{pattern.decimals}}}))?" if pattern.has_point else "(?P<part>)"
    )
    dollar = r"\$" if pattern.has_dollar else ""
    before = f"(?P<before>{signs[pattern.sign_before]})"
    inside = f"{before}{dollar}(?P<whole>{whole}){point}"
    if pattern.sign_after == "PR":
        return re.compile(f"(?P<open><)?{inside}(?P<after>(?(open)>|))")
    return re.compile(f"{inside}(?P<after>{signs[pattern.sign_after]})")


@cache
def _find_template(
    pattern: NumberPattern, length: int, is_negative: bool
) -> tuple[str | slice, ...]:
    return tuple(pattern.make_template(length, is_negative=is_negative))


def _is_digit(character: str) -> bool:
    return character.isdecimal() or ord(character) >= _FIRST_SLOT


def _append_sign(result: list[str], sign: str) -> None:
    """Put a sign at the end, before the blanks that are there."""
    at = len(result)
    while at and result[at - 1] == " ":
        at -= 1
    result.insert(at, sign)


def _append_blank(result: list[str]) -> None:
    """Put a blank at the end, before a sign that is there."""
    at = len(result)
    while at and result[at - 1] in "+-<":
        at -= 1
    result.insert(at, " ")


def _blank_lone_point(result: list[str]) -> None:
    """Replace a point that no digit follows by a blank."""
    at = result.index(".") if "." in result else None
    if at is not None and (at == len(result) - 1 or result[at + 1] == " "):
        result[at] = " "


class _NumberReader:
    """The reader of one text by a pattern."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.whole = self.part = ""
        self.is_negative = False

    def accept_all(self, pattern: NumberPattern) -> bool:
        """Read as far as the pattern goes; return whether the text fits so far."""
        is_bracketed = pattern.sign_after == "PR" and self._accept("<")
        self._accept_sign(pattern.sign_before)
        if pattern.has_dollar and self.at < len(self.text) and not self._accept("$"):
            return False
        whole = pattern.groups and self._accept_digits(pattern.groups)
        if whole is None:
            return False
        self.whole = whole or ""
        has_point = pattern.has_point and self._accept(".")
        if pattern.decimals:
            part = self._accept_digits((DigitGroup(pattern.decimals, is_exact=False),))
            if part is None:
                return False
            self.whole, self.part = (self.whole, part) if has_point else (self.whole + part, "")
        if pattern.sign_after == "PR":
            closed = self._accept(">")
            self.is_negative ^= closed
            return closed == is_bracketed
        self._accept_sign(pattern.sign_after)
        return True

    def _accept(self, character: str) -> bool:
        found = self.text.startswith(character, self.at)
        self.at += found
        return found

    def _accept_sign(self, mark: Mark) -> None:
        if mark in ("S", "MI") and self._accept("-"):
            self.is_negative = not self.is_negative
        elif mark == "S":
            self._accept("+")

    def _accept_digits(self, groups: tuple[DigitGroup, ...]) -> str | None:
        """Read digits, commas and blanks; return the digits, or None if they do not fit."""
        start = self.at
        while self.at < len(self.text) and _is_of_number(self.text[self.at]):
            self.at += 1
        parts = [
            "".join(c for c in part if c not in JAVA_SPACES)
            for part in self.text[start : self.at].split(",")
        ]
        counts = [len(part) for part in reversed(parts)] + [0] * len(groups)
        if len(parts) > len(groups):
            return None
        fits = all(g.takes(n) for g, n in zip(reversed(groups), counts, strict=False))
        return "".join(parts) if fits else None


def _is_of_number(character: str) -> bool:
    return (
        character == ","
        or character in JAVA_SPACES
        or (character.isdecimal() and ord(character) <= 0xFFFF)
    )


@cache
def parse_number_pattern(text: str) -> NumberPattern:
    """Parse a pattern; raise NumberPatternError if it is none.

    >>> parse_number_pattern("S9,999.00").format("-1234.5")
    '-1,234.50'
    """
    match = _PATTERN.fullmatch(text.upper())
    if match is None:
        raise NumberPatternError(f"a pattern of numbers is {_SHAPE}")
    whole = match["whole"].replace("G", ",")
    parts = whole.split(",") if whole else []
    if not all(parts):
        raise NumberPatternError("a comma has digits on both sides in a pattern of numbers")
    groups = tuple(DigitGroup(len(part), part.startswith("0")) for part in parts)
    decimals = len(match["part"] or "")
    digits = sum(group.count for group in groups) + decimals
    if not 0 < digits <= MAX_DIGITS:
        raise NumberPatternError(f"a pattern of numbers has 1 to {MAX_DIGITS} digits")
    before, after = match["before"] or "", match["after"] or ""
    if before and before == after:
        raise NumberPatternError(f"{before} stands only once in a pattern of numbers")
    return NumberPattern(
        groups,
        decimals,
        bool(match["point"]),
        bool(match["dollar"]),
        before,  # type: ignore[arg-type]
        after,  # type: ignore[arg-type]
    )
