"""Parts of a text by position: characters are counted from 1, or from the end if negative.

A literal position gets the plain Polars call; one that is computed per row gets arithmetic that
keeps to Spark's rules at the ends: what lies before the first character counts, and is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.function import Function, function, overload
from headrace.core.expressions.functions.arguments import (
    characters,
    literal_int,
    literal_text,
    natural,
    repeating,
)
from headrace.core.expressions.signature import Bound
from headrace.core.expressions.typed import ExpressionError, Form

if TYPE_CHECKING:
    import polars as pl


# The length where none is given; Spark adds it to the start, wherever that is.
_ALL = 2**31 - 1


def _substring(bound: Bound) -> Form:
    numbers = [literal_int(argument) for argument in bound.arguments[1:]]
    start, length = (*numbers, None)[:2]
    if start is None or None in numbers:
        return repeating(_slice)(bound)
    offset = start - 1 if start > 0 else start
    count = _ALL if length is None else max(length, 0)
    return lambda text, *_: text.str.slice(offset, count)


def _slice(text: pl.Expr, start: pl.Expr, length: pl.Expr | int = _ALL) -> pl.Expr:
    import polars as pl

    at = start.cast(pl.Int64)
    # Before the first character by as much as a negative start goes too far.
    begin = at - (at > 0).cast(pl.Int64) + (at < 0).cast(pl.Int64) * characters(text)
    count = natural(begin + length - natural(begin))
    # To Polars a count that is NULL means all.
    return pl.when(count.is_not_null()).then(text.str.slice(natural(begin), count))


def _left(bound: Bound) -> Form:
    count = literal_int(bound.arguments[1])
    if count is None:
        return lambda text, count: text.str.head(natural(count))
    return lambda text, _: text.str.head(max(count, 0))


def _right(bound: Bound) -> Form:
    count = literal_int(bound.arguments[1])
    if count is None:
        return lambda text, count: text.str.tail(natural(count))
    return lambda text, _: text.str.tail(max(count, 0))


def _instr(text: pl.Expr, part: pl.Expr) -> pl.Expr:
    """Polars finds bytes: the characters before them are counted."""
    import polars as pl

    at = text.str.find(part, literal=True)
    before = text.cast(pl.Binary).bin.slice(0, at).cast(pl.String)
    found = pl.when(at.is_not_null()).then(before.str.len_chars().cast(pl.Int32) + 1).otherwise(0)
    return pl.when(text.is_not_null() & part.is_not_null()).then(found)


def _locate(part: pl.Expr, text: pl.Expr, start: pl.Expr | None = None) -> pl.Expr:
    import polars as pl

    if start is None:
        return _instr(text, part)
    found = _instr(text.str.slice(natural(start.cast(pl.Int64) - 1)), part)
    at = pl.when((found > 0) & (part != "")).then(found + start - 1).otherwise(found)
    inside = pl.when(start < 1).then(found * 0).otherwise(at).cast(pl.Int32)
    # A start that is NULL is nowhere, and the only NULL that the result does not follow.
    nowhere = pl.lit(0, dtype=pl.Int32)
    missing = text.is_null() | part.is_null()
    return pl.when(start.is_null()).then(nowhere).when(missing).then(None).otherwise(inside)


def _check_part(bound: Bound) -> None:
    if bound.constants[2] == 0:
        message = "parts are numbered from 1, or from the end with negative numbers; got 0"
        raise ExpressionError(message, bound.arguments[2].span)


def _split_part(bound: Bound) -> Form:
    from headrace.core.expressions.batches import once

    number = bound.constants[2]
    assert isinstance(number, int)
    index = number - 1 if number > 0 else number
    plain = literal_text(bound.arguments[1])

    def form(text: pl.Expr, delimiter: pl.Expr) -> pl.Expr:
        import polars as pl

        parts = text.str.split(delimiter).list.get(index, null_on_oob=True)
        # Nothing is split by the empty text; Polars would give each character.
        whole = text if index in (0, -1) else pl.lit("")
        found = parts if plain else pl.when(delimiter == "").then(whole).otherwise(parts)
        return pl.when(text.is_not_null() & delimiter.is_not_null()).then(found.fill_null(""))

    both = once(form, bound.result)
    return lambda text, delimiter, _: both(text, delimiter)


POSITIONS: tuple[Function, ...] = (
    function(
        "substring",
        "strings",
        "So many characters from a position on, or all; a negative position counts from the end.",
        overload(
            "substring(text: string, start: int, [length: int]) -> string",
            build=_substring,
            nulls="strict",
        ),
        example=("substring('hello', -3, 2)", "ll"),
        more=(("substring('hello' from 2 for 3)", "ell"),),
        aliases=("substr",),
    ),
    function(
        "left",
        "strings",
        "The first characters of a text; none where the count is negative.",
        overload("left(text: string, count: int) -> string", build=_left, nulls="strict"),
        example=("left('hello', 2)", "he"),
    ),
    function(
        "right",
        "strings",
        "The last characters of a text; none where the count is negative.",
        overload("right(text: string, count: int) -> string", build=_right, nulls="strict"),
        example=("right('hello', 2)", "lo"),
    ),
    function(
        "instr",
        "strings",
        "Where the part first stands in the text, counted from 1; 0 where it does not.",
        overload(
            "instr(text: string, part: string) -> int", build=repeating(_instr), nulls="strict"
        ),
        example=("instr('hello', 'l')", "3"),
        more=(("position('z' in 'hello')", "0"),),
    ),
    function(
        "locate",
        "strings",
        "Where the part first stands in the text, from a position on; 0 where it does not, and"
        " where the position is below 1 or NULL.",
        overload(
            "locate(part: string, text: string, [start: int]) -> int", build=repeating(_locate)
        ),
        example=("locate('l', 'hello', 4)", "4"),
        aliases=("position",),
    ),
    function(
        "split_part",
        "strings",
        "The part of that number between delimiters (plain text, not a pattern); negative numbers"
        " count from the end, and what is not there is empty.",
        overload(
            "split_part(text: string, delimiter: string, number: constant int) -> string",
            build=_split_part,
            check=_check_part,
            nulls="strict",
        ),
        example=("split_part('a.b.c', '.', 2)", "b"),
        more=(("split_part('a.b.c', '.', -1)", "c"),),
    ),
)
"""What finds and takes parts of a text."""
