"""Patterns of Java's DateTimeFormatter for dates and times, restricted as in Spark.

`yyyy-MM-dd'T'HH:mm[:ss]`: runs of letters are fields, the rest is text, quoted where it contains
letters. Spark refuses week-based fields and narrow names.
"""

from __future__ import annotations

from typing import TypeAlias

from headrace.core.types.lazy_dataclass import dataclass


class TimePatternError(ValueError):
    """A pattern that Spark refuses, or that headrace does not support."""


@dataclass(frozen=True, slots=True)
class PatternField:
    """A field: a letter and how often it is repeated."""

    letter: str
    count: int

    def __str__(self) -> str:
        return self.letter * self.count


@dataclass(frozen=True, slots=True)
class PatternText:
    """Characters that stand for themselves."""

    text: str


@dataclass(frozen=True, slots=True)
class OptionalSection:
    """An optional section in brackets: parsed where present, always formatted."""

    parts: tuple[PatternPart, ...]


PatternPart: TypeAlias = "PatternField | PatternText | OptionalSection"

_WEEK_LETTERS = frozenset("YWwuec")
_NARROW_LENGTHS = {**dict.fromkeys("MLEQq", 5), "y": 7}
_RESERVED_CHARACTERS = frozenset("{}#")


def parse_time_pattern(pattern: str) -> tuple[PatternPart, ...]:
    """Parse a pattern into its parts; TimePatternError names the character that is not allowed.

    >>> parse_time_pattern("yyyy'T'")
    (PatternField(letter='y', count=4), PatternText(text='T'))
    """
    levels: list[list[PatternPart]] = [[]]
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character.isascii() and character.isalpha():
            count = len(pattern) - at - len(pattern[at:].lstrip(character))
            levels[-1].append(_build_field(character, count))
            at += count
            continue
        at += 1
        if character == "'":
            text, at = _parse_quoted(pattern, at)
            levels[-1].append(PatternText(text))
        elif character == "[":
            levels.append([])
        elif character == "]":
            _close_section(levels)
        elif character in _RESERVED_CHARACTERS:
            raise TimePatternError(f"{character} is reserved: write '{character}' in quotes")
        else:
            levels[-1].append(PatternText(character))
    while len(levels) > 1:
        _close_section(levels)
    return tuple(levels[0])


def _close_section(levels: list[list[PatternPart]]) -> None:
    if len(levels) == 1:
        raise TimePatternError("] closes no [")
    inner = tuple(levels.pop())
    levels[-1].append(OptionalSection(inner))


def _parse_quoted(pattern: str, start: int) -> tuple[str, int]:
    """Return the text up to the closing quote, and the position after it; two quotes are one."""
    at = start
    while (end := pattern.find("'", at)) >= 0:
        if pattern[end + 1 : end + 2] == "'" and end > start:
            at = end + 2
            continue
        return pattern[start:end].replace("''", "'") or "'", end + 1
    raise TimePatternError("a quote is not closed")


def _build_field(letter: str, count: int) -> PatternField:
    if letter in _WEEK_LETTERS:
        raise TimePatternError(f"{letter} counts weeks, which Spark refuses: use weekofyear(...)")
    if count >= _NARROW_LENGTHS.get(letter, count + 1):
        raise TimePatternError(f"{letter * count} is too long: Spark has no narrow names")
    return PatternField(letter, count)
