"""The patterns of `match_like`: `%` is any text, `_` any character, and an escape makes them
literal.

The most common patterns are a prefix, a suffix or a part: those become the equivalent comparison.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from headrace.core.expressions.regex.characters import escape_character
from headrace.core.expressions.regex.errors import RegexError
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


class Wildcard(Enum):
    """A wildcard; the value is its form for Rust's engine."""

    TEXT = "(?s:.*)"
    CHARACTER = "(?s:.)"


@dataclass(frozen=True, slots=True)
class LiteralText:
    """Characters that stand for themselves."""

    text: str


_WILDCARDS = {"%": Wildcard.TEXT, "_": Wildcard.CHARACTER}


def parse_like(pattern: str, escape: str) -> list[Wildcard | LiteralText]:
    """Split a pattern into parts, or raise a RegexError where it escapes what needs no escape.

    >>> parse_like("50!%%", "!")
    [LiteralText(text='50%'), <Wildcard.TEXT: '(?s:.*)'>]
    """
    parts: list[Wildcard | LiteralText] = []
    characters = iter(pattern)
    for character in characters:
        wild = None if character == escape else _WILDCARDS.get(character)
        if wild:
            parts.append(wild)
            continue
        if character == escape:
            character = _check_escaped(next(characters, ""), escape)
        if parts and isinstance(parts[-1], LiteralText):
            parts[-1] = LiteralText(parts[-1].text + character)
        else:
            parts.append(LiteralText(character))
    return parts


def _check_escaped(character: str, escape: str) -> str:
    if character and character in ("%", "_", escape):
        return character
    sequence = f'"{escape}{character}"' if character else f'a last "{escape}"'
    raise RegexError(
        f"the pattern has {sequence}, where only %, _ and {escape} can be escaped",
        f"{escape}{escape} is the character {escape}",
    )


def match_like(text: pl.Expr, parts: list[Wildcard | LiteralText]) -> pl.Expr:
    """Return whether the whole text matches the parts."""
    match parts:
        case []:
            return text == ""
        case [LiteralText(whole)]:
            return text == whole
        case [LiteralText(start), Wildcard.TEXT]:
            return text.str.starts_with(start)
        case [Wildcard.TEXT, LiteralText(end)]:
            return text.str.ends_with(end)
        case [Wildcard.TEXT, LiteralText(part), Wildcard.TEXT]:
            return text.str.contains(part, literal=True)
    return text.str.contains(rf"\A{''.join(map(_write_rust, parts))}\z")


def _write_rust(part: Wildcard | LiteralText) -> str:
    return (
        part.value
        if isinstance(part, Wildcard)
        else "".join(escape_character(ord(c)) for c in part.text)
    )
