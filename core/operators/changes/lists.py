"""The best rows of groups as lists: what becomes of them with changes, and what changes in them.

A list has the first rows of its group, all of it where it is whole. A row that is not in it comes
behind its last one; so does, as far as anybody knows, a row that changes and now comes behind that.
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
"""The rank that a row had; null where it comes anew."""
CHANGED = "__changed"
"""Whether a row is one of those that changed."""
WHOLE = "__whole"
"""Whether a list is all there is of its group."""
GHOST = "__ghost"
"""A row that has changed or is gone, where it was: it says how far the list is known."""


class Lists:
    """`columns` are those of a row, ID among them."""

    def __init__(self, by: Sequence[Ranking], shown: int, columns: Sequence[str]) -> None:
        # Of rows that are alike in all else, places too, the same one is always first.
        self._ranks = Ranks(by, shown, (ID, GHOST))
        self._shown = shown
        self._columns = list(columns)

    def ranked(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows, with CHANGED and GHOST, by group and rank."""
        import polars as pl

        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(KEY)
        return self._ranks.ordered(rows).with_columns(rank.alias(RANK))

    def changed(
        self, before: pl.DataFrame, changes: pl.DataFrame, groups: pl.DataFrame
    ) -> pl.DataFrame:
        """The lists with these changes, as far as they are known; `groups` say which are whole."""
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
        """The rows at ranks that have changed, and those that were at ranks that are gone."""
        import polars as pl

        was = before.filter(pl.col(BEFORE) <= self._shown).rename({BEFORE: RANK})
        now = after.filter(pl.col(RANK) <= self._shown)
        other = was.select(KEY, RANK, pl.col(ID).alias(BEFORE))
        beside = now.drop(BEFORE, strict=False).join(other, on=[KEY, RANK], how="left")
        new = beside.filter(pl.col(CHANGED) | pl.col(ID).ne_missing(pl.col(BEFORE)))
        return new, was.join(now, on=[KEY, RANK], how="anti")
