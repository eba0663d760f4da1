"""The compaction of a batch of changelog rows to the last one of each row, with its group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, EVENT_TIME
from headrace.core.frames import add_columns
from headrace.core.keygroups import encode_keys
from headrace.core.operators.grouping import GroupingKey
from headrace.core.state import KEY
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

ROW_ID = "__id"
"""The key of a changelog row, encoded as one string, which identifies the row."""
IS_DELETE = "__gone"
"""Whether a changelog row is a delete."""
NEWEST_TIME = "__last"
"""The greatest event time of the changelog rows of a group."""


class ChangeCompactor:
    """The compaction of changelog batches, whose rows have these columns as their key."""

    def __init__(self, grouping: GroupingKey, id: Sequence[str]) -> None:
        self._grouping = grouping
        self._id = list(id)

    def compact(self, frame: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
        """Return one row per changed row, with its group.

        The columns are KEY, the key of the group, these columns, EVENT_TIME, ROW_ID and IS_DELETE.
        """
        import polars as pl

        gone = pl.col(DELETE) if DELETE in frame.columns else pl.lit(False)
        rows = add_columns(frame, gone.alias(IS_DELETE), pl.lit("").alias(ROW_ID))
        if self._id:
            rows = rows.with_columns(encode_keys(frame[self._id]).alias(ROW_ID))
        rows = self._grouping.project_rows(rows, (*columns, ROW_ID, IS_DELETE))
        return self._grouping.encode_keys(rows.unique(ROW_ID, keep="last", maintain_order=True))

    def find_groups(self, changes: pl.DataFrame) -> pl.DataFrame:
        """Return the groups of these rows: KEY, the columns of the key, NEWEST_TIME."""
        import polars as pl

        timed = EVENT_TIME in changes.columns
        last = pl.col(EVENT_TIME).max() if timed else pl.lit(None, dtype=to_polars(TIMESTAMP))
        key = (pl.col(name).first() for name in self._grouping.internal_names)
        return changes.group_by(KEY, maintain_order=True).agg(*key, last.alias(NEWEST_TIME))
