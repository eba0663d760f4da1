"""The output rows of keyed operators: results with their hidden columns, in bounded batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, HIDDEN
from headrace.core.expressions.typed import to_expr
from headrace.core.frames import added, projected
from headrace.core.keygroups import encoded, groups_of
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.operator import MOST_ROWS, Output
from headrace.core.ordinals import parted, placed
from headrace.core.plan import nodes

if TYPE_CHECKING:
    import polars as pl

WINDOW_START = "window_start"
WINDOW_END = "window_end"


class Outgoing:
    """The emitter of results of an `aggregate`, an `apply`, or the windows of a `top`.

    Input frames have the columns of the key, the bounds of bounded windows, the aggregates, and
    EVENT_TIME where rows have one. Changelog results are upserts, and may have DELETE; a row that
    does not pass `having` is then emitted as a delete. Frames of a `top` have the columns of its
    rows, and hidden ones of the key.
    """

    def __init__(self, operation: nodes.Windowed, stream: str, *, ordered: bool) -> None:
        window = operation.window
        self._stream = stream
        self._changes = window is None or window.fires_again
        self._ordered = ordered
        self._having: pl.Expr | None = None
        self._columns: tuple[str, ...] = ()
        self._window_columns: tuple[str, ...] | None = None
        """The columns that all rows of one window share."""
        if isinstance(operation, nodes.Top):
            self._key: tuple[str, ...] = (*Grouping(operation.key).inside, nodes.RANK)
            return
        bounds = (WINDOW_START, WINDOW_END) if window and window.bounded else ()
        self._key = tuple(each.name for each in operation.key)
        if isinstance(operation, nodes.Apply):
            self._window_columns = (*self._key, *bounds)
            self._columns = (*self._window_columns, *operation.returns.names)
            return
        self._columns = (*self._key, *bounds, *(column.name for column in operation.columns))
        if operation.having:
            self._having = to_expr(operation.having.condition)

    def rows(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit these rows in bounded batches."""
        frame = self._passing(frame) if frame.height else frame
        if not frame.height:
            return
        if self._ordered:
            frame = placed(frame, self._number(frame))
            if self._window_columns is not None:
                frame = parted(frame, _number_in(frame, self._window_columns))
        hidden = [name for name in HIDDEN if name in frame.columns]
        frame = projected(frame, *(self._columns or self._shown(frame)), *hidden)
        for start in range(0, frame.height, MOST_ROWS):
            yield self._stream, frame.slice(start, MOST_ROWS)

    def _shown(self, frame: pl.DataFrame) -> list[str]:
        inside = {*self._key, *HIDDEN} - {nodes.RANK}
        return [name for name in frame.columns if name not in inside]

    def _passing(self, frame: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        if not self._changes:
            return frame if self._having is None else frame.filter(self._having)
        deleted = pl.col(DELETE) if DELETE in frame.columns else pl.lit(False)
        if self._having is not None:
            deleted = deleted | ~self._having.fill_null(False)
        return added(frame, deleted.alias(DELETE))

    def _number(self, frame: pl.DataFrame) -> pl.Series:
        """Return a number made from the key, which orders rows of the same time."""
        import polars as pl

        if not self._key:
            return pl.Series("at", range(frame.height), dtype=pl.Int64)
        return groups_of(encoded(frame.select(self._key)), 1 << 31)


def _number_in(frame: pl.DataFrame, by: Sequence[str]) -> pl.Expr:
    """Return the number of each row among the rows with equal values in these columns."""
    import polars as pl

    number = pl.int_range(pl.len(), dtype=pl.Int64)
    return number.over(by) if by else number
