"""Patterns of Java's DateTimeFormatter for dates and times, restricted as in Spark.

`yyyy-MM-dd'T'HH:mm[:ss]`: runs of letters are fields, the rest is text, quoted where it contains
letters. Spark refuses week-based fields and narrow names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


class PatternError(ValueError):
    """A pattern that Spark refuses, or that headrace does not support."""


@dataclass(frozen=True, slots=True)
class Letters:
    """A field: a letter and how often it is repeated."""

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
    """An optional section in brackets: parsed where present, always formatted."""

    parts: tuple[Part, ...]


Part: TypeAlias = "Letters | Text | Section"

_WEEKS = frozenset("YWwuec")
_NARROW = {**dict.fromkeys("MLEQq", 5), "y": 7}
_RESERVED = frozenset("{}#")


def parse_pattern(pattern: str) -> tuple[Part, ...]:
    """Parse a pattern into its parts; PatternError names the character that is not allowed.

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
    """Return the text up to the closing quote, and the position after it; two quotes are one."""
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
