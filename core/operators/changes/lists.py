"""The best rows of groups as lists, and how changelog rows change them.

A list has the first rows of its group, or all rows where it is complete. A row that is not in the
list ranks after its last row; so does, as far as is known, a changed row that now ranks after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.operators.changes.latest import GONE, ID
from headrace.core.operators.ranking import Ranks
from headrace.core.plan.nodes import RANK, Ranking
from headrace.core.state import KEY

if TYPE_CHECKING:
    import polars as pl

BEFORE = "__before"
"""The earlier rank of a row; null for a new row."""
CHANGED = "__changed"
"""Whether a row has changed."""
WHOLE = "__whole"
"""Whether a list has all rows of its group."""
GHOST = "__ghost"
"""Marks the old version of a changed or deleted row: it shows how far the list is known."""


class Lists:
    """The ranking of lists; `columns` are those of a row, including ROW_ID."""

    def __init__(self, by: Sequence[Ranking], shown: int, columns: Sequence[str]) -> None:
        # Rows that are equal otherwise, with equal positions, have a fixed order by ROW_ID.
        self._ranks = Ranks(by, shown, (ID, GHOST))
        self._emitted_count = shown
        self._columns = list(columns)

    def ranked(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Sort rows, which have IS_CHANGED and IS_OUTDATED, by group and rank."""
        import polars as pl

        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(KEY)
        return self._ranks.ordered(rows).with_columns(rank.alias(RANK))

    def changed(
        self, before: pl.DataFrame, changes: pl.DataFrame, groups: pl.DataFrame
    ) -> pl.DataFrame:
        """Apply the changes to the lists, as far as they are known; `groups` have IS_COMPLETE."""
        import polars as pl

        columns = [KEY, *self._columns, BEFORE, CHANGED, GHOST]
        ghost = pl.col(ID).is_in(changes[ID].implode())
        known = before.with_columns(ghost.alias(GHOST), pl.lit(False).alias(CHANGED))
        new = changes.filter(~changes[GONE]).with_columns(
            pl.lit(None, dtype=pl.Int32).alias(BEFORE),
            pl.lit(True).alias(CHANGED),
            pl.lit(False).alias(GHOST),
        )
        both = pl.concat([known.select(columns), new.select(columns)])
        ranked = self.ranked(both.join(groups.select(KEY, WHOLE), on=KEY))
        last = pl.col(RANK).filter(pl.col(BEFORE).is_not_null()).max().over(KEY)
        there = ~pl.col(GHOST) & (pl.col(WHOLE) | (pl.col(RANK) <= last))
        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(KEY)
        return ranked.filter(there).with_columns(rank.alias(RANK))

    def differing(
        self, before: pl.DataFrame, after: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows at ranks that have changed, and those at ranks that no longer exist."""
        import polars as pl

        was = before.filter(pl.col(BEFORE) <= self._emitted_count).rename({BEFORE: RANK})
        now = after.filter(pl.col(RANK) <= self._emitted_count)
        other = was.select(KEY, RANK, pl.col(ID).alias(BEFORE))
        beside = now.drop(BEFORE, strict=False).join(other, on=[KEY, RANK], how="left")
        new = beside.filter(pl.col(CHANGED) | pl.col(ID).ne_missing(pl.col(BEFORE)))
        return new, was.join(now, on=[KEY, RANK], how="anti")
