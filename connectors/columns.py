"""What of a batch goes out: the columns of the stream, without those that are headrace's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.contracts import ConnectorError
from headrace.core.elements import DELETE

if TYPE_CHECKING:
    import polars as pl


def visible(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The columns that users know. A row that takes another back cannot be written yet."""
    if DELETE in frame.columns and frame[DELETE].any():
        raise ConnectorError("a row was deleted, and that cannot be written here yet")
    return frame.select(columns)
