"""The partition of a key, as chosen by Kafka's Java clients: murmur2, in columns.

Topics written by different clients can only be joined by partition if all clients agree on this.
Many keys are hashed in a batch, four bytes of each at a time; few keys, or very long ones, one by
one. The hashes of keys that recur in small batches are cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995
FEW = 300
"""Up to this number of keys, hashing one by one is faster."""
LONG = 256
"""Keys longer than this number of bytes are hashed one by one."""
REMEMBERED = 1 << 16
WORD = 0xFFFFFFFF


def partitions(keys: pl.Series, count: int) -> list[int | None]:
    """Return the partition of each key (Binary) among `count`; None for a null key."""
    if len(keys) <= FEW:
        return [None if key is None else _of_one(key) % count for key in keys]
    hashes = _hashed(keys)
    return (hashes % count).to_list()


def _hashed(keys: pl.Series) -> pl.Series:
    """Return the positive hash of each key, padded with zeros to words of four bytes."""
    import polars as pl

    longest = keys.bin.size().max()
    if not isinstance(longest, int) or longest > LONG:
        return pl.Series([None if key is None else _of_one(key) for key in keys], dtype=pl.UInt32)
    words = longest // 4 + 1
    filled = (pl.col("key") + pl.lit(bytes(4 * words))).bin.slice(0, 4 * words)
    as_words = filled.bin.reinterpret(dtype=pl.Array(pl.UInt32, words), endianness="little")
    size = pl.col("key").bin.size()
    frame = keys.alias("key").to_frame()
    frame = frame.select(as_words.alias("word"), size.alias("size"), _start(size).alias("hash"))
    for at in range(longest // 4):
        frame = frame.with_columns(mixed=_times(pl.col("word").arr.get(at)))
        frame = frame.with_columns(_with_word(at))
    for step in _finished():
        frame = frame.with_columns(step)
    return frame["hash"]


def _start(size: pl.Expr) -> pl.Expr:
    import polars as pl

    return size.cast(pl.UInt32) ^ pl.lit(SEED, pl.UInt32)


def _with_word(at: int) -> pl.Expr:
    """Mix a word into the hashes of the keys that contain it whole."""
    import polars as pl

    before, word = pl.col("hash"), pl.col("mixed")
    mixed = _times(before) ^ _times(word ^ _shifted(word, 24))
    return pl.when(pl.col("size") >= 4 * at + 4).then(mixed).otherwise(before).alias("hash")


def _finished() -> list[pl.Expr]:
    """Return the final steps, separate because Polars computes repeated subexpressions twice."""
    import polars as pl

    value, size = pl.col("hash"), pl.col("size")
    rest = _times(value ^ pl.col("word").arr.get(size // 4, null_on_oob=True))
    return [
        pl.when(size % 4 > 0).then(rest).otherwise(value).alias("hash"),
        _times(value ^ _shifted(value, 13)),
        (value ^ _shifted(value, 15)) & pl.lit(0x7FFFFFFF, pl.UInt32),
    ]


def _times(value: pl.Expr) -> pl.Expr:
    import polars as pl

    return value * pl.lit(MULTIPLIER, pl.UInt32)


def _shifted(value: pl.Expr, bits: int) -> pl.Expr:
    import polars as pl

    return value // pl.lit(1 << bits, pl.UInt32)


@lru_cache(REMEMBERED)
def _of_one(key: bytes) -> int:
    """Return the positive hash of a key."""
    end = len(key) // 4 * 4
    value = SEED ^ len(key)
    for word in _words(key[:end]):
        word = word * MULTIPLIER & WORD
        value = (value * MULTIPLIER & WORD) ^ ((word ^ word >> 24) * MULTIPLIER & WORD)
    if end < len(key):
        value = (value ^ int.from_bytes(key[end:], "little")) * MULTIPLIER & WORD
    value = (value ^ value >> 13) * MULTIPLIER & WORD
    return (value ^ value >> 15) & 0x7FFFFFFF


def _words(data: bytes) -> Sequence[int]:
    import struct

    return struct.unpack(f"<{len(data) // 4}I", data)
