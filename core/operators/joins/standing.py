"""One input of changes, as it stands: of each key by which rows meet, the rows that are there now.

What is kept of a key is a list of its rows. A row is told from the others of its key by what its
own key has beside that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE
from headrace.core.expressions.typed import Column
from headrace.core.frames import together
from headrace.core.keygroups import encoded
from headrace.core.operators.joins.meeting import beside
from headrace.core.operators.joins.sides import RIGHT, Sided
from headrace.core.plan import nodes
from headrace.core.state import KEY

if TYPE_CHECKING:
    import polars as pl

ROWS = ("__left_rows", "__right_rows")
"""The columns of the state: the rows of a key, on each side; null where there are none."""
IDS = ("__left_id", "__right_id")
"""What tells a row from others of its key, as one text that is never null."""
GONE = "__gone"
"""Whether a change deletes its row."""
WAS = "__was"
"""The number of the row that a change replaces; null: it is a new one."""


@dataclass(frozen=True, slots=True)
class Touched:
    """What changes do to the rows of their keys, but for those that leave a row as it is."""

    before: pl.DataFrame
    """The rows that are replaced or deleted, with the time of that."""
    after: pl.DataFrame
    """The rows that are new, or in the place of others."""
    untouched: pl.DataFrame
    """The other rows of these keys."""
    rows: pl.DataFrame
    """All rows that there are then."""

    @property
    def changes(self) -> bool:
        """Whether any row changes."""
        return bool(self.before.height or self.after.height)


class Standing:
    """What is kept of one side."""

    def __init__(
        self, operation: nodes.Join, which: int, key: tuple[str, ...], *, ordered: bool
    ) -> None:
        """`key` are the columns that tell the rows of this input apart, as they come."""
        import polars as pl

        side = operation.right if which == RIGHT else operation.left
        met_by = {each.value.name for each in side.key if isinstance(each.value, Column)}
        self.rest = tuple(name for name in key if name not in met_by)
        """What tells rows of a key apart; where there is nothing, it has one row."""
        self.side = Sided(operation, which, ordered=ordered)
        self.id = IDS[which]
        self.by = (KEY, self.id)
        self.rows_of = ROWS[which]
        own = {name: type for name, type in self.side.types.items() if name not in self.side.key}
        self._row = {**({self.id: pl.String()} if self.rest else {}), **own}
        self.type = pl.List(pl.Struct(self._row))
        """Of the column of the state."""

    def changes(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The last change of each row, with KEY, the text that tells it apart, and GONE."""
        import polars as pl

        gone = frame[DELETE].fill_null(False) if DELETE in frame.columns else pl.lit(False)
        own = encoded(frame[list(self.rest)]) if self.rest else pl.lit("")
        rows = self.side.encoded(self.side.rows(frame))
        rows = rows.with_columns_seq(own.alias(self.id), gone.alias(GONE))
        return rows.unique(self.by, keep="last", maintain_order=True)

    def rows(self, found: pl.DataFrame) -> pl.DataFrame:
        """The rows of what was found in the state."""
        import polars as pl

        full = found.select(KEY, self.rows_of)
        if found[self.rows_of].null_count():
            full = full.filter(pl.col(self.rows_of).is_not_null())
        rows = full.explode(self.rows_of).unnest(self.rows_of)
        return rows if self.rest else rows.with_columns_seq(pl.lit("").alias(self.id))

    def listed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows as they are kept, one list a key."""
        import polars as pl

        kept = pl.struct(*self._row).alias(self.rows_of)
        return rows.group_by(KEY, maintain_order=True).agg(kept)

    def touched(self, changes: pl.DataFrame, rows: pl.DataFrame) -> Touched:
        """What these changes do to the rows that there are of their keys."""
        import polars as pl

        was = rows.select(*self.by).with_row_index(WAS)
        asked = beside(changes, was, self.by)
        came = asked.filter(~pl.col(GONE))
        changed = asked.filter(self._differs(asked, rows))
        replaced = changed.filter(pl.col(WAS).is_not_null())
        before = rows.select(pl.all().gather(replaced[WAS]))
        later = pl.max_horizontal(before[self.side.time], replaced[self.side.time])
        stay = came.select(rows.columns)
        return Touched(
            before.with_columns(later.alias(self.side.time)),
            changed.filter(~pl.col(GONE)).select(rows.columns),
            _without(rows, replaced[WAS]),
            together([_without(rows, asked[WAS].drop_nulls()), stay]),
        )

    def _differs(self, asked: pl.DataFrame, rows: pl.DataFrame) -> pl.Series:
        """Which of the changes leave another row, or none, where there was one, or the reverse."""
        import polars as pl

        was = rows.select(pl.col(self.side.columns).gather(asked[WAS]))
        known = asked[WAS].is_not_null()
        differs = ~known
        for name in self.side.columns:
            differs |= asked[name].ne_missing(was[name])
        return (asked[GONE] & known) | (~asked[GONE] & differs)


def _without(rows: pl.DataFrame, numbers: pl.Series) -> pl.DataFrame:
    """The rows without those of these numbers."""
    import polars as pl

    if not len(numbers):
        return rows
    kept = pl.repeat(True, rows.height, eager=True).scatter(numbers, False)
    return rows.filter(kept)
