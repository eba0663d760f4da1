"""Operators over the tables of rounds: they process all rows of a round at once, without a state.

No row of such a table is ever removed: an aggregate is computed once and emitted once, and upserts
have one row for each key, whose deletes remove nothing. The rows have no weights: each is there as
often as it comes.

Tests: tests/core/job/test_table_rounds.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.folds import AggregateFold
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.operators.operator import Operator, Output, RoundOperator, StatelessOperator
from headrace.core.plan import nodes
from headrace.core.types.elements import DELETE
from headrace.core.types.frames import concat_chunks, select_columns

if TYPE_CHECKING:
    import polars as pl


def build_round_operator(operation: nodes.KeyedOperation, stream: str) -> Operator:
    """Build the operator of a keyed operation over the tables of rounds."""
    match operation:
        case nodes.Aggregate():
            return RoundAggregateOperator(operation, stream)
        case nodes.ChangelogConversion():
            return RoundRowsOperator(stream)
    raise AssertionError(operation)


def select_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that are there, without deletes and their column."""
    if DELETE not in frame.columns:
        return frame
    return frame.filter(~frame[DELETE].fill_null(False)).drop(DELETE)


class RoundAggregateOperator(RoundOperator):
    """The operator of `aggregate` over the tables of rounds."""

    def __init__(self, operation: nodes.Aggregate, stream: str) -> None:
        self._stream = stream
        self._grouping = GroupingKey(operation.key)
        self._fold = AggregateFold(operation, self._grouping)
        self._having = None if operation.having is None else to_expr(operation.having.condition)
        self._columns = (*self._grouping.names, *(each.name for each in operation.columns))
        self._rows: list[pl.DataFrame] = []

    @property
    def pending_rows(self) -> int:
        """The number of rows that have come in the round."""
        return sum(frame.height for frame in self._rows)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Take rows of the round."""
        rows = select_rows(frame)
        if rows.height:
            columns = sorted(self._fold.input_columns)
            self._rows.append(self._grouping.project_columns(rows, columns))
        yield from ()

    def end_round(self) -> Iterator[Output]:
        """Emit the results of all groups."""
        if not self._rows:
            return
        rows, self._rows = concat_chunks(self._rows), []
        by = self._grouping.internal_names
        results = self._fold.finish(self._fold.begin(rows, by), by)
        if self._having is not None:
            results = results.filter(self._having)
        yield self._stream, select_columns(results, *self._columns)


class RoundRowsOperator(StatelessOperator):
    """The operator that makes rows of upserts, each key of a round having one; other rows pass."""

    def __init__(self, stream: str) -> None:
        self._stream = stream

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the rows that are there."""
        yield self._stream, select_rows(frame)
