"""A top over a changelog: the best current rows of each group, emitted rank by rank.

For each group a list is stored, best first, that is longer than the number of emitted rows. While
it has all rows of the group, it is the only state. For a larger group every row is stored as well:
rows outside the list rank after its last row, so changes are compared with the list alone. Only
when too many rows have left the list is its group ranked again from all rows. (Counts that grow
never cause that; rows that become worse cause it once in as many changes as the list has spare
rows.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, EVENT_TIME, HIDDEN, ORDER
from headrace.core.operators.changes.filed import VERSION, Filed
from headrace.core.operators.changes.latest import GONE, ID, LAST, Latest
from headrace.core.operators.changes.lists import BEFORE, CHANGED, GHOST, WHOLE, Lists
from headrace.core.operators.forgetting import KEYS
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.kept import row_types
from headrace.core.operators.operator import MOST_ROWS, Output, Stateless, aside
from headrace.core.operators.place import Place
from headrace.core.operators.top import BEST
from headrace.core.plan import nodes
from headrace.core.plan.nodes import RANK
from headrace.core.state import ASKED, KEY, NO_CLOCK_US, Table
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl

SPARE = 64
"""The minimal number of rows that a list may have in addition to those that are emitted."""
DUE = "__due"
"""After this many more changes a group is ranked again from all rows, dropping old versions."""
COUNT = "__count"
EARLIER = "__earlier"


class TopOfChanges(Stateless):
    """The operator of `top` over a changelog."""

    def __init__(self, operation: nodes.Top, place: Place, spare: int = SPARE) -> None:
        assert operation.changes is not None, "append-only rows have another operator"
        self._operation = operation
        self._context = place
        self._grouping = Grouping(operation.key)
        self._compactor = Latest(self._grouping, operation.changes)
        self._list_rows = operation.rows + max(operation.rows, spare)
        self._rerank_rows = 16 * spare
        self._states: tuple[Table, Filed, Lists] | None = None
        self._columns: tuple[str, ...] = ()
        columns = place.state.columns(KEYS)
        if columns is not None:
            self._open(row_types(columns, BEST))

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Emit the ranks that change with these changelog rows."""
        if not frame.height:
            return
        table, filed, lists = self._states or self._open(frame.schema)
        yield from aside(table.owed(NO_CLOCK_US) + filed.owed)
        changes = self._compactor.changes(frame, self._columns)
        groups = self._known(self._compactor.touched(changes), table)
        before = self._listed(groups)
        after = lists.changed(before, changes, groups)
        groups, after = self._filed_anew(groups, after, changes)
        self._keep(groups, after, table)
        new, gone = lists.differing(before, after)
        yield from self._put_out(new, gone, groups, timed=EVENT_TIME in frame.columns)

    def _open(self, types: Mapping[str, pl.DataType]) -> tuple[Table, Filed, Lists]:
        """Open the states; `types` are the types of the input columns."""
        import polars as pl

        beside = (EVENT_TIME, DELETE, ID)
        kept = {n: t for n, t in types.items() if n not in beside and self._operation.keeps(n)}
        row = {**kept, ID: pl.String()}
        self._columns = tuple(row)
        columns = {
            BEST: pl.List(pl.Struct(row)),
            LAST: to_polars(TIMESTAMP),
            WHOLE: pl.Boolean(),
            VERSION: pl.Int64(),
            DUE: pl.Int64(),
        }
        table = self._context.state.table(KEYS, columns)
        filed = Filed(self._context.state, self._grouping, row)
        self._states = table, filed, Lists(self._operation.by, self._operation.rows, self._columns)
        return self._states

    def _known(self, touched: pl.DataFrame, table: Table) -> pl.DataFrame:
        """Join the touched groups with their stored values."""
        import polars as pl

        found = table.find(touched[KEY]).drop(ASKED).rename({LAST: EARLIER})
        groups = touched.join(found, on=KEY, how="left", maintain_order="left")
        return groups.with_columns(
            pl.max_horizontal(LAST, EARLIER).alias(LAST),
            pl.col(WHOLE).fill_null(True),
            pl.col(VERSION).fill_null(0) + 1,
            pl.col(DUE).fill_null(0),
        )

    def _listed(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of the stored lists."""
        import polars as pl

        lists = groups.filter(pl.col(BEST).is_not_null()).select(KEY, BEST)
        rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(KEY)
        return lists.explode(BEST).unnest(BEST).with_columns(rank.alias(BEFORE))

    def _filed_anew(
        self, groups: pl.DataFrame, after: pl.DataFrame, changes: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Store the rows of large groups, and rebuild the lists that are too short."""
        import polars as pl

        assert self._states is not None, "it was opened"
        filed = self._states[1]
        came = changes.join(groups.filter(~pl.col(WHOLE)).select(KEY, VERSION), on=KEY)
        filed.add(came)
        groups = _counted(groups, came, "__came")
        groups = _counted(groups, after, COUNT)
        short = (pl.col(COUNT) < self._operation.rows) | (pl.col(DUE) <= pl.col("__came"))
        groups = groups.with_columns(pl.col(DUE) - pl.col("__came"))
        short_groups = groups.filter(~pl.col(WHOLE) & short)
        if short_groups.height:
            groups, after = self._ranked_anew(groups, after, short_groups, changes)
        grown = groups.filter(pl.col(WHOLE) & (pl.col(COUNT) > self._list_rows))
        if grown.height:
            columns = (KEY, VERSION, *self._grouping.inside)
            rows = after.join(grown.select(columns), on=KEY)
            filed.add(rows.with_columns(pl.lit(False).alias(GONE)))
            is_grown = pl.col(WHOLE) & (pl.col(COUNT) > self._list_rows)
            due = (
                pl.when(is_grown).then(2 * pl.col(COUNT) + self._rerank_rows).otherwise(pl.col(DUE))
            )
            groups = groups.with_columns(pl.col(WHOLE) & ~is_grown, due.alias(DUE))
        return groups, after.filter(pl.col(RANK) <= self._list_rows)

    def _ranked_anew(
        self,
        groups: pl.DataFrame,
        after: pl.DataFrame,
        short_groups: pl.DataFrame,
        changes: pl.DataFrame,
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Rebuild the lists of these groups from all their rows; they then count as complete."""
        import polars as pl

        assert self._states is not None, "it was opened"
        _, filed, lists = self._states
        is_short = pl.col(KEY).is_in(short_groups[KEY].implode())
        kept = after.filter(~is_short)
        taken = filed.take(short_groups)
        if taken is not None and taken.height:
            rows = self._grouping.encoded(taken).with_columns(
                pl.col(ID).is_in(changes[ID].implode()).alias(CHANGED),
                pl.lit(None, dtype=pl.Int32).alias(BEFORE),
                pl.lit(False).alias(GHOST),
                pl.lit(True).alias(WHOLE),
            )
            kept = pl.concat([kept, lists.ranked(rows).select(kept.columns)])
        groups = groups.drop(COUNT).with_columns(pl.col(WHOLE) | is_short)
        return _counted(groups, kept, COUNT), kept

    def _keep(self, groups: pl.DataFrame, after: pl.DataFrame, table: Table) -> None:
        import polars as pl

        best = pl.struct(self._columns).alias(BEST)
        lists = after.group_by(KEY, maintain_order=True).agg(best)
        there = groups.drop(BEST).join(lists, on=KEY)
        table.put(there.select(KEY, BEST, LAST, WHOLE, VERSION, DUE))
        if there.height < groups.height:
            table.remove(groups.filter(pl.col(COUNT) == 0)[KEY])

    def _put_out(
        self, new: pl.DataFrame, gone: pl.DataFrame, groups: pl.DataFrame, *, timed: bool
    ) -> Iterator[Output]:
        import polars as pl

        names = [name for name in self._columns if name not in (*HIDDEN, ID)]
        place = [ORDER] if self._context.ordered else []
        columns = [KEY, *names, RANK, *place, DELETE]
        both = [
            rows.with_columns(pl.lit(deleted).alias(DELETE)).select(columns)
            for rows, deleted in ((new, False), (gone, True))
        ]
        out = pl.concat(both)
        if timed:
            out = out.join(groups.select(KEY, pl.col(LAST).alias(EVENT_TIME)), on=KEY)
        hidden = [name for name in HIDDEN if name in out.columns]
        out = out.select(*names, RANK, *hidden)
        for start in range(0, out.height, MOST_ROWS):
            yield self._context.stream, out.slice(start, MOST_ROWS)


def _counted(groups: pl.DataFrame, rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Add the number of rows of each group to the groups."""
    import polars as pl

    counts = rows.group_by(KEY).agg(pl.len().cast(pl.Int64).alias(name))
    joined = groups.join(counts, on=KEY, how="left", maintain_order="left")
    return joined.with_columns(pl.col(name).fill_null(0))
