"""What is done with rows wherever they are: joined, copied without what they share, computed.

Polars shares memory freely. A frame of ten rows that were left of a million holds the texts of the
million, and says that it is small. And it deals columns out to threads: to wake those takes longer
than to compute the columns of a few rows, and many times as long on a busy machine.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

FEW_ROWS = 2000
"""Below this, dealing columns out to threads takes longer than computing them one by one."""


def joined(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of all of them, of which there is one at least; none of them is changed."""
    if len(frames) == 1:
        return frames[0]
    # `pl.concat` deals columns out to threads; to wake those takes longer than to copy the rows.
    whole = frames[0].clone()
    for frame in frames[1:]:
        whole.extend(frame)
    return whole.rechunk() if max(whole.n_chunks("all"), default=1) > 1 else whole


def compacted(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows, in memory that holds nothing else."""
    import polars as pl

    if not any(_shares(type) for type in frame.dtypes):
        return frame
    copy = io.BytesIO()
    # In Arrow's older layout there are no views, which would take along what they look at.
    frame.write_ipc_stream(copy, compat_level=pl.CompatLevel.oldest())
    copy.seek(0)
    return pl.read_ipc_stream(copy)


def projected(frame: pl.DataFrame, *columns: str | pl.Expr) -> pl.DataFrame:
    """These columns."""
    return (frame.select_seq if frame.height < FEW_ROWS else frame.select)(*columns)


def added(frame: pl.DataFrame, *columns: pl.Expr) -> pl.DataFrame:
    """The frame with these columns, new ones or in the place of others."""
    return (frame.with_columns_seq if frame.height < FEW_ROWS else frame.with_columns)(*columns)


def of_columns(frame: pl.DataFrame, names: Iterable[str], *more: pl.Series) -> pl.DataFrame:
    """The columns of these names, and more. In brackets, a list without names means no rows."""
    import polars as pl

    return pl.DataFrame([*(frame[name] for name in names), *more])


def picked(frame: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """The rows of these numbers; null: one of nulls."""
    import polars as pl

    if len(rows) >= FEW_ROWS and frame.width:
        return frame[rows]
    return pl.DataFrame([column[rows] for column in frame.get_columns()])


def filtered(frame: pl.DataFrame, which: pl.Series) -> pl.DataFrame:
    """These rows; to begin with it is soon done, where `filter` of a frame makes a query."""
    import polars as pl

    return pl.DataFrame([column.filter(which) for column in frame.get_columns()])


def sorted_by(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """The frame in the order of a column without nulls, often as it is."""
    values = frame[column]
    if values.is_sorted():
        return frame
    return frame[values.arg_sort()] if frame.height < FEW_ROWS else frame.sort(column)


def microseconds(moments: pl.Series) -> pl.Series:
    """Moments as whole numbers. (`to_physical` says the same, and makes a query of it.)"""
    import polars as pl

    return moments.cast(pl.Int64)


def up_to(values: pl.Series, value: int) -> int:
    """How many of these sorted numbers are at most so great."""
    return bisect_right(values, value)  # `search_sorted` takes twenty times as long to begin


def together(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of all of them, of which there is one at least; they share their memory."""
    import polars as pl

    if len(frames) == 1:
        return frames[0]
    if len(frames) == 2:
        return frames[0].vstack(frames[1])
    return pl.concat(frames)


def _shares(type: pl.DataType) -> bool:
    """Whether values of the type may lie in memory that other rows share."""
    import polars as pl

    return type.is_nested() or type in (pl.String, pl.Binary)
