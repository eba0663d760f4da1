"""Functions of text by position: characters are counted from 1, or from the end if negative.

Polars and Spark agree on positions beyond the ends: positions before the first character count
towards a length, but have no character.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import (
    build_evaluating_once,
    build_mapping,
    clip_at_zero,
    literal_int,
    literal_text,
)
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import NO_SPARK_FORM, ExpressionError, PolarsForm

if TYPE_CHECKING:
    import polars as pl


# The default length; Spark adds it to any start.
_MAX_LENGTH = 2**31 - 1


def _build_substring(bound: BoundArguments) -> PolarsForm:
    numbers = [literal_int(argument) for argument in bound.arguments[1:]]
    start, length = (*numbers, None)[:2]
    if start is None or None in numbers:
        return build_evaluating_once(_slice_text)(bound)
    offset = start - 1 if start > 0 else start
    count = _MAX_LENGTH if length is None else max(length, 0)
    return lambda text, *_: text.str.slice(offset, count)


def _slice_text(text: pl.Expr, start: pl.Expr, length: pl.Expr | None = None) -> pl.Expr:
    import polars as pl

    at = start.cast(pl.Int64)
    offset = pl.when(at > 0).then(at - 1).otherwise(at)
    if length is None:
        return text.str.slice(offset, _MAX_LENGTH)
    # Polars takes a length of NULL as all.
    return pl.when(length.is_not_null()).then(text.str.slice(offset, clip_at_zero(length)))


def _slice_bytes(value: pl.Expr, start: pl.Expr, length: pl.Expr | None = None) -> pl.Expr:
    """Cut bytes as `_slice_text` cuts characters: as pairs of hexadecimal digits."""
    import polars as pl

    at = start.cast(pl.Int64)
    offset = 2 * pl.when(at > 0).then(at - 1).otherwise(at)
    digits = value.bin.encode("hex")
    if length is None:
        return digits.str.slice(offset, 2 * _MAX_LENGTH).str.decode("hex")
    count = 2 * clip_at_zero(length.cast(pl.Int64))
    return pl.when(length.is_not_null()).then(digits.str.slice(offset, count)).str.decode("hex")


def _take_bytes(value: pl.Expr, count: pl.Expr) -> pl.Expr:
    import polars as pl

    digits = value.bin.encode("hex").str.head(2 * clip_at_zero(count.cast(pl.Int64)))
    return digits.str.decode("hex")


def _build_left(bound: BoundArguments) -> PolarsForm:
    count = literal_int(bound.arguments[1])
    if count is None:
        return lambda text, count: text.str.head(clip_at_zero(count))
    return lambda text, _: text.str.head(max(count, 0))


def _build_right(bound: BoundArguments) -> PolarsForm:
    count = literal_int(bound.arguments[1])
    if count is None:
        return lambda text, count: text.str.tail(clip_at_zero(count))
    return lambda text, _: text.str.tail(max(count, 0))


def _find_part(text: pl.Expr, part: pl.Expr, skipped: int = 0) -> pl.Expr:
    """Return the position of the part in characters; Polars finds bytes, so the characters before
    are counted."""
    import polars as pl

    at = text.str.find(part, literal=True)
    before = text.cast(pl.Binary).bin.slice(0, at).cast(pl.String)
    position = before.str.len_chars().cast(pl.Int32) + (skipped + 1)
    found = pl.when(at.is_not_null()).then(position).otherwise(0)
    return pl.when(text.is_not_null() & part.is_not_null()).then(found)


def _find_occurrence(text: str, part: str, start: int, number: int = 1) -> int | None:
    """Return the position of an occurrence from a start on, or backwards from a negative one."""
    if number < 1:
        return None
    if not part:
        return 1
    at = start - 1 if start > 0 else min(len(text) + start, len(text) - len(part))
    if start == 0 or at < 0:
        return 0
    at = text.find(part, at) if start > 0 else text.rfind(part, 0, at + len(part))
    while number > 1 and at >= 0:
        at = text.find(part, at + 1) if start > 0 else text.rfind(part, 0, at + len(part) - 1)
        number -= 1
    return at + 1


def _build_locate(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import compute_on_frame, evaluate_once

    start = literal_int(bound.arguments[2]) if len(bound.arguments) > 2 else 1
    if start is None or start < 1 or (start > 1 and not literal_text(bound.arguments[0])):
        return compute_on_frame(_locate_parts, bound.result)
    search = evaluate_once(lambda text, part: _find_part(text, part, start - 1), bound.result)
    return lambda part, text, _=None: search(text.str.slice(start - 1), part)


def _locate_parts(frame: pl.DataFrame) -> pl.Series:
    """Return the position of the part a0 in the text a1, from the position a2 on."""
    import polars as pl

    part, start, found = pl.col("a0"), pl.col("a2"), pl.col("found")
    rest = pl.col("a1").str.slice(clip_at_zero(start.cast(pl.Int64) - 1))
    frame = frame.with_columns(rest=rest).with_columns(found=_find_part(pl.col("rest"), part))
    # A part that is not found is at 0, and the empty part is at 1, whatever the start is.
    skipped = pl.when((found > 0) & (part != "")).then(start - 1).otherwise(0)
    at = pl.when(start >= 1).then(found + skipped).otherwise(found * 0)
    # With a NULL start the part is never found.
    position = pl.when(start.is_not_null()).then(at).otherwise(0)
    return frame.select(position.cast(pl.Int32)).to_series()


def _check_part_number(bound: BoundArguments) -> None:
    if bound.constants[2] == 0:
        message = "parts are numbered from 1, or from the end with negative numbers; got 0"
        raise ExpressionError(message, bound.arguments[2].span)


def _build_split_part(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import evaluate_once

    number = bound.constants[2]
    assert isinstance(number, int)
    index = number - 1 if number > 0 else number
    plain = literal_text(bound.arguments[1])

    def form(text: pl.Expr, delimiter: pl.Expr) -> pl.Expr:
        import polars as pl

        parts = text.str.split(delimiter).list.get(index, null_on_oob=True)
        # The empty text does not split; Polars would return each character.
        whole = text if index in (0, -1) else pl.lit("")
        found = parts if plain else pl.when(delimiter == "").then(whole).otherwise(parts)
        return pl.when(text.is_not_null() & delimiter.is_not_null()).then(found.fill_null(""))

    both = evaluate_once(form, bound.result)
    return lambda text, delimiter, _: both(text, delimiter)


def _replace_part(
    text: pl.Expr, by: pl.Expr, start: pl.Expr, length: pl.Expr | None = None
) -> pl.Expr:
    """Replace that many characters from the start on, by default as many as the other text has."""
    import polars as pl

    own = by.str.len_chars().cast(pl.Int32)
    count = own if length is None else pl.when(length >= 0).then(length).otherwise(own)
    after = start.cast(pl.Int64) + count
    rest = text.str.slice(pl.when(after > 0).then(after - 1).otherwise(after))
    joined = pl.concat_str(text.str.head(clip_at_zero(start.cast(pl.Int64) - 1)), by, rest)
    return joined if length is None else pl.when(length.is_not_null()).then(joined)


def _replace_bytes(
    value: pl.Expr, by: pl.Expr, start: pl.Expr, length: pl.Expr | None = None
) -> pl.Expr:
    """Replace bytes as `_replace_part` replaces characters."""
    import polars as pl

    own = by.bin.size().cast(pl.Int64)
    count = own if length is None else pl.when(length >= 0).then(length).otherwise(own)
    after = start.cast(pl.Int64) + count
    size = value.bin.size().cast(pl.Int64)
    first = pl.when(after > 0).then(after - 1).when(after < 0).then(size + after).otherwise(0)
    first = pl.when(after.is_not_null()).then(first)
    before = value.bin.slice(0, clip_at_zero(start.cast(pl.Int64) - 1))
    joined = before + by + value.bin.slice(clip_at_zero(first))
    given = start if length is None else start + length
    return pl.when(given.is_not_null()).then(joined)


def _build_substring_index(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import map_values

    delimiter, count = literal_text(bound.arguments[1]), literal_int(bound.arguments[2])
    if not delimiter or not count or _overlaps_itself(delimiter):
        return map_values(_cut_at_delimiter, bound.result)
    if count > 0:
        return lambda text, *_: text.str.split(delimiter).list.head(count).list.join(delimiter)
    return lambda text, *_: text.str.split(delimiter).list.tail(-count).list.join(delimiter)


def _overlaps_itself(text: str) -> bool:
    """Whether an occurrence of the text may begin inside of another one, as of 'aa'."""
    return any(text.startswith(text[at:]) for at in range(1, len(text)))


def _cut_at_delimiter(text: str, delimiter: str, count: int) -> str:
    """Return the text before that delimiter, or with a negative count after it from the end."""
    if not delimiter or count == 0:
        return ""
    at = -1 if count > 0 else len(text) - len(delimiter) + 1
    for _ in range(min(abs(count), len(text) + 1)):
        backwards = text.rfind(delimiter, 0, max(at - 1 + len(delimiter), 0))
        at = text.find(delimiter, at + 1) if count > 0 else backwards
        if at < 0:
            return text
    return text[:at] if count > 0 else text[at + len(delimiter) :]


def _find_in_set(text: str, items: str) -> int:
    """Return the place of the text among items separated by commas, from 1, or 0."""
    found = items.split(",")
    return found.index(text) + 1 if text in found else 0


SUBSTRINGS: tuple[SqlFunction, ...] = (
    function(
        "substring",
        "strings",
        "The characters from a position on, at most `length` if it is given; a negative position"
        " counts from the end.",
        overload(
            "substring(text: string, start: int, [length: int]) -> string",
            build=_build_substring,
            nulls="strict",
        ),
        overload(
            "substring(bytes: exact binary, start: int, [length: int]) -> binary",
            build=build_evaluating_once(_slice_bytes),
            nulls="strict",
        ),
        example=("substring('hello', -3, 2)", "ll"),
        more=(("substring('hello' from 2 for 3)", "ell"),),
        aliases=("substr",),
    ),
    function(
        "left",
        "strings",
        "The first characters of a text; none if the count is negative.",
        overload("left(text: string, count: int) -> string", build=_build_left, nulls="strict"),
        overload(
            "left(bytes: exact binary, count: int) -> binary",
            build=build_evaluating_once(_take_bytes),
            nulls="strict",
        ),
        example=("left('hello', 2)", "he"),
    ),
    function(
        "right",
        "strings",
        "The last characters of a text; none if the count is negative.",
        overload("right(text: string, count: int) -> string", build=_build_right, nulls="strict"),
        example=("right('hello', 2)", "lo"),
    ),
    function(
        "instr",
        "strings",
        "The position of the first occurrence of the part in the text, counted from 1; 0 if there"
        " is none. With a start it is the first from there on, or backwards from there with a"
        " negative start; with a number, the occurrence of that number, NULL if it is below 1.",
        overload(
            "instr(text: string, part: string) -> int",
            build=build_evaluating_once(_find_part),
            nulls="strict",
        ),
        overload(
            "instr(text: string, part: string, start: int, [number: int]) -> int",
            build=build_mapping(_find_occurrence),
            spark=NO_SPARK_FORM,
        ),
        example=("instr('hello', 'l')", "3"),
        more=(("position('z' in 'hello')", "0"),),
    ),
    function(
        "locate",
        "strings",
        "The position of the first occurrence of the part in the text, from a position on; 0 if"
        " there is none, or if the position is below 1 or NULL.",
        overload("locate(part: string, text: string, [start: int]) -> int", build=_build_locate),
        example=("locate('l', 'hello', 4)", "4"),
        aliases=("position",),
    ),
    function(
        "overlay",
        "strings",
        "The text with another in place of its characters from a position on: as many as the other"
        " has, or `length` if it is given and not negative.",
        overload(
            "overlay(text: string, by: string, start: int, [length: int]) -> string",
            build=build_evaluating_once(_replace_part),
            nulls="strict",
        ),
        overload(
            "overlay(bytes: binary, by: binary, start: int, [length: int]) -> binary",
            build=build_evaluating_once(_replace_bytes),
            nulls="strict",
        ),
        example=("overlay('Spark SQL', '_', 6)", "Spark_SQL"),
        more=(("overlay('Spark SQL' placing 'ANSI ' from 7 for 0)", "Spark ANSI SQL"),),
    ),
    function(
        "substring_index",
        "strings",
        "The text before the given occurrence of a delimiter, or with a negative count after the"
        " occurrence that is counted from the end; all of it if there are fewer.",
        overload(
            "substring_index(text: string, delimiter: string, count: int) -> string",
            build=_build_substring_index,
            nulls="strict",
        ),
        example=("substring_index('www.apache.org', '.', 2)", "www.apache"),
        more=(("substring_index('www.apache.org', '.', -1)", "org"),),
    ),
    function(
        "find_in_set",
        "strings",
        "The place of a text in a list separated by commas, counted from 1; 0 if it is not there.",
        overload(
            "find_in_set(text: string, items: string) -> int",
            build=build_mapping(_find_in_set),
            nulls="strict",
        ),
        example=("find_in_set('ab', 'abc,b,ab,c,def')", "3"),
    ),
    function(
        "split_part",
        "strings",
        "The part at a position between delimiters (plain text, not a pattern); negative positions"
        " count from the end, and a missing part is empty.",
        overload(
            "split_part(text: string, delimiter: string, number: constant int) -> string",
            build=_build_split_part,
            check=_check_part_number,
            nulls="strict",
        ),
        example=("split_part('a.b.c', '.', 2)", "b"),
        more=(("split_part('a.b.c', '.', -1)", "c"),),
    ),
)
"""The functions of parts of a text."""
