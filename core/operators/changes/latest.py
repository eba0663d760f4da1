"""The compaction of a batch of changelog rows to the last one of each row, with its group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, EVENT_TIME
from headrace.core.frames import added
from headrace.core.keygroups import encoded
from headrace.core.operators.grouping import Grouping
from headrace.core.state import KEY
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

ID = "__id"
"""The key of a changelog row, encoded as one string, which identifies the row."""
GONE = "__gone"
"""Whether a changelog row is a delete."""
LAST = "__last"
"""The greatest event time of the changelog rows of a group."""


class Latest:
    """The compaction of changelog batches, whose rows have these columns as their key."""

    def __init__(self, grouping: Grouping, id: Sequence[str]) -> None:
        self._grouping = grouping
        self._id = list(id)

    def changes(self, frame: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
        """Return one row per changed row, with its group.

        The columns are KEY, the key of the group, these columns, EVENT_TIME, ROW_ID and IS_DELETE.
        """
        import polars as pl

        gone = pl.col(DELETE) if DELETE in frame.columns else pl.lit(False)
        rows = added(frame, gone.alias(GONE), pl.lit("").alias(ID))
        if self._id:
            rows = rows.with_columns(encoded(frame[self._id]).alias(ID))
        rows = self._grouping.rows(rows, (*columns, ID, GONE))
        return self._grouping.encoded(rows.unique(ID, keep="last", maintain_order=True))

    def touched(self, changes: pl.DataFrame) -> pl.DataFrame:
        """Return the groups of these rows: KEY, the columns of the key, NEWEST_TIME."""
        import polars as pl

        timed = EVENT_TIME in changes.columns
        last = pl.col(EVENT_TIME).max() if timed else pl.lit(None, dtype=to_polars(TIMESTAMP))
        key = (pl.col(name).first() for name in self._grouping.inside)
        return changes.group_by(KEY, maintain_order=True).agg(*key, last.alias(LAST))
