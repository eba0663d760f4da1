"""Key and pane packed into one number: Polars groups by one integer column at half the cost of two.

It is used for many rows whose key is one integer column without nulls, if all pairs fit into the
number: the pane's distance from the first one times the span of the keys, plus the key's distance
from the smallest key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.state import SLOT

if TYPE_CHECKING:
    import polars as pl

FrameGrouping: TypeAlias = "Callable[[pl.DataFrame, Sequence[str]], pl.DataFrame]"
"""A function that groups rows by columns."""

PACKED_KEY = "__packed"
MIN_PACKED_ROWS = 32_768
"""The number of rows from which packing pays."""
MAX_PACKED = 1 << 62


def group_packed(frame: pl.DataFrame, by: Sequence[str], step: FrameGrouping) -> pl.DataFrame:
    """Apply a function to the rows grouped by key and pane; `by` is the key followed by SLOT."""
    import polars as pl

    if frame.height < MIN_PACKED_ROWS or len(by) != 2 or not frame.schema[by[0]].is_integer():
        return step(frame, by)
    key, type = pl.col(by[0]).cast(pl.Int64), frame.schema[by[0]]
    low, high, first, last, nulls = frame.select(
        key.min().alias("low"),
        key.max().alias("high"),
        pl.col(SLOT).min(),
        pl.col(SLOT).max().alias("last"),
        key.null_count().alias("nulls"),
    ).row(0)
    if nulls or (high - low + 1) * (last - first + 1) >= MAX_PACKED:
        return step(frame, by)
    span = high - low + 1
    number = (key - low) if first == last else (pl.col(SLOT) - first) * span + (key - low)
    states = step(frame.with_columns(number.alias(PACKED_KEY)), (PACKED_KEY,))
    packed = pl.col(PACKED_KEY)
    if first == last:
        restored = (packed + low, pl.lit(first, dtype=pl.Int64))
    else:
        restored = (packed % span + low, packed // span + first)
    columns = states.columns[1:]
    return states.select(restored[0].cast(type).alias(by[0]), restored[1].alias(SLOT), *columns)
