"""`top` over the tables of rounds: all rows of a round are ranked at once, as over retractions.

Tests: tests/core/job/test_table_rounds.py.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.core.operators.changelog.ordered_pages import GROUP
from headrace.core.operators.changelog.retraction_top import build_row_order
from headrace.core.operators.changelog.tied_top import compute_ranks, differs_from_previous
from headrace.core.operators.round_operators import KeyedRoundOperator
from headrace.core.plan import nodes
from headrace.core.plan.nodes import RANK_COLUMN
from headrace.core.types.elements import EVENT_TIME, ORDER, WEIGHT
from headrace.core.types.frames import select_columns

if TYPE_CHECKING:
    import polars as pl


class RoundTopOperator(KeyedRoundOperator):
    """The operator of `top` over the tables of rounds."""

    def __init__(self, operation: nodes.Top, stream: str) -> None:
        super().__init__(operation.key, stream)
        self._operation = operation
        self._columns: tuple[str, ...] = ()
        """The columns that are needed of rows; empty: no rows have come yet."""

    def _select_columns(self, rows: pl.DataFrame) -> Collection[str]:
        if not self._columns:
            stored = filter(self._operation.stores_column, rows.columns)
            self._columns = tuple(name for name in stored if name not in (EVENT_TIME, WEIGHT))
        return self._columns

    def _compute_results(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the first rows of all groups, with their ranks."""
        import polars as pl

        key = self._grouping.internal_names
        rows = build_row_order(self._operation.by, self._columns).sort(rows, key)
        group = differs_from_previous(rows, [pl.col(name) for name in key]).cum_sum()
        once = pl.lit(1, dtype=pl.Int64)
        rows = rows.with_columns(group.alias(GROUP), once.alias(WEIGHT))
        ranks = compute_ranks(rows, self._operation)
        first = rows.hstack([ranks]).filter(ranks <= self._operation.rows)
        shown = (name for name in self._columns if name != ORDER)
        return select_columns(first, *shown, RANK_COLUMN, ORDER)
