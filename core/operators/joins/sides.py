"""One side of a join: the stored columns of its rows, which can be combined with the other side's.

The key has the same columns on both sides, computed and normalised for comparison: zero has no
sign, and all NaNs are equal. A row with a null in its key equals nothing. The columns are the
output columns of the join; they and the hidden columns of both sides are distinct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.expressions.typed import to_expr
from headrace.core.frames import select_columns
from headrace.core.operators.grouping import GroupingKey
from headrace.core.plan import nodes
from headrace.core.types import BIGINT, to_polars

if TYPE_CHECKING:
    import polars as pl

LEFT, RIGHT = 0, 1
TIME_COLUMNS = ("__left_time", "__right_time")
"""The event time of a row of each side (microseconds); null where rows have none."""
NUMBER_COLUMNS = ("__left_at", "__right_at")
"""The number of a row of each side in the row order, where rows must carry it."""


class JoinSideColumns:
    """The stored columns of one side: its key, its columns, its hidden columns."""

    def __init__(self, operation: nodes.Join, which: int, *, ordered: bool) -> None:
        side = operation.right if which == RIGHT else operation.left
        self.grouping = GroupingKey(side.key)
        self.key = self.grouping.internal_names
        """The internal names of the key's columns, on both sides."""
        self.columns = tuple(each.name for each in side.columns)
        self.time = TIME_COLUMNS[which]
        self.number = NUMBER_COLUMNS[which] if ordered else None
        hidden = (self.time,) if self.number is None else (self.time, self.number)
        self.types: dict[str, pl.DataType] = {
            **self.grouping.types,
            **{each.name: to_polars(each.value.type) for each in side.columns},
            **dict.fromkeys(hidden, to_polars(BIGINT)),
        }
        """The types of all stored columns."""
        self._exprs = [to_expr(each.value).alias(each.name) for each in side.columns]

    def project_input(self, frame: pl.DataFrame, *more: pl.Expr) -> pl.DataFrame:
        """Project input rows to the stored columns and the given expressions, in order."""
        import polars as pl

        if EVENT_TIME in frame.columns:
            time = pl.col(EVENT_TIME).cast(pl.Int64)
        else:
            time = pl.repeat(None, pl.len(), dtype=pl.Int64)
        hidden = [time.alias(self.time)]
        if self.number is not None:
            hidden.append(pl.col(ORDER).struct.field("at").alias(self.number))
        return self.grouping.project_columns(frame, (), *self._exprs, *hidden, *more)

    def encode_keys(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with KEY, their encoded key, which is never null."""
        return self.grouping.encode_keys(rows)

    def find_null_keys(self, rows: pl.DataFrame) -> pl.Series | None:
        """Return which rows have a null in their key and so match nothing; None if none has."""
        import polars as pl

        if not any(rows[name].null_count() for name in self.key):
            return None
        null = pl.any_horizontal(pl.col(name).is_null() for name in self.key)
        return select_columns(rows, null.alias("null"))["null"]
