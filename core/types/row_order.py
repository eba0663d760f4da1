"""The position of a row in the order of all rows: event time, source, split, offset in the split.

`first`, `last`, `collect_list`, `min_by`, the ties of `top`, and evictors depend on it, so that
their results do not depend on how rows are cut into batches or distributed over subtasks. It is one
hidden column, which only steps that need it receive. Rows of a table with a sequence have that in
place of the event time. Rows derived from others (the rows of windows)
are ordered by their time and key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.types.data_types import (
    BIGINT,
    DATE,
    INTEGER_TYPES,
    TIMESTAMP_TYPES,
    Field,
    Struct,
    Type,
)
from headrace.core.types.elements import EVENT_TIME, ORDER

if TYPE_CHECKING:
    import polars as pl

ORDER_TYPE: Type = Struct((Field("time", BIGINT), Field("at", BIGINT), Field("part", BIGINT)))
"""Microseconds since the epoch (0 for rows without time) or the sequence of a table, the number of
a row, and a part number: rows made from the same row share its number, and are distinguished by
their part."""

SEQUENCE_TYPES = (*INTEGER_TYPES, DATE, *TIMESTAMP_TYPES)
"""The types of sequences that are integers, or are stored as integers in the same order."""

PART_BITS = 21
"""The bits of a part number per level: rows made from a part, as of nested arrays, are numbered
within it."""


SOURCE_BITS, SPLIT_BITS, ROW_BITS = 7, 20, 36


def number_rows(source: int, split: int, first: int, count: int) -> pl.Series:
    """Return the numbers of consecutive rows of a split: ordered by source, split and row."""
    import polars as pl

    source, split = min(source, (1 << SOURCE_BITS) - 1), min(split, (1 << SPLIT_BITS) - 1)
    start = (((source << SPLIT_BITS) + split) << ROW_BITS) + first
    return pl.int_range(start, start + count, dtype=pl.Int64, eager=True)


def add_row_order(frame: pl.DataFrame, at: pl.Expr | pl.Series) -> pl.DataFrame:
    """Add the order column: by event time if the rows have one, then by `at`."""
    import polars as pl

    if isinstance(at, pl.Expr):
        at = frame.with_columns(at.alias(ORDER))[ORDER]
    none = pl.Series("part", [0], dtype=pl.Int64).new_from_index(0, frame.height)
    time = frame[EVENT_TIME].cast(pl.Int64) if EVENT_TIME in frame.columns else none
    order = pl.DataFrame([time.alias("time"), at.cast(pl.Int64).alias("at"), none])
    return frame.with_columns(order.to_struct(ORDER))


def number_parts(frame: pl.DataFrame, number: pl.Expr | pl.Series) -> pl.DataFrame:
    """Distinguish rows made from the same row, which share its position, by `number`."""
    import polars as pl

    index = number if isinstance(number, pl.Expr) else pl.lit(number)
    part = pl.col(ORDER).struct.field("part") * (1 << PART_BITS) + index.cast(pl.Int64)
    return _replace_fields(frame, part=part)


def update_row_time(frame: pl.DataFrame) -> pl.DataFrame:
    """Update the order column after the event time of rows has changed."""
    import polars as pl

    return _replace_fields(frame, time=pl.col(EVENT_TIME).cast(pl.Int64))


def restore_row_time(frame: pl.DataFrame) -> pl.DataFrame:
    """Order rows of a table by their event time, if they have one: they become facts."""
    has_both = ORDER in frame.columns and EVENT_TIME in frame.columns
    return update_row_time(frame) if has_both else frame


def order_by_sequence(frame: pl.DataFrame, sequence: str) -> pl.DataFrame:
    """Replace the time in the order column by a column of one of SEQUENCE_TYPES."""
    import polars as pl

    return _replace_fields(frame, time=pl.col(sequence).to_physical().cast(pl.Int64))


def _replace_fields(frame: pl.DataFrame, **fields: pl.Expr) -> pl.DataFrame:
    import polars as pl

    current = {name: pl.col(ORDER).struct.field(name) for name in ("time", "at", "part")}
    order = pl.struct(expr.alias(name) for name, expr in {**current, **fields}.items())
    return frame.with_columns(order.alias(ORDER))
