"""What is done with rows wherever they wait: batches joined, and copies that hold nothing else.

Polars shares memory freely. A frame of ten rows that were left of a million holds the texts of the
million, and says that it is small.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


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


def _shares(type: pl.DataType) -> bool:
    """Whether values of the type may lie in memory that other rows share."""
    import polars as pl

    return type.is_nested() or type in (pl.String, pl.Binary)
