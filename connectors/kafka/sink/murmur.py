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
FEW_KEYS = 300
"""Up to this number of keys, hashing one by one is faster."""
LONG_KEY_BYTES = 256
"""Keys longer than this number of bytes are hashed one by one."""
CACHE_SIZE = 1 << 16
WORD_MASK = 0xFFFFFFFF


def assign_partitions(keys: pl.Series, count: int) -> list[int | None]:
    """Return the partition of each key (Binary) among `count`; None for a null key."""
    if len(keys) <= FEW_KEYS:
        return [None if key is None else _hash_key(key) % count for key in keys]
    hashes = _hash_keys(keys)
    return (hashes % count).to_list()


def _hash_keys(keys: pl.Series) -> pl.Series:
    """Return the positive hash of each key, padded with zeros to words of four bytes."""
    import polars as pl

    longest = keys.bin.size().max()
    if not isinstance(longest, int) or longest > LONG_KEY_BYTES:
        return pl.Series([None if key is None else _hash_key(key) for key in keys], dtype=pl.UInt32)
    words = longest // 4 + 1
    filled = (pl.col("key") + pl.lit(bytes(4 * words))).bin.slice(0, 4 * words)
    as_words = filled.bin.reinterpret(dtype=pl.Array(pl.UInt32, words), endianness="little")
    size = pl.col("key").bin.size()
    frame = keys.alias("key").to_frame()
    frame = frame.select(
        as_words.alias("word"), size.alias("size"), _start_hash(size).alias("hash")
    )
    for at in range(longest // 4):
        frame = frame.with_columns(mixed=_multiply(pl.col("word").arr.get(at)))
        frame = frame.with_columns(_mix_word(at))
    for step in _build_final_steps():
        frame = frame.with_columns(step)
    return frame["hash"]


def _start_hash(size: pl.Expr) -> pl.Expr:
    import polars as pl

    return size.cast(pl.UInt32) ^ pl.lit(SEED, pl.UInt32)


def _mix_word(at: int) -> pl.Expr:
    """Mix a word into the hashes of the keys that contain it whole."""
    import polars as pl

    before, word = pl.col("hash"), pl.col("mixed")
    mixed = _multiply(before) ^ _multiply(word ^ _shift_right(word, 24))
    return pl.when(pl.col("size") >= 4 * at + 4).then(mixed).otherwise(before).alias("hash")


def _build_final_steps() -> list[pl.Expr]:
    """Return the final steps, separate because Polars computes repeated subexpressions twice."""
    import polars as pl

    value, size = pl.col("hash"), pl.col("size")
    rest = _multiply(value ^ pl.col("word").arr.get(size // 4, null_on_oob=True))
    return [
        pl.when(size % 4 > 0).then(rest).otherwise(value).alias("hash"),
        _multiply(value ^ _shift_right(value, 13)),
        (value ^ _shift_right(value, 15)) & pl.lit(0x7FFFFFFF, pl.UInt32),
    ]


def _multiply(value: pl.Expr) -> pl.Expr:
    import polars as pl

    return value * pl.lit(MULTIPLIER, pl.UInt32)


def _shift_right(value: pl.Expr, bits: int) -> pl.Expr:
    import polars as pl

    return value // pl.lit(1 << bits, pl.UInt32)


@lru_cache(CACHE_SIZE)
def _hash_key(key: bytes) -> int:
    """Return the positive hash of a key."""
    end = len(key) // 4 * 4
    value = SEED ^ len(key)
    for word in _unpack_words(key[:end]):
        word = word * MULTIPLIER & WORD_MASK
        value = (value * MULTIPLIER & WORD_MASK) ^ ((word ^ word >> 24) * MULTIPLIER & WORD_MASK)
    if end < len(key):
        value = (value ^ int.from_bytes(key[end:], "little")) * MULTIPLIER & WORD_MASK
    value = (value ^ value >> 13) * MULTIPLIER & WORD_MASK
    return (value ^ value >> 15) & 0x7FFFFFFF


def _unpack_words(data: bytes) -> Sequence[int]:
    import struct

    return struct.unpack(f"<{len(data) // 4}I", data)
