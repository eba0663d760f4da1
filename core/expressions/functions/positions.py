"""Parts of a text by position: characters are counted from 1, or from the end if negative.

Polars and Spark agree on what a position beyond the ends means: what lies before the first
character counts, and is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.function import Function, function, overload
from headrace.core.expressions.functions.arguments import (
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


def _slice(text: pl.Expr, start: pl.Expr, length: pl.Expr | None = None) -> pl.Expr:
    import polars as pl

    at = start.cast(pl.Int64)
    offset = pl.when(at > 0).then(at - 1).otherwise(at)
    if length is None:
        return text.str.slice(offset, _ALL)
    # To Polars a length that is NULL means all.
    return pl.when(length.is_not_null()).then(text.str.slice(offset, natural(length)))


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


def _instr(text: pl.Expr, part: pl.Expr, skipped: int = 0) -> pl.Expr:
    """Polars finds bytes: the characters before them are counted."""
    import polars as pl

    at = text.str.find(part, literal=True)
    before = text.cast(pl.Binary).bin.slice(0, at).cast(pl.String)
    position = before.str.len_chars().cast(pl.Int32) + (skipped + 1)
    found = pl.when(at.is_not_null()).then(position).otherwise(0)
    return pl.when(text.is_not_null() & part.is_not_null()).then(found)


def _locate(bound: Bound) -> Form:
    from headrace.core.expressions.batches import once, staged

    start = literal_int(bound.arguments[2]) if len(bound.arguments) > 2 else 1
    if start is None or start < 1 or (start > 1 and not literal_text(bound.arguments[0])):
        return staged(_located, bound.result)
    search = once(lambda text, part: _instr(text, part, start - 1), bound.result)
    return lambda part, text, _=None: search(text.str.slice(start - 1), part)


def _located(frame: pl.DataFrame) -> pl.Series:
    """Where the part a0 stands in the text a1 from the position a2 on."""
    import polars as pl

    part, start, found = pl.col("a0"), pl.col("a2"), pl.col("found")
    rest = pl.col("a1").str.slice(natural(start.cast(pl.Int64) - 1))
    frame = frame.with_columns(rest=rest).with_columns(found=_instr(pl.col("rest"), part))
    # What is not found is 0, and the empty part is at 1, wherever it was looked for.
    skipped = pl.when((found > 0) & (part != "")).then(start - 1).otherwise(0)
    at = pl.when(start >= 1).then(found + skipped).otherwise(found * 0)
    # A NULL start is nowhere, in any text.
    nowhere = pl.when(start.is_not_null()).then(at).otherwise(0)
    return frame.select(nowhere.cast(pl.Int32)).to_series()


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
        overload("locate(part: string, text: string, [start: int]) -> int", build=_locate),
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
