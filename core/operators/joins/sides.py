"""One side of a join: what is kept of its rows, so that they can lie beside those of the other.

The key has the same columns on both sides, computed and made fit to be compared: zero has no sign,
and any NaN is the same. A row with a null in its key equals nothing. The columns are those behind
the join, which no two of both sides share; nor do they share what is hidden.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.expressions.typed import to_expr
from headrace.core.frames import projected
from headrace.core.operators.grouping import Grouping
from headrace.core.plan import nodes
from headrace.core.types import BIGINT, to_polars

if TYPE_CHECKING:
    import polars as pl

LEFT, RIGHT = 0, 1
TIMES = ("__left_time", "__right_time")
"""The event time of a row of each side (microseconds); null where rows have none."""
NUMBERS = ("__left_at", "__right_at")
"""The number of a row of each side in the order of all rows; only where rows must carry that."""


class Sided:
    """What is kept of the rows of one side: its key, its columns, what is hidden."""

    def __init__(self, operation: nodes.Join, which: int, *, ordered: bool) -> None:
        side = operation.right if which == RIGHT else operation.left
        self.grouping = Grouping(side.key)
        self.key = self.grouping.inside
        """What the columns of the key are called here, on both sides."""
        self.columns = tuple(each.name for each in side.columns)
        self.time = TIMES[which]
        self.number = NUMBERS[which] if ordered else None
        hidden = (self.time,) if self.number is None else (self.time, self.number)
        self.types: dict[str, pl.DataType] = {
            **self.grouping.types,
            **{each.name: to_polars(each.value.type) for each in side.columns},
            **dict.fromkeys(hidden, to_polars(BIGINT)),
        }
        """All that is kept."""
        self._exprs = [to_expr(each.value).alias(each.name) for each in side.columns]

    def rows(self, frame: pl.DataFrame, *more: pl.Expr) -> pl.DataFrame:
        """What is kept of these rows, in their order, and what is more."""
        import polars as pl

        if EVENT_TIME in frame.columns:
            time = pl.col(EVENT_TIME).cast(pl.Int64)
        else:
            time = pl.repeat(None, pl.len(), dtype=pl.Int64)
        hidden = [time.alias(self.time)]
        if self.number is not None:
            hidden.append(pl.col(ORDER).struct.field("at").alias(self.number))
        return self.grouping.picked(frame, (), *self._exprs, *hidden, *more)

    def encoded(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with KEY: their key as one text, never null."""
        return self.grouping.encoded(rows)

    def lacks_key(self, rows: pl.DataFrame) -> pl.Series | None:
        """Which of the rows equal nothing, because their key has a null; None: none of them."""
        import polars as pl

        if not any(rows[name].null_count() for name in self.key):
            return None
        null = pl.any_horizontal(pl.col(name).is_null() for name in self.key)
        return projected(rows, null.alias("null"))["null"]
