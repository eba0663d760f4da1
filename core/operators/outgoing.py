"""The way out of a keyed operator: results become rows with their hidden columns, in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, EVENT_TIME
from headrace.core.expressions.typed import to_expr
from headrace.core.keygroups import encoded, groups_of
from headrace.core.operators.operator import MOST_ROWS, Output
from headrace.core.ordinals import placed
from headrace.core.plan import nodes

if TYPE_CHECKING:
    import polars as pl

WINDOW_START = "window_start"
WINDOW_END = "window_end"


class Outgoing:
    """Puts out the rows of an `aggregate`.

    What comes in has the columns of the key, those of the window where it has a start and an end,
    the aggregates, and EVENT_TIME where rows have one. `changes`: the rows are upserts, and may
    come with DELETE; a row that does not pass `having` then goes out as a delete.
    """

    def __init__(self, operation: nodes.Aggregate, stream: str, *, ordered: bool) -> None:
        window = operation.window
        bounds = (WINDOW_START, WINDOW_END) if window and window.bounded else ()
        self._key = tuple(each.name for each in operation.key)
        self._columns = (*self._key, *bounds, *(column.name for column in operation.columns))
        self._stream = stream
        self._changes = window is None or window.fires_again
        self._having = to_expr(operation.having.condition) if operation.having else None
        self._ordered = ordered

    def rows(self, frame: pl.DataFrame) -> Iterator[Output]:
        """These rows, in bounded pieces."""
        frame = self._passing(frame)
        if not frame.height:
            return
        hidden = [name for name in (EVENT_TIME, DELETE) if name in frame.columns]
        frame = frame.select(*self._columns, *hidden)
        if self._ordered:
            frame = placed(frame, self._number(frame))
        for start in range(0, frame.height, MOST_ROWS):
            yield self._stream, frame.slice(start, MOST_ROWS)

    def _passing(self, frame: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        if not self._changes:
            return frame if self._having is None else frame.filter(self._having)
        deleted = pl.col(DELETE) if DELETE in frame.columns else pl.lit(False)
        if self._having is not None:
            deleted = deleted | ~self._having.fill_null(False)
        return frame.with_columns(deleted.alias(DELETE))

    def _number(self, frame: pl.DataFrame) -> pl.Series:
        """What tells rows of one time apart: a number made of the key."""
        import polars as pl

        if not self._key:
            return pl.Series("at", range(frame.height), dtype=pl.Int64)
        return groups_of(encoded(frame.select(self._key)), 1 << 31)
