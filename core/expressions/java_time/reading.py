"""Parsing of text by a pattern of Java's DateTimeFormatter, as strictly as Spark.

A pattern becomes one regular expression, which encodes how many digits each field takes and the
range of its numbers, and an expression that converts the captured fields to a timestamp. Text that
does not match is null, and so is a day that its month does not have. Missing fields default to
1970, January, the 1st, midnight.

Java parses from the left and never backtracks; a regular expression does. The two agree where no
text can be split in two ways, so a pattern is refused where one can: a number without a fixed width
before more digits, or a section in brackets that begins like the text after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.expressions.batches import per_column
from headrace.core.expressions.java_time.caught import Caught, timestamp
from headrace.core.expressions.java_time.fields import DIGITS, Choice, Item, Piece, piece_of
from headrace.core.expressions.java_time.pattern import (
    Letters,
    Part,
    PatternError,
    Text,
    parse_pattern,
)
from headrace.core.expressions.typed import Form
from headrace.core.types import TIMESTAMP

if TYPE_CHECKING:
    import polars as pl


def reader(pattern: str) -> Form:
    """Return the form that parses text to a timestamp; PatternError explains why a pattern is
    refused."""
    parts = parse_pattern(pattern)
    items = tuple(map(piece_of, parts))
    _check_unambiguous(items, frozenset())
    fields = [piece.field for piece in _flat(items) if piece.field]
    _check_fields(fields)
    if not any(isinstance(item, Piece) and item.field not in ("", "zone") for item in items):
        raise PatternError("a pattern for parsing needs a field outside of brackets")
    regex = f"^{_regex(items)}$"
    optional = frozenset(fields) - {item.field for item in items if isinstance(item, Piece)}
    plain, directives = _quick(parts)

    def read(text: pl.Series) -> pl.Series:
        if directives and text.str.contains(plain).all():
            read = text.str.to_datetime(directives, strict=False, time_unit="us")
            return read.dt.replace_time_zone("UTC")
        texts = text.str.extract_groups(regex).struct.unnest().to_dict()
        return timestamp(Caught(texts, optional))

    return per_column(read, TIMESTAMP)


# Fields of fixed width, which Polars reads several times faster, once their shape is known.
_QUICK = {
    **{"yyyy": ("[0-9]{4}", "%Y"), "MM": ("[0-9]{2}", "%m"), "dd": ("[0-9]{2}", "%d")},
    **{"HH": ("[0-9]{2}", "%H"), "mm": ("[0-9]{2}", "%M"), "ss": ("[0-5][0-9]", "%S")},
}


def _quick(parts: Sequence[Part]) -> tuple[str, str]:
    """Return the shape of a plain date and time and Polars' directives for it, empty if there are
    none."""
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


# Patterns that would parse a text differently from Java.


def _check_unambiguous(items: Sequence[Item], after: frozenset[str]) -> None:
    greedy = False
    for index, item in enumerate(items):
        following = _first(items[index + 1 :], after)
        if isinstance(item, Choice):
            starts_itself = item.pieces and isinstance(item.pieces[0], Piece)
            if not starts_itself or _first(item.pieces, frozenset()) & following:
                raise PatternError("a section in brackets must not begin like what follows it")
            _check_unambiguous(item.pieces, following)
            greedy = False
            continue
        greedy = item.digits == "greedy" or (greedy and item.digits == "fixed")
        if greedy and following & DIGITS and not _goes_on(items, index):
            raise PatternError("a number without a fixed width cannot stand before more digits")


def _goes_on(items: Sequence[Item], index: int) -> bool:
    """Whether a run of digits has a fixed-width field next, so that the number before it takes the
    rest."""
    if index + 1 == len(items):
        return False
    item, following = items[index], items[index + 1]
    parted = isinstance(item, Piece) and item.field not in ("fraction", "zone")
    return parted and isinstance(following, Piece) and following.digits == "fixed"


def _first(items: Sequence[Item], after: frozenset[str]) -> frozenset[str]:
    """Return the characters with which the rest may begin."""
    found: frozenset[str] = frozenset()
    for item in items:
        if isinstance(item, Piece):
            return found | item.first
        found |= _first(item.pieces, frozenset())
    return found | after


# Fields with the same meaning, each with its letters.
_SAME = (
    {"year": "yyyy", "short_year": "yy"},
    {"month": "MM", "month_name": "MMM", "day_of_year": "D"},
    {"day": "d", "day_of_year": "D"},
    {"hour": "H", "hour_from_1": "k", "half_hour": "K", "half_hour_from_1": "h"},
    {"half": "a", "hour": "H", "hour_from_1": "k"},
)


def _check_fields(fields: Sequence[str]) -> None:
    for field in fields:
        if fields.count(field) > 1:
            raise PatternError(f"the {field.replace('_', ' ')} occurs twice")
    for same in _SAME:
        letters_of_same = [letters for field, letters in same.items() if field in fields]
        if len(letters_of_same) > 1:
            first, second, *_ = letters_of_same
            raise PatternError(f"{first} and {second} cannot be combined")
