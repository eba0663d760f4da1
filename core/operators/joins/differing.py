"""The output of changes on one side of a join: rows to retract, and rows to emit.

The rows of a join are pairs, and rows of one side alone: the unmatched rows of an outer join, the
matched rows of `semi`. The changed rows are paired in their old and new versions. A row of the
other side can only become matched or unmatched if it matched some changed row before and none now,
or the reverse, and matches none of the unchanged rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.core.operators.joins.meeting import anti_join, inner_join, left_join, semi_join
from headrace.core.operators.joins.pairs import JoinOutput
from headrace.core.operators.joins.sides import LEFT, RIGHT
from headrace.core.operators.joins.standing import (
    ID_COLUMNS,
    IS_DELETE,
    ChangeEffect,
    MaterializedSide,
)
from headrace.core.plan import nodes
from headrace.core.state import KEY

if TYPE_CHECKING:
    import polars as pl

    Difference: TypeAlias = tuple[pl.DataFrame, pl.DataFrame]
    """Rows to retract, and rows to emit."""

MAX_PAIRS = 1 << 20
"""The approximate number of pairs built at once."""

_UNMATCHED_TYPES = {LEFT: ("left", "full", "anti"), RIGHT: ("right", "full")}
"""The join types that emit the unmatched rows of a side."""


class JoinDelta:
    """The difference that changes make to the rows of a join."""

    def __init__(
        self,
        operation: nodes.Join,
        sides: tuple[MaterializedSide, MaterializedSide],
        pairs: JoinOutput,
    ) -> None:
        self._sides = sides
        self._pairs = pairs
        self._emitted_alone: list[Literal["unmet", "met"] | None] = [
            "unmet" if operation.type in _UNMATCHED_TYPES[which] else None
            for which in (LEFT, RIGHT)
        ]
        """The rows of each side that are emitted alone."""
        if operation.type == "semi":
            self._emitted_alone[LEFT] = "met"
        self._missing_ids = ["-" * len(each.id_columns) for each in sides]
        """The id that replaces the other side's in a row alone, whose other columns are null."""
        if operation.type == "full":
            self._missing_ids = ["none", "none"]

    def diff_keyless(self, which: int, changes: pl.DataFrame) -> Difference:
        """Return the difference made by changes of rows that cannot match."""
        import polars as pl

        if self._emitted_alone[which] != "unmet":
            return changes.clear(), changes.clear()
        return changes.filter(IS_DELETE), changes.filter(~pl.col(IS_DELETE))

    def diff_changes(self, which: int, touched: ChangeEffect, others: pl.DataFrame) -> Difference:
        """Return the difference made by changed rows, given the rows of the other side."""
        if not touched.has_changes:
            return touched.old_rows, touched.new_rows
        met = [
            self._pairs.filter_pairs(inner_join(rows, others, KEY))
            for rows in (touched.old_rows, touched.new_rows)
        ]
        outs: list[list[pl.DataFrame]] = [[], []]
        for out, rows, pairs in zip(outs, (touched.old_rows, touched.new_rows), met, strict=True):
            if not self._pairs.is_one_sided:
                out.append(pairs)
            out.append(self._select_own(which, rows, pairs))
        if self._emitted_alone[1 - which] is not None:
            lost, won = self._find_turned(1 - which, others, met, touched)
            if self._emitted_alone[1 - which] == "unmet":
                lost, won = won, lost
            outs[0].append(lost)
            outs[1].append(won)
        before, after = (self._add_ids(out) for out in outs)
        return anti_join(before, after, (KEY, *ID_COLUMNS)), after

    def _select_own(self, which: int, rows: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
        """Return the changed rows that are emitted alone."""
        alone = self._emitted_alone[which]
        if alone is None:
            return rows.clear()
        chosen = anti_join if alone == "unmet" else semi_join
        return chosen(rows, pairs, self._sides[which].row_columns)

    def _find_turned(
        self, which: int, rows: pl.DataFrame, met: list[pl.DataFrame], touched: ChangeEffect
    ) -> Difference:
        """Return the rows of the other side that lost all matches, and those that gained one.

        Their time is the later one of their own and that of the change.
        """
        side = self._sides[which]
        met_before, met_after = (semi_join(rows, pairs, side.row_columns) for pairs in met)
        lost = anti_join(met_before, met_after, side.row_columns)
        won = anti_join(met_after, met_before, side.row_columns)
        found = []
        for turned in (lost, won):
            if turned.height:
                turned = self._add_times(
                    which, self._select_unmatched(which, turned, touched.unchanged_rows), touched
                )
            found.append(turned)
        return found[0], found[1]

    def _add_times(self, which: int, rows: pl.DataFrame, touched: ChangeEffect) -> pl.DataFrame:
        import polars as pl

        time, other = self._sides[which].side.time, self._sides[1 - which].side.time
        both = pl.concat([touched.old_rows.select(KEY, other), touched.new_rows.select(KEY, other)])
        later = pl.max_horizontal(time, other).alias(time)
        last = both.group_by(KEY).agg(pl.col(other).max())
        return left_join(rows, last, (KEY,)).with_columns(later).drop(other)

    def _select_unmatched(
        self, which: int, rows: pl.DataFrame, others: pl.DataFrame
    ) -> pl.DataFrame:
        """Return the rows that match none of the others."""
        if not self._pairs.has_condition:
            return anti_join(rows, others, (KEY,))
        for start, count in _split_chunks(others.height, rows.height):
            pairs = self._pairs.filter_pairs(inner_join(rows, others.slice(start, count), KEY))
            rows = anti_join(rows, pairs, self._sides[which].row_columns)
        return rows

    def _add_ids(self, rows: list[pl.DataFrame]) -> pl.DataFrame:
        """Concatenate the rows, with ids that identify them, also for rows alone."""
        import polars as pl

        nobody = [
            pl.col(name).fill_null(pl.lit(nobody))
            for name, nobody in zip(ID_COLUMNS, self._missing_ids, strict=True)
        ]
        full = [frame for frame in rows if frame.height] or rows[:1]
        whole = pl.concat(full, how="diagonal") if len(full) > 1 else full[0]
        lacking = [
            pl.lit(None, dtype=pl.String).alias(n) for n in ID_COLUMNS if n not in whole.columns
        ]
        return whole.with_columns_seq(lacking).with_columns_seq(nobody)


def _split_chunks(rows: int, each: int) -> Iterator[tuple[int, int]]:
    """Return chunks of rows, as (start, count), that make a bounded number of pairs."""
    count = max(1, MAX_PAIRS // max(1, each))
    return ((start, count) for start in range(0, rows, count))


def split_lots(changes: pl.DataFrame, found: pl.DataFrame, rows_of: str) -> Iterator[pl.DataFrame]:
    """Split the changes into lots that make a bounded number of pairs with the stored rows."""
    import polars as pl

    many = found.select(KEY, pl.col(rows_of).list.len().cast(pl.Int64).alias("__pairs"))
    if changes.height * (many["__pairs"].max() or 0) <= MAX_PAIRS:  # type: ignore[operator]
        yield changes
        return
    pairs = left_join(changes, many, (KEY,))["__pairs"]
    lot = (pairs.fill_null(0).cum_sum() // MAX_PAIRS).alias("__lot")
    for part in changes.hstack([lot]).partition_by("__lot", maintain_order=True):
        yield part.drop("__lot")
