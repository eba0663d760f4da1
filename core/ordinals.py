"""The place of a row in the order of all rows: event time, then source, split and place in it.

`first`, `last`, `collect_list`, `min_by`, the ties of `top` and evictors go by it, so that their
results do not depend on how rows are cut into batches or dealt to subtasks. It travels as one
hidden column, and only to steps that need it. Rows that a step makes of others (the rows of
windows) are placed by their time and key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.types import BIGINT, Field, Struct, Type

if TYPE_CHECKING:
    import polars as pl

ORDER_TYPE: Type = Struct((Field("time", BIGINT), Field("at", BIGINT), Field("part", BIGINT)))
"""Microseconds since the epoch (0 where rows have no time), the number of a row, and which part of
it this is: rows that were made of one row have its number, and are told apart by their part."""

PART_BITS = 21
"""Parts may be parted again: arrays in arrays are told apart up to so many bits a level."""


SOURCE_BITS, SPLIT_BITS, ROW_BITS = 7, 20, 36


def numbers(source: int, split: int, first: int, count: int) -> pl.Series:
    """The numbers of rows that follow each other in a split: by source, by split, by row."""
    import polars as pl

    source, split = min(source, (1 << SOURCE_BITS) - 1), min(split, (1 << SPLIT_BITS) - 1)
    start = (((source << SPLIT_BITS) + split) << ROW_BITS) + first
    return pl.int_range(start, start + count, dtype=pl.Int64, eager=True)


def placed(frame: pl.DataFrame, at: pl.Expr | pl.Series) -> pl.DataFrame:
    """The rows with their place: by their event time where they have one, then by `at`."""
    import polars as pl

    if isinstance(at, pl.Expr):
        at = frame.with_columns(at.alias(ORDER))[ORDER]
    none = pl.Series("part", [0], dtype=pl.Int64).new_from_index(0, frame.height)
    time = frame[EVENT_TIME].cast(pl.Int64) if EVENT_TIME in frame.columns else none
    place = pl.DataFrame([time.alias("time"), at.cast(pl.Int64).alias("at"), none])
    return frame.with_columns(place.to_struct(ORDER))


def parted(frame: pl.DataFrame, number: pl.Expr | pl.Series) -> pl.DataFrame:
    """Rows made of others, whose places they have, told apart by a number within those of one."""
    import polars as pl

    index = number if isinstance(number, pl.Expr) else pl.lit(number)
    part = pl.col(ORDER).struct.field("part") * (1 << PART_BITS) + index.cast(pl.Int64)
    return _with(frame, part=part)


def retimed(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows whose event time is another now, placed by it."""
    import polars as pl

    return _with(frame, time=pl.col(EVENT_TIME).cast(pl.Int64))


def _with(frame: pl.DataFrame, **fields: pl.Expr) -> pl.DataFrame:
    import polars as pl

    kept = {name: pl.col(ORDER).struct.field(name) for name in ("time", "at", "part")}
    place = pl.struct(expr.alias(name) for name, expr in {**kept, **fields}.items())
    return frame.with_columns(place.alias(ORDER))
