"""Basic operations on frames, chosen for low memory and for the speed of small frames.

Polars shares memory freely: a frame of ten rows filtered from a million retains the texts of the
million, and reports a small size. Polars also distributes columns over threads; waking them takes
longer than computing the columns of a few rows, and many times as long on a busy machine.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import xor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

UNREAD = "__unread"
"""The column of rows of which no other is needed: a frame without columns has no rows."""

FEW_ROWS = 2000
"""Below this number of rows, using threads takes longer than computing columns one by one."""

COPY_FRACTION = 4
"""Rows that are fewer than this fraction of a frame are copied, to release the others' memory."""

PIECE_COPY_FRACTION = 16
"""The same for the pieces of a frame, which are sent one after the other: all are released soon."""


MAX_REBUILT_ROWS = 16
"""Up to this number of rows, copying texts as Python values is faster than as an Arrow stream."""


def concat_contiguous(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Concatenate one or more frames into contiguous memory; the frames are not modified.

    Those of the inputs of a union may differ in columns that no reader needs, which are dropped.
    """
    if len(frames) == 1:
        return frames[0]
    columns = frames[0].columns
    if any(frame.columns != columns for frame in frames[1:]):
        frames = select_common_columns(frames)
    # `pl.concat` distributes columns over threads; waking them takes longer than copying rows.
    whole = frames[0].clone()
    for frame in frames[1:]:
        whole.extend(frame)
    return rechunk(whole) if max(whole.n_chunks("all"), default=1) > 1 else whole


def select_common_columns(frames: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """Select the columns that all frames have, in one order; rows stay where there are none."""
    import polars as pl

    common = set(frames[0].columns).intersection(*(frame.columns for frame in frames))
    names = [name for name in frames[0].columns if name in common]
    if names:
        return [select_columns(frame, *names) for frame in frames]
    return [pl.DataFrame({UNREAD: pl.repeat(None, each.height, eager=True)}) for each in frames]


def rechunk(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with contiguous columns, without threads if the rows are few."""
    import polars as pl

    if frame.height >= FEW_ROWS or not frame.width:
        return frame.rechunk()
    return pl.DataFrame([column.rechunk() for column in frame.get_columns()])


def split_frame(
    frame: pl.DataFrame, max_rows: int, max_bytes: int, *, compact: bool = True
) -> Iterator[pl.DataFrame]:
    """Yield the rows in frames within both bounds; a single row may take more bytes.

    Frames that are a small fraction of the whole do not retain its memory, if `compact`.
    """
    size = frame.estimated_size()
    if frame.height <= max_rows and (size <= max_bytes or frame.height <= 1):
        yield frame
        return
    # Rows of about the same size need one cut; frames of unusually large rows are cut again.
    rows = min(max_rows, max(1, int(frame.height * max_bytes / max(size, 1))))
    rows = rows if rows < frame.height else -(-frame.height // 2)
    small = compact and rows * PIECE_COPY_FRACTION < frame.height
    for piece in frame.iter_slices(rows):
        part = copy_compact(piece) if small else piece
        yield from split_frame(part, max_rows, max_bytes, compact=compact)


def copy_compact(frame: pl.DataFrame) -> pl.DataFrame:
    """Copy the rows into memory that holds nothing else."""
    import polars as pl

    if not any(_may_share_memory(type) for type in frame.dtypes):
        return frame
    if frame.height <= MAX_REBUILT_ROWS and not any(type.is_nested() for type in frame.dtypes):
        return pl.DataFrame([_rebuild(column) for column in frame.get_columns()])
    copy = io.BytesIO()
    write_arrow(frame, copy)
    copy.seek(0)
    return pl.read_ipc_stream(copy)


def _rebuild(column: pl.Series) -> pl.Series:
    """Copy texts by their Python values."""
    import polars as pl

    if not _may_share_memory(column.dtype):
        return column
    return pl.Series(column.name, column.to_list(), dtype=column.dtype)


def write_arrow(frame: pl.DataFrame, file: io.BytesIO, *, has_views: bool = False) -> None:
    """Write a frame to a file at its position, as an Arrow stream.

    String views would retain the buffers they point to, also in what is read from the stream.
    """
    import polars as pl

    level = pl.CompatLevel.newest() if has_views else pl.CompatLevel.oldest()
    # Polars locks the frame, and then takes the interpreter's lock to write. A thread that has the
    # latter and reads the same frame would wait for ever: each gets a lock of its own.
    frame.clone().write_ipc_stream(file, compat_level=level)


def select_columns(frame: pl.DataFrame, *columns: str | pl.Expr) -> pl.DataFrame:
    """Select columns, without threads if the rows are few."""
    return (frame.select_seq if frame.height < FEW_ROWS else frame.select)(*columns)


def add_columns(frame: pl.DataFrame, *columns: pl.Expr) -> pl.DataFrame:
    """Add or replace columns, without threads if the rows are few."""
    return (frame.with_columns_seq if frame.height < FEW_ROWS else frame.with_columns)(*columns)


def pick_columns(frame: pl.DataFrame, names: Iterable[str], *more: pl.Series) -> pl.DataFrame:
    """Return a frame of the columns of these names, and more.

    `frame[[]]` would select no rows instead of no columns.
    """
    import polars as pl

    return pl.DataFrame([*(frame[name] for name in names), *more])


def gather_rows(frame: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """Return the rows at these indices; a null index yields a row of nulls."""
    import polars as pl

    if len(rows) >= FEW_ROWS and frame.width:
        return frame[rows]
    return pl.DataFrame([column[rows] for column in frame.get_columns()])


def filter_rows(frame: pl.DataFrame, which: pl.Series) -> pl.DataFrame:
    """Return the rows where the mask is true; `DataFrame.filter` would first build a query."""
    import polars as pl

    return pl.DataFrame([column.filter(which) for column in frame.get_columns()])


def pick_rows(frame: pl.DataFrame, rows: Sequence[int]) -> pl.DataFrame:
    """Return the rows at these indices."""
    import polars as pl

    return gather_rows(frame, pl.Series(rows, dtype=pl.UInt32))


def hash_expr(names: Sequence[str]) -> pl.Expr:
    """Return the expression of a hash of these columns, equal for equal rows in this process."""
    return reduce(xor, _build_hashes(names)).hash(2).alias("hash")


def hash_rows(frame: pl.DataFrame, names: Sequence[str]) -> pl.Series:
    """Return the hash of each row by these columns."""
    if frame.height >= FEW_ROWS:
        return frame.select(hash_expr(names))["hash"]
    # Polars evaluates the operands of an expression in two threads.
    return reduce(xor, frame.select_seq(_build_hashes(names)).get_columns()).hash(2)


def _build_hashes(names: Sequence[str]) -> list[pl.Expr]:
    import polars as pl

    return [pl.col(name).hash(at) for at, name in enumerate(names)]


def list_keys(frame: pl.DataFrame, names: Sequence[str]) -> list[Any] | None:
    """Return a value of each row that is equal for equal values of these columns.

    None: Python compares values of one of the types in another way, or slowly.
    """
    columns = []
    for name in names:
        column = frame[name]
        if column.dtype.is_temporal():
            column = to_integers(column)
        elif not _compares_as_python(column.dtype):
            return None
        columns.append(column.to_list())
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _compares_as_python(type: pl.DataType) -> bool:
    """Whether values are equal if and only if their Python values are."""
    import polars as pl

    return type.is_integer() or type in (pl.String, pl.Boolean, pl.Binary)


def sort_by_column(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """Sort the frame by a column without nulls; a sorted frame is returned as it is."""
    values = frame[column]
    if values.is_sorted():
        return frame
    few = frame.height < FEW_ROWS
    return gather_rows(frame, values.arg_sort()) if few else frame.sort(column)


def to_integers(moments: pl.Series) -> pl.Series:
    """Return timestamps as integers. (`to_physical` does the same, but builds a query.)"""
    import polars as pl

    return moments.cast(pl.Int64)


def count_up_to(values: pl.Series, value: int) -> int:
    """Count the numbers up to and including `value` in a sorted series."""
    return bisect_right(values, value)  # `search_sorted` has twenty times the fixed cost


def concat_chunks(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Concatenate one or more frames without copying; the result shares their memory."""
    import polars as pl

    if len(frames) == 1:
        return frames[0]
    if len(frames) == 2:
        return frames[0].vstack(frames[1])
    return pl.concat(frames)


def _may_share_memory(type: pl.DataType) -> bool:
    """Whether values of the type may lie in memory shared with other rows."""
    import polars as pl

    return type.is_nested() or type in (pl.String, pl.Binary)


def align_lengths(columns: Sequence[pl.Series]) -> list[pl.Series]:
    """Extend the columns to one length: a constant comes as a single value."""
    lengths = {len(column) for column in columns if len(column) != 1}
    height = lengths.pop() if lengths else 1
    return [c if len(c) == height else c.new_from_index(0, height) for c in columns]
