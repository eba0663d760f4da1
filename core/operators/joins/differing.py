"""The output of changes on one side of a join: rows to retract, and rows to emit.

The rows of a join are pairs, and rows of one side alone: the unmatched rows of an outer join, the
matched rows of `semi`. The changed rows are paired in their old and new versions. A row of the
other side can only become matched or unmatched if it matched some changed row before and none now,
or the reverse, and matches none of the unchanged rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.core.operators.joins.meeting import beside, paired, that_meet, that_meet_none
from headrace.core.operators.joins.pairs import Pairs
from headrace.core.operators.joins.sides import LEFT, RIGHT
from headrace.core.operators.joins.standing import GONE, IDS, Standing, Touched
from headrace.core.plan import nodes
from headrace.core.state import KEY

if TYPE_CHECKING:
    import polars as pl

    Difference: TypeAlias = tuple[pl.DataFrame, pl.DataFrame]
    """Rows to retract, and rows to emit."""

MOST_PAIRS = 1 << 20
"""The approximate number of pairs built at once."""

_UNMET = {LEFT: ("left", "full", "anti"), RIGHT: ("right", "full")}
"""The join types that emit the unmatched rows of a side."""


class Differing:
    """The difference that changes make to the rows of a join."""

    def __init__(
        self, operation: nodes.Join, sides: tuple[Standing, Standing], pairs: Pairs
    ) -> None:
        self._sides = sides
        self._pairs = pairs
        self._emitted_alone: list[Literal["unmet", "met"] | None] = [
            "unmet" if operation.type in _UNMET[which] else None for which in (LEFT, RIGHT)
        ]
        """The rows of each side that are emitted alone."""
        if operation.type == "semi":
            self._emitted_alone[LEFT] = "met"
        self._missing_ids = ["-" * len(each.rest) for each in sides]
        """The id that replaces the other side's in a row alone, whose other columns are null."""
        if operation.type == "full":
            self._missing_ids = ["none", "none"]

    def keyless(self, which: int, changes: pl.DataFrame) -> Difference:
        """Return the difference made by changes of rows that cannot match."""
        import polars as pl

        if self._emitted_alone[which] != "unmet":
            return changes.clear(), changes.clear()
        return changes.filter(GONE), changes.filter(~pl.col(GONE))

    def of(self, which: int, touched: Touched, others: pl.DataFrame) -> Difference:
        """Return the difference made by changed rows, given the rows of the other side."""
        if not touched.changes:
            return touched.before, touched.after
        met = [
            self._pairs.meant(paired(rows, others, KEY)) for rows in (touched.before, touched.after)
        ]
        outs: list[list[pl.DataFrame]] = [[], []]
        for out, rows, pairs in zip(outs, (touched.before, touched.after), met, strict=True):
            if not self._pairs.one_sided:
                out.append(pairs)
            out.append(self._of_own(which, rows, pairs))
        if self._emitted_alone[1 - which] is not None:
            lost, won = self._turned(1 - which, others, met, touched)
            if self._emitted_alone[1 - which] == "unmet":
                lost, won = won, lost
            outs[0].append(lost)
            outs[1].append(won)
        before, after = (self._told_apart(out) for out in outs)
        return that_meet_none(before, after, (KEY, *IDS)), after

    def _of_own(self, which: int, rows: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
        """Return the changed rows that are emitted alone."""
        alone = self._emitted_alone[which]
        if alone is None:
            return rows.clear()
        chosen = that_meet_none if alone == "unmet" else that_meet
        return chosen(rows, pairs, self._sides[which].by)

    def _turned(
        self, which: int, rows: pl.DataFrame, met: list[pl.DataFrame], touched: Touched
    ) -> Difference:
        """Return the rows of the other side that lost all matches, and those that gained one.

        Their time is the later one of their own and that of the change.
        """
        side = self._sides[which]
        met_before, met_after = (that_meet(rows, pairs, side.by) for pairs in met)
        lost = that_meet_none(met_before, met_after, side.by)
        won = that_meet_none(met_after, met_before, side.by)
        found = []
        for turned in (lost, won):
            if turned.height:
                turned = self._timed(which, self._unmet(which, turned, touched.untouched), touched)
            found.append(turned)
        return found[0], found[1]

    def _timed(self, which: int, rows: pl.DataFrame, touched: Touched) -> pl.DataFrame:
        import polars as pl

        time, other = self._sides[which].side.time, self._sides[1 - which].side.time
        both = pl.concat([touched.before.select(KEY, other), touched.after.select(KEY, other)])
        later = pl.max_horizontal(time, other).alias(time)
        last = both.group_by(KEY).agg(pl.col(other).max())
        return beside(rows, last, (KEY,)).with_columns(later).drop(other)

    def _unmet(self, which: int, rows: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that match none of the others."""
        if not self._pairs.asks:
            return that_meet_none(rows, others, (KEY,))
        for start, count in _pieces(others.height, rows.height):
            pairs = self._pairs.meant(paired(rows, others.slice(start, count), KEY))
            rows = that_meet_none(rows, pairs, self._sides[which].by)
        return rows

    def _told_apart(self, rows: list[pl.DataFrame]) -> pl.DataFrame:
        """Concatenate the rows, with ids that identify them, also for rows alone."""
        import polars as pl

        nobody = [
            pl.col(name).fill_null(pl.lit(nobody))
            for name, nobody in zip(IDS, self._missing_ids, strict=True)
        ]
        full = [frame for frame in rows if frame.height] or rows[:1]
        whole = pl.concat(full, how="diagonal") if len(full) > 1 else full[0]
        lacking = [pl.lit(None, dtype=pl.String).alias(n) for n in IDS if n not in whole.columns]
        return whole.with_columns_seq(lacking).with_columns_seq(nobody)


def _pieces(rows: int, each: int) -> Iterator[tuple[int, int]]:
    """Return chunks of rows, as (start, count), that make a bounded number of pairs."""
    count = max(1, MOST_PAIRS // max(1, each))
    return ((start, count) for start in range(0, rows, count))


def lots(changes: pl.DataFrame, found: pl.DataFrame, rows_of: str) -> Iterator[pl.DataFrame]:
    """Split the changes into lots that make a bounded number of pairs with the stored rows."""
    import polars as pl

    many = found.select(KEY, pl.col(rows_of).list.len().cast(pl.Int64).alias("__pairs"))
    if changes.height * (many["__pairs"].max() or 0) <= MOST_PAIRS:  # type: ignore[operator]
        yield changes
        return
    pairs = beside(changes, many, (KEY,))["__pairs"]
    lot = (pairs.fill_null(0).cum_sum() // MOST_PAIRS).alias("__lot")
    for part in changes.hstack([lot]).partition_by("__lot", maintain_order=True):
        yield part.drop("__lot")
