"""The patterns of `like`: `%` is any text, `_` any character, and an escape makes them literal.

The most common patterns are a prefix, a suffix or a part: those become the equivalent comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from headrace.core.expressions.regex.characters import escaped
from headrace.core.expressions.regex.errors import PatternError

if TYPE_CHECKING:
    import polars as pl


class Wild(Enum):
    """A wildcard; the value is its form for Rust's engine."""

    TEXT = "(?s:.*)"
    CHARACTER = "(?s:.)"


@dataclass(frozen=True, slots=True)
class Plain:
    """Characters that stand for themselves."""

    text: str


_WILD = {"%": Wild.TEXT, "_": Wild.CHARACTER}


def pieces(pattern: str, escape: str) -> list[Wild | Plain]:
    """Split a pattern into parts, or raise a PatternError where it escapes what needs no escape.

    >>> pieces("50!%%", "!")
    [Plain(text='50%'), <Wild.TEXT: '(?s:.*)'>]
    """
    found: list[Wild | Plain] = []
    characters = iter(pattern)
    for character in characters:
        wild = None if character == escape else _WILD.get(character)
        if wild:
            found.append(wild)
            continue
        if character == escape:
            character = _escaped(next(characters, ""), escape)
        if found and isinstance(found[-1], Plain):
            found[-1] = Plain(found[-1].text + character)
        else:
            found.append(Plain(character))
    return found


def _escaped(character: str, escape: str) -> str:
    if character and character in ("%", "_", escape):
        return character
    came = f'"{escape}{character}"' if character else f'a last "{escape}"'
    raise PatternError(
        f"the pattern has {came}, where only %, _ and {escape} can be escaped",
        f"{escape}{escape} is the character {escape}",
    )


def like(text: pl.Expr, parts: list[Wild | Plain]) -> pl.Expr:
    """Return whether the whole text matches the parts."""
    match parts:
        case []:
            return text == ""
        case [Plain(whole)]:
            return text == whole
        case [Plain(start), Wild.TEXT]:
            return text.str.starts_with(start)
        case [Wild.TEXT, Plain(end)]:
            return text.str.ends_with(end)
        case [Wild.TEXT, Plain(part), Wild.TEXT]:
            return text.str.contains(part, literal=True)
    return text.str.contains(rf"\A{''.join(map(_rust, parts))}\z")


def _rust(part: Wild | Plain) -> str:
    return part.value if isinstance(part, Wild) else "".join(escaped(ord(c)) for c in part.text)
