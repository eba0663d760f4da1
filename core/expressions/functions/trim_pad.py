"""Functions of the ends of a text: trimming, and padding to a length.

Only spaces are trimmed unless other characters are given, as SQL defines it: a tab or a line end
stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.core.expressions.casts import build_cast_form
from headrace.core.expressions.function import Overload, SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import (
    SMALL_SIZE,
    clip_at_zero,
    count_characters,
    literal_int,
    literal_text,
    repeat_text,
)
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import NO_SPARK_FORM, PolarsForm
from headrace.core.types.data_types import BINARY, STRING

if TYPE_CHECKING:
    import polars as pl

TextSide: TypeAlias = Literal["start", "end", "both"]


def _strip_side(text: pl.Expr, side: TextSide, unwanted: pl.Expr | str) -> pl.Expr:
    match side:
        case "start":
            return text.str.strip_chars_start(unwanted)
        case "end":
            return text.str.strip_chars_end(unwanted)
    return text.str.strip_chars(unwanted)


def _build_trim_builder(side: TextSide, unwanted_at: int) -> Callable[[BoundArguments], PolarsForm]:
    """Return the builder of the form with given characters, which come before or after the text."""

    def build(bound: BoundArguments) -> PolarsForm:
        from headrace.core.expressions.batch_forms import evaluate_once

        plain = literal_text(bound.arguments[unwanted_at])
        if plain is not None:
            return lambda *both: _strip_side(both[1 - unwanted_at], side, plain)

        def form(*both: pl.Expr) -> pl.Expr:
            import polars as pl

            unwanted, text = both[unwanted_at], both[1 - unwanted_at]
            # Polars takes NULL as no unwanted characters.
            return pl.when(unwanted.is_not_null()).then(_strip_side(text, side, unwanted))

        return evaluate_once(form, bound.result)

    return build


def _bytes_overloads(name: str, side: TextSide, unwanted_at: int) -> Iterator[Overload]:
    """Yield the overloads that take bytes as the UTF-8 of a text, as Spark does."""
    read = build_cast_form(BINARY, STRING)
    yield overload(
        f"{name}(bytes: exact binary) -> string",
        lambda value: _strip_side(read(value), side, " "),
        nulls="strict",
        spark=NO_SPARK_FORM,
    )

    def build(bound: BoundArguments) -> PolarsForm:
        from headrace.core.expressions.batch_forms import evaluate_once

        def form(*both: pl.Expr) -> pl.Expr:
            import polars as pl

            unwanted, text = read(both[unwanted_at]), read(both[1 - unwanted_at])
            return pl.when(unwanted.is_not_null()).then(_strip_side(text, side, unwanted))

        return evaluate_once(form, bound.result)

    parameters = ["bytes: exact binary", "unwanted: exact binary"]
    if unwanted_at == 0:
        parameters.reverse()
    signature = f"{name}({', '.join(parameters)}) -> string"
    yield overload(signature, build=build, nulls="strict", spark=NO_SPARK_FORM)


def _trim_overloads(name: str, side: TextSide) -> tuple[Overload, ...]:
    return (
        overload(
            f"{name}(text: string) -> string",
            lambda text: _strip_side(text, side, " "),
            nulls="strict",
        ),
        overload(
            f"{name}(unwanted: string, text: string) -> string",
            build=_build_trim_builder(side, unwanted_at=0),
            nulls="strict",
        ),
        *_bytes_overloads(name, side, unwanted_at=0),
    )


def _build_pad(bound: BoundArguments, side: TextSide) -> PolarsForm:
    from headrace.core.expressions.batch_forms import evaluate_once

    width = literal_int(bound.arguments[1])
    fill = literal_text(bound.arguments[2]) if len(bound.arguments) > 2 else " "
    if fill is None or len(fill) > 1:
        return evaluate_once(lambda *arguments: _pad_text(*arguments, side=side), bound.result)

    def form(text: pl.Expr, count: pl.Expr, _: object = None) -> pl.Expr:
        to = max(width, 0) if width is not None else clip_at_zero(count)
        short = text.str.head(to)
        if not fill:
            return short
        return short.str.pad_start(to, fill) if side == "start" else short.str.pad_end(to, fill)

    return form if width is not None else evaluate_once(form, bound.result)


def _pad_text(text: pl.Expr, width: pl.Expr, fill: pl.Expr, *, side: TextSide) -> pl.Expr:
    """Cut the text to the width, or pad it with the repeated filling."""
    import polars as pl

    to = clip_at_zero(width.cast(pl.Int64))
    lacking = clip_at_zero(to - count_characters(text))
    times = (lacking + count_characters(fill) - 1) // count_characters(fill).clip(1)
    filling = repeat_text(fill, times).str.head(lacking)
    short = text.str.head(to)
    joined = pl.concat_str([filling, short] if side == "start" else [short, filling])
    return pl.when(fill.is_not_null()).then(joined)


def _build_pad_bytes(bound: BoundArguments, side: TextSide) -> PolarsForm:
    """Return the form that pads the hexadecimal digits; the default filling is the byte 0."""
    from headrace.core.expressions.batch_forms import evaluate_once

    def form(value: pl.Expr, length: pl.Expr, filling: pl.Expr | None = None) -> pl.Expr:
        import polars as pl

        fill = pl.lit("00") if filling is None else filling.bin.encode("hex")
        digits = value.bin.encode("hex")
        return _pad_text(digits, 2 * length.cast(pl.Int64), fill, side=side).str.decode("hex")

    return evaluate_once(form, bound.result)


def _pad_bytes_overload(name: str, side: TextSide) -> Overload:
    return overload(
        f"{name}(bytes: exact binary, length: int, [filling: exact binary]) -> binary",
        build=lambda bound: _build_pad_bytes(bound, side),
        nulls="strict",
        growth=lambda bound: lambda value, length, _=None: clip_at_zero(length),
    )


def _grow_pad(bound: BoundArguments) -> PolarsForm | None:
    """Return the size of a padded text, unless its length is a small constant."""
    width = literal_int(bound.arguments[1])
    return None if width is not None and width <= SMALL_SIZE else _measure_pad


def _measure_pad(text: pl.Expr, width: pl.Expr, fill: pl.Expr | None = None) -> pl.Expr:
    """Return the size in bytes of a text that is cut or padded to a width."""
    import polars as pl

    to = clip_at_zero(width.cast(pl.Int64))
    lacking = clip_at_zero(to - count_characters(text))
    short = text.str.head(to).str.len_bytes().cast(pl.Int64)
    if fill is None:
        return short + lacking
    characters, size = count_characters(fill).clip(1), fill.str.len_bytes().cast(pl.Int64)
    part = fill.str.head(lacking % characters).str.len_bytes()
    filling = pl.when(size > 0).then(lacking // characters * size + part).otherwise(0)
    return short + pl.when(fill.is_not_null()).then(filling)


TRIM_PAD: tuple[SqlFunction, ...] = (
    function(
        "trim",
        "strings",
        "The text without spaces, or the unwanted characters, at both ends.",
        *_trim_overloads("trim", "both"),
        example=("trim('  a b ')", "a b"),
        more=(("trim(both 'x' from 'xxaxx')", "a"),),
    ),
    function(
        "btrim",
        "strings",
        "The same as trim, but the unwanted characters are the second argument.",
        overload(
            "btrim(text: string) -> string",
            lambda text: _strip_side(text, "both", " "),
            nulls="strict",
        ),
        overload(
            "btrim(text: string, unwanted: string) -> string",
            build=_build_trim_builder("both", unwanted_at=1),
            nulls="strict",
        ),
        *_bytes_overloads("btrim", "both", unwanted_at=1),
        example=("btrim('xyaxbyx', 'xy')", "axb"),
    ),
    function(
        "ltrim",
        "strings",
        "The text without spaces, or the unwanted characters, at its start.",
        *_trim_overloads("ltrim", "start"),
        example=("ltrim('0', '0070')", "70"),
    ),
    function(
        "rtrim",
        "strings",
        "The text without spaces, or the unwanted characters, at its end.",
        *_trim_overloads("rtrim", "end"),
        example=("rtrim('.', 'end...')", "end"),
    ),
    function(
        "lpad",
        "strings",
        "The text padded at its start to a length, with spaces or another text; a longer text is"
        " truncated.",
        overload(
            "lpad(text: string, length: int, [filling: string]) -> string",
            build=lambda bound: _build_pad(bound, "start"),
            nulls="strict",
            growth=_grow_pad,
        ),
        _pad_bytes_overload("lpad", "start"),
        example=("lpad('7', 3, '0')", "007"),
        more=(("lpad('12345', 3, '0')", "123"),),
    ),
    function(
        "rpad",
        "strings",
        "The text padded at its end to a length, with spaces or another text; a longer text is"
        " truncated.",
        overload(
            "rpad(text: string, length: int, [filling: string]) -> string",
            build=lambda bound: _build_pad(bound, "end"),
            nulls="strict",
            growth=_grow_pad,
        ),
        _pad_bytes_overload("rpad", "end"),
        example=("rpad('7', 4, 'ab')", "7aba"),
    ),
)
"""The functions of the ends of a text."""
