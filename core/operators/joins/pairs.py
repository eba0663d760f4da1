"""The output rows of a join: the join condition on pairs, and the columns that are emitted.

A pair is a row with the columns of both sides (JoinSideColumns). An unmatched row lacks those
of the other side, or has nulls in them, and is emitted with nulls. `semi` and `anti` emit rows of
the left side alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.expressions.typed import find_columns, to_expr
from headrace.core.frames import select_columns
from headrace.core.operators.joins.sides import LEFT, NUMBER_COLUMNS, RIGHT, TIME_COLUMNS
from headrace.core.operators.operator import MAX_OUTPUT_ROWS, Output
from headrace.core.plan import nodes
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl


class JoinOutput:
    """The emitter of the rows of a join."""

    def __init__(
        self, operation: nodes.Join, stream: str, *, ordered: bool, bounds: tuple[str, ...] = ()
    ) -> None:
        """`bounds` are columns after those of the sides, which all rows have."""
        self._stream = stream
        self._ordered = ordered
        only = operation.residual_filter
        self._condition = None if only is None else to_expr(only.condition)
        self.condition_columns = frozenset[str]() if only is None else find_columns(only.condition)
        """The columns that the join condition reads."""
        self.is_one_sided = operation.type in ("semi", "anti")
        """Whether only rows of the left side are emitted."""
        self._timed = operation.has_event_time
        sides = (operation.left,) if self.is_one_sided else (operation.left, operation.right)
        self._types: Mapping[str, pl.DataType] = {
            **{each.name: to_polars(each.value.type) for side in sides for each in side.columns},
            **dict.fromkeys(bounds, to_polars(TIMESTAMP)),
        }

    @property
    def has_condition(self) -> bool:
        """Whether there is a condition besides the equality of keys."""
        return self._condition is not None

    def filter_pairs(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """Return the pairs that pass the condition."""
        return (
            pairs if self._condition is None or not pairs.height else pairs.filter(self._condition)
        )

    def emit(self, pairs: pl.DataFrame) -> Iterator[Output]:
        """Emit these pairs and unmatched rows in bounded batches.

        Their time is EVENT_TIME if they have it, else the later one of both sides.
        """
        for start in range(0, pairs.height, MAX_OUTPUT_ROWS):
            yield self._stream, self._build_rows(pairs.slice(start, MAX_OUTPUT_ROWS))

    def _build_rows(self, pairs: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        there = pairs.schema
        shown = [
            pl.col(name) if name in there else pl.repeat(None, pl.len(), dtype=type).alias(name)
            for name, type in self._types.items()
        ]
        time = self._build_time(pairs)
        hidden = [] if time is None else [time.cast(to_polars(TIMESTAMP)).alias(EVENT_TIME)]
        if self._ordered:
            hidden.append(self._build_position(pairs, time))
        return select_columns(pairs, *shown, *hidden)

    def _build_time(self, pairs: pl.DataFrame) -> pl.Expr | None:
        """Return the time of each row (microseconds); None: rows have none."""
        import polars as pl

        if not self._timed:
            return None
        if EVENT_TIME in pairs.columns:
            return pl.col(EVENT_TIME).cast(pl.Int64)
        known = [name for name in self._select_sides(TIME_COLUMNS) if name in pairs.columns]
        return pl.max_horizontal(known) if len(known) > 1 else pl.col(known[0])

    def _build_position(self, pairs: pl.DataFrame, time: pl.Expr | None) -> pl.Expr:
        """Return the position in the row order: by time, by the left row, by the right one."""
        import polars as pl

        none = pl.lit(0, dtype=pl.Int64)
        known = [name for name in self._select_sides(NUMBER_COLUMNS) if name in pairs.columns]
        of_right = (
            pl.col(NUMBER_COLUMNS[RIGHT]).fill_null(0) if NUMBER_COLUMNS[RIGHT] in known else none
        )
        if NUMBER_COLUMNS[LEFT] not in known:
            of_right += 1  # in a self-join, rows emitted for the left side come first
        elif len(known) > 1:
            of_right += pl.col(NUMBER_COLUMNS[LEFT]).is_null().cast(pl.Int64)
        return pl.struct(
            (none if time is None else time).alias("time"),
            pl.coalesce(*known).alias("at"),
            of_right.alias("part"),
        ).alias(ORDER)

    def _select_sides(self, names: tuple[str, str]) -> tuple[str, ...]:
        """Return the columns, of one for each side, that output rows have."""
        return names[:RIGHT] if self.is_one_sided else names
