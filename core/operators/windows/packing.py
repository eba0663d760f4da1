"""Key and pane as one number: Polars groups by one column of integers at half the cost of by two.

It is done for many rows whose key is one column of whole numbers without nulls, where the number
has room for all pairs: the pane's distance from the first one times the span of the keys, and on
top of it the key's distance from the least one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.state import SLOT

if TYPE_CHECKING:
    import polars as pl

Step: TypeAlias = "Callable[[pl.DataFrame, Sequence[str]], pl.DataFrame]"
"""Groups rows by those columns."""

PACKED = "__packed"
MANY_ROWS = 32_768
"""Fewer rows are not worth packing."""
ROOM = 1 << 62


def grouped(frame: pl.DataFrame, by: Sequence[str], step: Step) -> pl.DataFrame:
    """What a step makes of the rows of each key and pane, `by` being SLOT behind the key."""
    import polars as pl

    if frame.height < MANY_ROWS or len(by) != 2 or not frame.schema[by[0]].is_integer():
        return step(frame, by)
    key, type = pl.col(by[0]).cast(pl.Int64), frame.schema[by[0]]
    low, high, first, last, nulls = frame.select(
        key.min().alias("low"),
        key.max().alias("high"),
        pl.col(SLOT).min(),
        pl.col(SLOT).max().alias("last"),
        key.null_count().alias("nulls"),
    ).row(0)
    if nulls or (high - low + 1) * (last - first + 1) >= ROOM:
        return step(frame, by)
    span = high - low + 1
    number = (key - low) if first == last else (pl.col(SLOT) - first) * span + (key - low)
    states = step(frame.with_columns(number.alias(PACKED)), (PACKED,))
    packed = pl.col(PACKED)
    if first == last:
        restored = (packed + low, pl.lit(first, dtype=pl.Int64))
    else:
        restored = (packed % span + low, packed // span + first)
    columns = states.columns[1:]
    return states.select(restored[0].cast(type).alias(by[0]), restored[1].alias(SLOT), *columns)
