"""The mapping of keys to key groups and of key groups to subtasks.

The mapping must never change, because savepoints outlive versions. A key's columns are encoded as
one string, which is hashed with xxh3. Each column is encoded as its length, a colon and its text,
or as a dash for null, so that distinct keys have distinct encodings; -0.0 is encoded as 0.0, and
all NaNs alike. The key group is `hash % key_groups`, and subtask i of p owns the key groups g with
`g * p // key_groups == i`, a range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from headrace.core.types.frames import FEW_ROWS, select_columns

if TYPE_CHECKING:
    import polars as pl

PRECOMPUTED_LENGTHS = 256
"""Lengths below this are taken from a table of texts."""

MAX_SCALAR_ROWS = 16
"""Up to this number of rows, owners are computed in Python."""

OWNER_COLUMN = "__owner"


def compute_owned_groups(subtask: int, parallelism: int, key_groups: int) -> range:
    """Return the key groups that a subtask owns.

    >>> [compute_owned_groups(i, 3, 8) for i in range(3)]
    [range(0, 3), range(3, 6), range(6, 8)]
    """
    first = (subtask * key_groups + parallelism - 1) // parallelism
    last = ((subtask + 1) * key_groups - 1) // parallelism
    return range(first, last + 1)


def encode_keys(keys: pl.DataFrame) -> pl.Series:
    """Encode all columns of each row, at least one, as one string."""
    whole, *others = (_encode_column(keys[name]) for name in keys.columns)
    for each in others:
        whole = whole + each
    return whole.alias("key")


def _encode_column(column: pl.Series) -> pl.Series:
    """Encode a column as `_encode_expr` does, in half the time, with precomputed length texts."""
    import polars as pl

    if column.dtype.is_integer() or column.dtype == pl.String:
        text = column.cast(pl.String)
    else:
        text = select_columns(
            column.to_frame("key"), _text_expr(column.dtype, pl.col("key"))
        ).to_series()
    lengths = text.str.len_bytes()
    if int(lengths.max() or 0) >= PRECOMPUTED_LENGTHS:  # type: ignore[arg-type]
        return select_columns(
            column.to_frame("key"), _encode_expr(column.dtype, pl.col("key"))
        ).to_series()
    whole = _build_length_texts()[lengths] + text
    return whole.fill_null("-") if whole.null_count() else whole


@cache
def _build_length_texts() -> pl.Series:
    import polars as pl

    return pl.Series([f"{length}:" for length in range(PRECOMPUTED_LENGTHS)])


def hash_keys(keys: pl.Series) -> pl.Series:
    """Return the 64-bit hash of each encoded key."""
    import polars as pl

    return select_columns(keys.to_frame("key"), _hash_expr(pl.col("key")))["key"]


def compute_key_groups(keys: pl.Series, key_groups: int) -> pl.Series:
    """Return the key group of each encoded key."""
    import polars as pl

    group = _hash_expr(pl.col("key")) % key_groups
    return select_columns(keys.to_frame("key"), group.cast(pl.Int32))["key"]


@cache
def get_keyless_group(key_groups: int) -> int:
    """Return the key group of all rows in a step without key."""
    import polars as pl

    return int(compute_key_groups(pl.Series("key", [""]), key_groups)[0])


def compute_row_groups(frame: pl.DataFrame, key: Sequence[str], key_groups: int) -> pl.Series:
    """Return the key group of each row."""
    if not key:
        import polars as pl

        one = pl.Series("key", [get_keyless_group(key_groups)], dtype=pl.Int32)
        return one.new_from_index(0, frame.height)
    return compute_key_groups(encode_keys(frame[list(key)]), key_groups)


def _hash_expr(text: pl.Expr) -> pl.Expr:
    from polars_hash import NonCryptographicHashingNameSpace

    return NonCryptographicHashingNameSpace(text).xxh3_64()


def _encode_expr(type: pl.DataType, column: pl.Expr) -> pl.Expr:
    """Encode a column so that its text cannot run into the next column's."""
    import polars as pl

    text = _text_expr(type, column)
    return pl.concat_str(text.str.len_bytes(), text, separator=":").fill_null("-")


def _text_expr(type: pl.DataType, column: pl.Expr) -> pl.Expr:
    import polars as pl

    match type:
        case pl.Float32() | pl.Float64():
            normal = pl.when(column.is_nan()).then(float("nan")).otherwise(column)
            normal = pl.when(column == 0).then(0.0).otherwise(normal)
            return normal.cast(pl.Float64).cast(pl.String)
        case pl.Datetime() | pl.Date() | pl.Time() | pl.Duration() | pl.Boolean():
            return column.to_physical().cast(pl.Int64).cast(pl.String)
        case pl.Binary():
            return column.bin.encode("hex")
    return column.cast(pl.String)


def partition_by_owner(
    frame: pl.DataFrame, keys: pl.DataFrame, key_groups: int, parallelism: int
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Split rows by the subtask that owns their key; `keys` has the key columns of the rows."""
    if parallelism == 1:
        yield 0, frame
        return
    if not keys.width:
        yield int(get_keyless_group(key_groups)) * parallelism // key_groups, frame
        return
    owners = _find_owners(keys, key_groups, parallelism)
    if not owners.len():
        return
    if owners.min() == owners.max():
        yield owners[0], frame
    elif frame.height < FEW_ROWS:
        # `as_dict=True`, which returns the owners, takes longer than the partitioning itself.
        for part in frame.hstack([owners]).partition_by(OWNER_COLUMN, maintain_order=True):
            yield part.drop_in_place(OWNER_COLUMN)[0], part
    else:
        yield from _partition_many(frame, owners, parallelism)


def _find_owners(keys: pl.DataFrame, key_groups: int, parallelism: int) -> pl.Series:
    """Return the subtask that owns the key of each row."""
    import polars as pl

    hashes = hash_keys(encode_keys(keys))
    if keys.height <= MAX_SCALAR_ROWS:
        owners = [hash % key_groups * parallelism // key_groups for hash in hashes.to_list()]
        return pl.Series(OWNER_COLUMN, owners, dtype=pl.UInt64)
    # With Python numbers, each of these steps would cast the column.
    groups, subtasks = (
        pl.Series([number], dtype=pl.UInt64) for number in (key_groups, parallelism)
    )
    return (hashes % groups * subtasks // groups).alias(OWNER_COLUMN)


def _partition_many(
    frame: pl.DataFrame, owners: pl.Series, parallelism: int
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Split many rows, where the cost is that of the rows and not of the calls."""
    for subtask in range(parallelism):
        part = frame.filter(owners == subtask)
        if part.height:
            yield subtask, part
