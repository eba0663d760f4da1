"""Hashes of several values, as Spark partitions by them: `hash` and `xxhash64`.

The hash of a value begins with the hash of the values before it, the first with 42; NULL changes
nothing. Whole columns are computed at once; the bytes of texts go through the libraries mmh3 and
xxhash, a call each. Spark's Murmur3 mixes in each byte after the last four by itself, so those come
after the library's hash, whose last step is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from headrace.core.expressions.compilation import find_largest
from headrace.core.expressions.function import SqlFunction, TypedCall, function
from headrace.core.expressions.typed import (
    ExpressionError,
    FunctionCall,
    TypedExpression,
)
from headrace.core.types.data_types import BIGINT, INT, Type
from headrace.core.types.frames import align_lengths

if TYPE_CHECKING:
    import polars as pl

SEED = 42
_LONG_DIGITS = 18
"""The largest precision of the decimals that Spark hashes as whole numbers of 64 bits."""


class RowHash(Protocol):
    """A hash of columns, each with the seeds that are the hashes of the columns before."""

    def seed(self) -> pl.Series:
        """Return the first seed."""
        ...

    def hash_ints(self, values: pl.Series, seeds: pl.Series) -> pl.Series:
        """Hash whole numbers of 32 bits."""
        ...

    def hash_longs(self, values: pl.Series, seeds: pl.Series) -> pl.Series:
        """Hash whole numbers of 64 bits."""
        ...

    def hash_bytes(self, values: pl.Series, seeds: pl.Series) -> pl.Series:
        """Hash bytes."""
        ...


class Murmur3:
    """Murmur3 of 32 bits, as Spark has it."""

    def seed(self) -> pl.Series:
        """Return the first seed."""
        import polars as pl

        return pl.Series([SEED], dtype=pl.UInt32)

    def hash_ints(self, values: pl.Series, seeds: pl.Series) -> pl.Series:
        """Hash whole numbers of 32 bits."""
        return self._finish(self._mix(seeds, _to_unsigned(values, 32)), 4)

    def hash_longs(self, values: pl.Series, seeds: pl.Series) -> pl.Series:
        """Hash whole numbers of 64 bits: the lower half, then the upper one."""
        import polars as pl

        bits = _to_unsigned(values, 64)
        low, high = ((bits % 2**32).cast(pl.UInt32), (bits // 2**32).cast(pl.UInt32))
        return self._finish(self._mix(self._mix(seeds, low), high), 8)

    def hash_bytes(self, values: pl.Series, seeds: pl.Series) -> pl.Series:
        """Hash bytes: by fours, and then each of the rest."""
        import mmh3
        import polars as pl

        frame = pl.DataFrame({"value": values, "size": values.bin.size()})
        value, size = pl.col("value"), pl.col("size")
        frame = frame.with_columns(head=value.bin.slice(0, size - size % 4))
        heads = frame["head"].to_list()
        pairs = zip(heads, seeds.to_list(), strict=True)
        hashed = [mmh3.hash(head, seed, signed=False) for head, seed in pairs]
        hashes = self._unfinish(pl.Series(hashed, dtype=pl.UInt32), frame["head"].bin.size())
        for at in range(3):
            is_there = frame.select(size % 4 > at).to_series()
            if is_there.any():
                byte = value.bin.slice(size - size % 4 + at, 1).bin.reinterpret(dtype=pl.Int8)
                mixed = self._mix(hashes, _to_unsigned(frame.select(byte).to_series(), 32))
                hashes = mixed.zip_with(is_there, hashes)
        return self._finish(hashes, frame["size"])

    def _mix(self, hashes: pl.Series, values: pl.Series) -> pl.Series:
        mixed = _rotate(values * 0xCC9E2D51, 15, 32) * 0x1B873593
        return _rotate(hashes ^ mixed, 13, 32) * 5 + 0xE6546B64

    def _finish(self, hashes: pl.Series, size: pl.Series | int) -> pl.Series:
        hashes = hashes ^ size
        hashes = (hashes ^ hashes // 2**16) * 0x85EBCA6B
        hashes = (hashes ^ hashes // 2**13) * 0xC2B2AE35
        return hashes ^ hashes // 2**16

    def _unfinish(self, hashes: pl.Series, size: pl.Series) -> pl.Series:
        hashes = (hashes ^ hashes // 2**16) * pow(0xC2B2AE35, -1, 2**32)
        hashes = (hashes ^ hashes // 2**13 ^ hashes // 2**26) * pow(0x85EBCA6B, -1, 2**32)
        return hashes ^ hashes // 2**16 ^ size


_PRIMES = (
    *(0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9),
    *(0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
)


class XxHash64:
    """The xxHash of 64 bits."""

    def seed(self) -> pl.Series:
        """Return the first seed."""
        import polars as pl

        return pl.Series([SEED], dtype=pl.UInt64)

    def hash_ints(self, values: pl.Series, seeds: pl.Series) -> pl.Series:
        """Hash whole numbers of 32 bits."""
        import polars as pl

        first, second, third, _, fifth = _PRIMES
        mixed = _to_unsigned(values, 32).cast(pl.UInt64) * first
        hashes = seeds + (fifth + 4) ^ mixed
        return self._finish(_rotate(hashes, 23, 64) * second + third)

    def hash_longs(self, values: pl.Series, seeds: pl.Series) -> pl.Series:
        """Hash whole numbers of 64 bits."""
        first, second, _, fourth, fifth = _PRIMES
        mixed = _rotate(_to_unsigned(values, 64) * second, 31, 64) * first
        hashes = seeds + (fifth + 8) ^ mixed
        return self._finish(_rotate(hashes, 27, 64) * first + fourth)

    def hash_bytes(self, values: pl.Series, seeds: pl.Series) -> pl.Series:
        """Hash bytes."""
        import polars as pl
        import xxhash

        pairs = zip(values.to_list(), seeds.to_list(), strict=True)
        hashed = [xxhash.xxh64_intdigest(value, seed) for value, seed in pairs]
        return pl.Series(hashed, dtype=pl.UInt64)

    def _finish(self, hashes: pl.Series) -> pl.Series:
        hashes = (hashes ^ hashes // 2**33) * _PRIMES[1]
        hashes = (hashes ^ hashes // 2**29) * _PRIMES[2]
        return hashes ^ hashes // 2**32


def _to_unsigned(values: pl.Series, bits: int) -> pl.Series:
    """Return the bits of signed numbers, widened to that many."""
    import polars as pl

    signed, unsigned = (pl.Int32, pl.UInt32) if bits == 32 else (pl.Int64, pl.UInt64)
    return values.cast(signed).reinterpret(dtype=unsigned)


def _rotate(values: pl.Series, left: int, bits: int) -> pl.Series:
    rotated: pl.Series = values * 2**left | values // 2 ** (bits - left)
    return rotated


def hash_column(algorithm: RowHash, values: pl.Series, seeds: pl.Series) -> pl.Series:
    """Hash a column; where it is null, the seeds are returned."""
    is_there = values.is_not_null()
    if not is_there.all():
        found = hash_column(algorithm, values.filter(is_there), seeds.filter(is_there))
        return seeds.scatter(is_there.arg_true(), found)
    return _hash_values(algorithm, values, seeds) if len(values) else seeds


def _hash_values(algorithm: RowHash, values: pl.Series, seeds: pl.Series) -> pl.Series:
    import polars as pl

    match values.dtype:
        case pl.List():
            return _hash_lists(algorithm, values, seeds)
        case pl.Struct():
            for field in values.struct.unnest():
                seeds = hash_column(algorithm, field, seeds)
            return seeds
        case pl.Decimal():
            return _hash_decimals(algorithm, values, seeds)
        case pl.String() | pl.Binary():
            return algorithm.hash_bytes(values.cast(pl.Binary), seeds)
        case pl.Float32():
            return algorithm.hash_ints(_take_bits(values, pl.Int32()), seeds)
        case pl.Float64():
            return algorithm.hash_longs(_take_bits(values, pl.Int64()), seeds)
        case pl.Int64() | pl.Datetime() | pl.Duration() | pl.Time():
            return algorithm.hash_longs(values.to_physical(), seeds)
    return algorithm.hash_ints(values.to_physical(), seeds)


def _take_bits(values: pl.Series, type: pl.DataType) -> pl.Series:
    """Return the bits of floating-point numbers: -0.0 is 0.0, and every NaN is the same."""
    return values.set(values == 0, 0.0).fill_nan(float("nan")).reinterpret(dtype=type)


def _hash_decimals(algorithm: RowHash, values: pl.Series, seeds: pl.Series) -> pl.Series:
    import polars as pl

    assert isinstance(values.dtype, pl.Decimal)
    digits = values.reinterpret(dtype=pl.Int128)
    if values.dtype.precision <= _LONG_DIGITS:
        return algorithm.hash_longs(digits.cast(pl.Int64), seeds)
    numbers = [_to_shortest_bytes(number) for number in digits.to_list()]
    return algorithm.hash_bytes(pl.Series(numbers, dtype=pl.Binary), seeds)


def _to_shortest_bytes(number: int) -> bytes:
    """Return the bytes of a number, the highest first, with room for its sign."""
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def _hash_lists(algorithm: RowHash, values: pl.Series, seeds: pl.Series) -> pl.Series:
    """Hash the first elements of all lists, then the second ones, and so on."""
    sizes = values.list.len()
    for at in range(find_largest(sizes)):
        is_there = sizes > at
        elements = values.filter(is_there).list.get(at)
        found = hash_column(algorithm, elements, seeds.filter(is_there))
        seeds = seeds.scatter(is_there.arg_true(), found)
    return seeds


def _build_hash(algorithm: RowHash, result: Type) -> Callable[..., pl.Expr]:
    def compute(columns: Sequence[pl.Series]) -> pl.Series:
        from headrace.core.types.data_types import to_polars

        first, *rest = align_lengths(columns)
        seeds = algorithm.seed().new_from_index(0, len(first))
        for column in (first, *rest):
            seeds = hash_column(algorithm, column, seeds)
        return seeds.reinterpret(dtype=to_polars(result))

    def form(*columns: pl.Expr) -> pl.Expr:
        import polars as pl

        from headrace.core.types.data_types import to_polars

        return pl.map_batches(
            list(columns), compute, return_dtype=to_polars(result), is_elementwise=True
        )

    return form


def _define_hash(name: str, doc: str, algorithm: RowHash, result: Type, value: str) -> SqlFunction:
    def resolve(call: TypedCall) -> TypedExpression:
        if not call.arguments:
            message = f"{name} takes at least 1 argument, got 0"
            raise ExpressionError(message, call.span, f"its signature is {signature}")
        for argument in call.arguments:
            if "map<" in str(argument.type):
                message = f"{name} does not take a map, got {argument.type}"
                hint = "map_entries(...) is an array of its entries"
                raise ExpressionError(message, argument.span, hint)
        form = _build_hash(algorithm, result)
        return FunctionCall(result, False, call.span, call.name, call.arguments, form)

    signature = f"{name}(value: any...) -> {result}"
    return function(
        *(name, "encodings", doc),
        example=(f"{name}('Spark', array(123), 2)", value),
        resolve=resolve,
        signatures=(signature,),
    )


ROW_HASHES: tuple[SqlFunction, ...] = (
    _define_hash(
        "hash",
        "A hash of 32 bits of all values together, by Murmur3, as Spark partitions by it.",
        Murmur3(),
        INT,
        "-1321691492",
    ),
    _define_hash(
        "xxhash64",
        "A hash of 64 bits of all values together, by xxHash.",
        XxHash64(),
        BIGINT,
        "5602566077635097486",
    ),
)
"""The functions of hashes of several values."""
