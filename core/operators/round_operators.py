"""Operators over the tables of rounds: they process all rows of a round at once, without a state.

No row of such a table is ever removed: an aggregate is computed once and emitted once, and upserts
have one row for each key, whose deletes remove nothing. The rows have no weights: each is there as
often as it comes.

Tests: tests/core/job/test_table_rounds.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.changelog.rows import ROWS_STATE
from headrace.core.operators.changelog.weighted_rows import (
    WeightedRows,
    consolidate,
    get_weights,
    repeat_rows,
)
from headrace.core.operators.folds import AggregateFold
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import Output, RoundOperator, StatelessOperator
from headrace.core.operators.result_rows import compute_tie_breaker
from headrace.core.plan import nodes
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import DELETE, ORDER, WEIGHT
from headrace.core.types.frames import concat_chunks, select_columns
from headrace.core.types.row_order import ORDER_TYPE, add_row_order

if TYPE_CHECKING:
    import polars as pl


def select_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that are there, without deletes and their column."""
    if DELETE not in frame.columns:
        return frame
    return frame.filter(~frame[DELETE].fill_null(False)).drop(DELETE)


class KeyedRoundOperator(RoundOperator):
    """The base of operators over the rows of a key in the table of a round."""

    def __init__(self, key: Sequence[nodes.ComputedColumn], stream: str) -> None:
        self._stream, self._grouping = stream, GroupingKey(key)
        self._rows: list[pl.DataFrame] = []

    @property
    def pending_rows(self) -> int:
        """The number of rows that have come in the round."""
        return sum(frame.height for frame in self._rows)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Take rows of the round."""
        rows = select_rows(frame)
        if rows.height:
            rows = self._grouping.project_columns(rows, self._select_columns(rows))
            self._rows.append(self._hold(rows))
        yield from ()

    def end_round(self) -> Iterator[Output]:
        """Emit the results of all groups."""
        if self._rows:
            rows, self._rows = concat_chunks(self._rows), []
            yield self._stream, self._compute_results(rows)

    @abstractmethod
    def _select_columns(self, rows: pl.DataFrame) -> Collection[str]:
        """Return the columns of rows that are needed."""

    @abstractmethod
    def _compute_results(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the results of all groups."""


class RoundAggregateOperator(KeyedRoundOperator):
    """The operator of `aggregate` over the tables of rounds."""

    def __init__(self, operation: nodes.Aggregate, stream: str, *, ordered: bool) -> None:
        super().__init__(operation.key, stream)
        self._ordered = ordered
        self._fold = AggregateFold(operation, self._grouping)
        self._having = None if operation.having is None else to_expr(operation.having.condition)
        self._columns = (*self._grouping.names, *(each.name for each in operation.columns))

    def _select_columns(self, rows: pl.DataFrame) -> Collection[str]:
        return sorted(self._fold.input_columns)

    def _compute_results(self, rows: pl.DataFrame) -> pl.DataFrame:
        by = self._grouping.internal_names
        results = self._fold.finish(self._fold.begin(rows, by), by)
        if self._having is not None:
            results = results.filter(self._having)
        found = select_columns(results, *self._columns)
        if not (self._ordered and found.height):
            return found
        return add_row_order(found, compute_tie_breaker(found, self._grouping.names))


class RoundUnionOperator(RoundOperator):
    """The operator of a union that stores the rows of inputs from outside, its right inputs.

    It emits them in each round, after the rows of the table of the round, its left inputs.
    """

    def __init__(self, stream: str, stored: nodes.StoredRows, context: KeyedContext) -> None:
        self._stream = stream
        position = {ORDER: to_polars(ORDER_TYPE)} if stored.has_row_order else {}
        self._columns = [*(field.name for field in stored.columns), *position]
        self._grouping = GroupingKey(stored.key)
        self._others = {f.name: to_polars(f.type) for f in stored.columns_without_key} | position
        types = {**self._grouping.types, **self._others}
        self._rows = WeightedRows(context.state, ROWS_STATE, self._grouping.internal_names, types)
        self._table: pl.DataFrame | None = None
        """The stored rows as they are emitted; None: they have changed since."""

    @property
    def pending_rows(self) -> int:
        """The number of stored rows."""
        return self._rows.rows

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit rows of the round."""
        yield self._stream, select_rows(frame)

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Store rows."""
        rows = frame.with_columns(get_weights(frame))
        rows = self._grouping.project_columns(rows, [*self._others, WEIGHT])
        self._rows.add(consolidate(rows))
        self._table = None
        yield from ()

    def end_round(self) -> Iterator[Output]:
        """Emit the stored rows."""
        if self._table is None:
            rows = self._grouping.restore_names(repeat_rows(self._rows.read_all()))
            self._table = rows.select(self._columns)
        yield self._stream, self._table


class RoundRowsOperator(StatelessOperator):
    """The operator that makes rows of upserts, each key of a round having one; other rows pass."""

    def __init__(self, stream: str) -> None:
        self._stream = stream

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the rows that are there."""
        yield self._stream, select_rows(frame)
