"""The best rows of groups as lists, and how changelog rows change them.

A list has the first rows of its group, or all rows where it is complete. A row that is not in the
list ranks after its last row; so does, as far as is known, a changed row that now ranks after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.operators.changes.latest import IS_DELETE, ROW_ID
from headrace.core.operators.ranking import RowRanking
from headrace.core.plan.nodes import RANK_COLUMN, Ranking
from headrace.core.state import KEY

if TYPE_CHECKING:
    import polars as pl

OLD_RANK = "__before"
"""The earlier rank of a row; null for a new row."""
IS_CHANGED = "__changed"
"""Whether a row has changed."""
IS_COMPLETE = "__whole"
"""Whether a list has all rows of its group."""
IS_OUTDATED = "__ghost"
"""Marks the old version of a changed or deleted row: it shows how far the list is known."""


class TopLists:
    """The ranking of lists; `columns` are those of a row, including ROW_ID."""

    def __init__(self, by: Sequence[Ranking], shown: int, columns: Sequence[str]) -> None:
        # Rows that are equal otherwise, with equal positions, have a fixed order by ROW_ID.
        self._ranks = RowRanking(by, shown, (ROW_ID, IS_OUTDATED))
        self._emitted_count = shown
        self._columns = list(columns)

    def rank_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Sort rows, which have IS_CHANGED and IS_OUTDATED, by group and rank."""
        import polars as pl

        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(KEY)
        return self._ranks.sort_rows(rows).with_columns(rank.alias(RANK_COLUMN))

    def apply_changes(
        self, before: pl.DataFrame, changes: pl.DataFrame, groups: pl.DataFrame
    ) -> pl.DataFrame:
        """Apply the changes to the lists, as far as they are known; `groups` have IS_COMPLETE."""
        import polars as pl

        columns = [KEY, *self._columns, OLD_RANK, IS_CHANGED, IS_OUTDATED]
        ghost = pl.col(ROW_ID).is_in(changes[ROW_ID].implode())
        known = before.with_columns(ghost.alias(IS_OUTDATED), pl.lit(False).alias(IS_CHANGED))
        new = changes.filter(~changes[IS_DELETE]).with_columns(
            pl.lit(None, dtype=pl.Int32).alias(OLD_RANK),
            pl.lit(True).alias(IS_CHANGED),
            pl.lit(False).alias(IS_OUTDATED),
        )
        both = pl.concat([known.select(columns), new.select(columns)])
        ranked = self.rank_rows(both.join(groups.select(KEY, IS_COMPLETE), on=KEY))
        last = pl.col(RANK_COLUMN).filter(pl.col(OLD_RANK).is_not_null()).max().over(KEY)
        there = ~pl.col(IS_OUTDATED) & (pl.col(IS_COMPLETE) | (pl.col(RANK_COLUMN) <= last))
        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(KEY)
        return ranked.filter(there).with_columns(rank.alias(RANK_COLUMN))

    def diff_ranks(
        self, before: pl.DataFrame, after: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows at ranks that have changed, and those at ranks that no longer exist."""
        import polars as pl

        was = before.filter(pl.col(OLD_RANK) <= self._emitted_count).rename({OLD_RANK: RANK_COLUMN})
        now = after.filter(pl.col(RANK_COLUMN) <= self._emitted_count)
        other = was.select(KEY, RANK_COLUMN, pl.col(ROW_ID).alias(OLD_RANK))
        beside = now.drop(OLD_RANK, strict=False).join(other, on=[KEY, RANK_COLUMN], how="left")
        new = beside.filter(pl.col(IS_CHANGED) | pl.col(ROW_ID).ne_missing(pl.col(OLD_RANK)))
        return new, was.join(now, on=[KEY, RANK_COLUMN], how="anti")
