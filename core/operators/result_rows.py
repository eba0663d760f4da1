"""The output rows of keyed operators: results with their hidden columns, in bounded batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.operators.operator import MAX_OUTPUT_ROWS, Output
from headrace.core.plan import nodes
from headrace.core.types.elements import DELETE, HIDDEN_COLUMNS
from headrace.core.types.frames import add_columns, select_columns
from headrace.core.types.key_groups import compute_key_groups, encode_keys
from headrace.core.types.row_order import add_row_order, number_parts

if TYPE_CHECKING:
    import polars as pl

WINDOW_START = "window_start"
WINDOW_END = "window_end"


class ResultRows:
    """The emitter of results of an `aggregate`, an `apply`, or the windows of a `top`.

    Input frames have the columns of the key, the bounds of bounded windows, the aggregates, and
    EVENT_TIME where rows have one. Changelog results are upserts, and may have DELETE; a row that
    does not pass `having` is then emitted as a delete. Frames of a `top` have the columns of its
    rows, and hidden ones of the key.
    """

    def __init__(self, operation: nodes.WindowedOperation, stream: str, *, ordered: bool) -> None:
        window = operation.window
        self._stream = stream
        self._changes = window is None or window.can_fire_again
        self._ordered = ordered
        self._having: pl.Expr | None = None
        self._columns: tuple[str, ...] = ()
        self._window_columns: tuple[str, ...] | None = None
        """The columns that all rows of one window share."""
        if isinstance(operation, nodes.Top):
            self._key: tuple[str, ...] = (
                *GroupingKey(operation.key).internal_names,
                nodes.RANK_COLUMN,
            )
            return
        bounds = (WINDOW_START, WINDOW_END) if window and window.has_bounds else ()
        self._key = tuple(each.name for each in operation.key)
        if isinstance(operation, nodes.Apply):
            self._window_columns = (*self._key, *bounds)
            self._columns = (*self._window_columns, *operation.returns.names)
            return
        self._columns = (*self._key, *bounds, *(column.name for column in operation.columns))
        if operation.having:
            self._having = to_expr(operation.having.condition)

    def emit(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit these rows in bounded batches."""
        frame = self._apply_having(frame) if frame.height else frame
        if not frame.height:
            return
        if self._ordered:
            frame = add_row_order(frame, compute_tie_breaker(frame, self._key))
            if self._window_columns is not None:
                frame = number_parts(frame, _number_within(frame, self._window_columns))
        hidden = [name for name in HIDDEN_COLUMNS if name in frame.columns]
        frame = select_columns(frame, *(self._columns or self._list_visible(frame)), *hidden)
        for start in range(0, frame.height, MAX_OUTPUT_ROWS):
            yield self._stream, frame.slice(start, MAX_OUTPUT_ROWS)

    def _list_visible(self, frame: pl.DataFrame) -> list[str]:
        inside = {*self._key, *HIDDEN_COLUMNS} - {nodes.RANK_COLUMN}
        return [name for name in frame.columns if name not in inside]

    def _apply_having(self, frame: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        if not self._changes:
            return frame if self._having is None else frame.filter(self._having)
        deleted = pl.col(DELETE) if DELETE in frame.columns else pl.lit(False)
        if self._having is not None:
            deleted = deleted | ~self._having.fill_null(False)
        return add_columns(frame, deleted.alias(DELETE))


def compute_tie_breaker(frame: pl.DataFrame, key: Sequence[str]) -> pl.Series:
    """Return a number made from the key, which orders rows of the same time."""
    import polars as pl

    if not key:
        return pl.Series("at", range(frame.height), dtype=pl.Int64)
    return compute_key_groups(encode_keys(frame.select(key)), 1 << 31)


def _number_within(frame: pl.DataFrame, by: Sequence[str]) -> pl.Expr:
    """Return the number of each row among the rows with equal values in these columns."""
    import polars as pl

    number = pl.int_range(pl.len(), dtype=pl.Int64)
    return number.over(by) if by else number
