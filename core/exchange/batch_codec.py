"""Batches as bytes: Arrow IPC streams, in pieces that are short kernels.

A piece of MAX_PIECE_ROWS takes 0.15 ms to encode and 0.2 ms to decode, nested columns 0.5 ms: the
event loop does it itself. Larger pieces cost more a row, as their memory is new each time. Only a
single row can be larger; it is converted in a thread.

The schema is in every piece. Without it, the bytes of a lone row would be half as many; its time,
20 us for both sides, would hardly change.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.types.frames import split_frame, write_arrow

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.dataflow.channel import ChannelBounds

MAX_PIECE_ROWS = 8192
MAX_PIECE_BYTES = 2**20
"""The largest piece, unless it is a single row."""

LONG_BYTES = 2 * MAX_PIECE_BYTES
"""The size from which a piece is converted in a thread."""


def cut_pieces(frame: pl.DataFrame, bounds: ChannelBounds) -> Iterator[pl.DataFrame]:
    """Yield the rows in frames that a channel with these bounds takes one by one."""
    rows, size = min(bounds.rows, MAX_PIECE_ROWS), min(bounds.bytes, MAX_PIECE_BYTES)
    return split_frame(frame, rows, size, compact=False)


def write_batch(frame: pl.DataFrame, file: io.BytesIO) -> None:
    """Write the rows to a file at its position."""
    # String views within lists would take along all texts of the frames that the rows came from:
    # Polars copies only what is used of columns of texts. Without views it takes twice the time.
    write_arrow(frame, file, has_views=not any(type.is_nested() for type in frame.dtypes))


def read_batch(data: bytes) -> pl.DataFrame:
    """Read the rows that `write_batch` has written."""
    import polars as pl

    return pl.read_ipc_stream(data)
