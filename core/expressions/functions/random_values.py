"""Functions of random values: `rand`, `uuid`, `shuffle` and the like.

A value is made from the job's seed, the call, and the row's place in its source: so a row has the
same values whenever it is computed again, in any batch. Spark's values are others, since they come
from the place of a row in its partition. Calls with the same seed of their own have the same bits.
"""

from __future__ import annotations

import math
import string
from typing import TYPE_CHECKING

from headrace.core.expressions.casts import build_cast_form
from headrace.core.expressions.function import (
    SqlFunction,
    TypedCall,
    choose_signature,
    function,
    with_growth,
)
from headrace.core.expressions.random_bits import make_fraction, mix_bits
from headrace.core.expressions.signature import BoundArguments, parse_signature
from headrace.core.expressions.typed import (
    NO_SPARK_FORM,
    Constant,
    ExpressionError,
    FunctionCall,
    PolarsForm,
    RandomBits,
    TypedExpression,
)
from headrace.core.types.data_types import BIGINT, DOUBLE, STRING

if TYPE_CHECKING:
    import polars as pl

_RAND = "rand([seed: constant bigint]) -> double"
_RANDN = "randn([seed: constant bigint]) -> double"
_UNIFORM = "uniform(least: constant N, most: constant N, [seed: constant bigint]) -> N"
_RANDSTR = "randstr(length: constant int, [seed: constant bigint]) -> string"
_UUID = "uuid([seed: constant bigint]) -> string"
_SHUFFLE = "shuffle(array: array<T>, [seed: constant bigint]) -> array<T>"

CHARACTERS = string.digits + string.ascii_lowercase + string.ascii_uppercase
"""The characters of `randstr`."""

CHARACTERS_PER_WORD = 10
"""The number of characters that 64 random bits are enough for."""

SMALL_LENGTH = 256
"""The length up to which the size of a text is not checked."""


def _bind(call: TypedCall, signature: str) -> BoundArguments:
    _, bound = choose_signature(call, [parse_signature(signature)])
    return bound


def _make_call(
    call: TypedCall,
    bound: BoundArguments,
    form: PolarsForm,
    *arguments: TypedExpression,
    seed_at: int,
) -> FunctionCall:
    """Return the call: its form takes random bits, and then the arguments.

    `seed_at` is the index of the seed among the arguments. NULL is the seed 0, as in Spark.
    """
    from headrace.core.expressions.batch_forms import evaluate_once

    seed = str(bound.constants[seed_at] or 0) if seed_at in bound.constants else None
    bits = RandomBits(BIGINT, False, call.span, seed)
    nullable = any(argument.nullable for argument in arguments)
    made = evaluate_once(form, bound.result)
    return FunctionCall(
        bound.result, nullable, call.span, call.name, (bits, *arguments), made, NO_SPARK_FORM
    )


def _resolve_rand(call: TypedCall) -> TypedExpression:
    return _make_call(call, _bind(call, _RAND), make_fraction, seed_at=0)


def _resolve_randn(call: TypedCall) -> TypedExpression:
    return _make_call(call, _bind(call, _RANDN), _make_normal, seed_at=0)


def _make_normal(bits: pl.Expr) -> pl.Expr:
    """Return a value of the normal distribution, by Box and Muller's method."""
    radius = (-2 * (1 - make_fraction(bits)).log()).sqrt()
    return radius * (2 * math.pi * make_fraction(mix_bits(bits, 0))).cos()


def _resolve_uniform(call: TypedCall) -> TypedExpression:
    bound = _bind(call, _UNIFORM)
    least, most = bound.constants[0], bound.constants[1]
    if least is None or most is None:
        return Constant(bound.result, True, call.span, None)
    first, width = float(least), float(most) - float(least)  # type: ignore[arg-type]
    convert = build_cast_form(DOUBLE, bound.result) if bound.result != DOUBLE else None

    def form(bits: pl.Expr) -> pl.Expr:
        value = first + make_fraction(bits) * width
        return convert(value) if convert else value

    return _make_call(call, bound, form, seed_at=2)


def _resolve_uuid(call: TypedCall) -> TypedExpression:
    return _make_call(call, _bind(call, _UUID), _make_uuid, seed_at=0)


def _make_uuid(bits: pl.Expr) -> pl.Expr:
    """Return a UUID of version 4: 122 random bits, in groups of hexadecimal digits."""
    import polars as pl

    words = pl.lit(pl.Series([f"{word:04x}" for word in range(1 << 16)]))

    def format_word(number: pl.Expr) -> pl.Expr:
        return words.gather(number)

    high, low = mix_bits(bits, 0), mix_bits(bits, 1)
    parts = [
        (each // (1 << shift)) % (1 << 16) for each in (high, low) for shift in (48, 32, 16, 0)
    ]
    parts[3] = parts[3] % (1 << 12) + (4 << 12)
    parts[4] = parts[4] % (1 << 14) + (2 << 14)
    first, second, *middle, a, b, c = map(format_word, parts)
    return pl.concat_str(
        pl.concat_str(first, second), *middle, pl.concat_str(a, b, c), separator="-"
    )


def _resolve_randstr(call: TypedCall) -> TypedExpression:
    import polars as pl

    from headrace.core.expressions.batch_forms import compute_on_column

    bound = _bind(call, _RANDSTR)
    length = bound.constants[0]
    if length is None:
        return Constant(STRING, True, call.span, None)
    assert isinstance(length, int)
    if length < 0:
        message = f"randstr wants a length that is not negative, got {length}"
        raise ExpressionError(message, bound.arguments[0].span)

    def compute(bits: pl.Series) -> pl.Series:
        return _make_texts(bits, length)

    made = _make_call(call, bound, compute_on_column(compute, STRING), seed_at=1)
    if length <= SMALL_LENGTH:
        return made
    return with_growth(made, lambda bits: pl.lit(length, dtype=pl.Int64) + 0 * bits.cast(pl.Int64))


def _make_texts(bits: pl.Series, length: int) -> pl.Series:
    """Return texts of random characters: ten of each 64 random bits."""
    import polars as pl

    pairs = pl.lit(pl.Series([a + b for a in CHARACTERS for b in CHARACTERS]))
    count, col = len(CHARACTERS) ** 2, pl.col("bits")
    words = max(-(-length // CHARACTERS_PER_WORD), 1)
    flat = bits.to_frame("bits").select(col.repeat_by(words).explode(empty_as_null=False))
    number = pl.int_range(pl.len(), dtype=pl.UInt64) % words
    flat = flat.select(mix_bits(col, number).alias("bits"))
    parts = [pairs.gather(col // count**at % count) for at in range(CHARACTERS_PER_WORD // 2)]
    texts = flat.select(pl.concat_str(parts)).to_series()
    if words > 1:
        texts = texts.reshape((len(bits), words)).arr.join("")
    return texts.str.slice(0, length)


def _resolve_shuffle(call: TypedCall) -> TypedExpression:
    from headrace.core.expressions.batch_forms import compute_on_frame

    bound = _bind(call, _SHUFFLE)
    form = compute_on_frame(_shuffle_arrays, bound.result)
    return _make_call(call, bound, form, bound.arguments[0], seed_at=1)


def _shuffle_arrays(frame: pl.DataFrame) -> pl.Series:
    """Return the arrays `a1` with their elements sorted by random bits, made from those of `a0`."""
    import polars as pl

    row, element, bits = pl.col("row"), pl.col("a1"), pl.col("a0")
    numbered = frame.with_row_index("row")
    lengths = element.list.len()
    filled = numbered.filter(lengths > 0).with_columns(pl.int_ranges(lengths).alias("at"))
    elements = filled.explode("a1", "at").with_columns(
        mix_bits(bits, pl.col("at").cast(pl.UInt64)).alias("key")
    )
    shuffled = elements.sort("row", "key").group_by("row", maintain_order=True).agg(element)
    joined = numbered.select(row, element.alias("whole")).join(
        shuffled, on="row", how="left", maintain_order="left"
    )
    return joined.select(pl.coalesce("a1", "whole")).to_series()


RANDOM_VALUES: tuple[SqlFunction, ...] = (
    function(
        "rand",
        "random values",
        "A random double from 0 up to, not including, 1; a row always has the same value.",
        example=("rand() >= 0 and rand() < 1", "true"),
        aliases=("random",),
        resolve=_resolve_rand,
        signatures=(_RAND,),
    ),
    function(
        "randn",
        "random values",
        "A random double of the normal distribution with the mean 0 and the deviation 1.",
        example=("abs(randn()) < 9", "true"),
        resolve=_resolve_randn,
        signatures=(_RANDN,),
    ),
    function(
        "uniform",
        "random values",
        "A random number from the first up to, not including, the second.",
        example=("uniform(10, 20, 0) between 10 and 19", "true"),
        resolve=_resolve_uniform,
        signatures=(_UNIFORM,),
    ),
    function(
        "uuid",
        "random values",
        "A UUID of version 4 as text; a row always has the same one.",
        example=("length(uuid())", "36"),
        resolve=_resolve_uuid,
        signatures=(_UUID,),
    ),
    function(
        "randstr",
        "random values",
        "A random text of this length, of the digits and the letters from a to z and A to Z.",
        example=("length(randstr(3, 0))", "3"),
        resolve=_resolve_randstr,
        signatures=(_RANDSTR,),
    ),
    function(
        "shuffle",
        "random values",
        "The elements of an array in a random order.",
        example=("sort_array(shuffle(array(1, 20, 3, 5)))", "[1, 3, 5, 20]"),
        resolve=_resolve_shuffle,
        signatures=(_SHUFFLE,),
    ),
)
"""The functions of random values."""
