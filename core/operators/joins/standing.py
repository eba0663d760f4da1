"""One input of a changelog join, materialised: the current rows of each join key.

The state of a key is a list of its rows. Rows of one join key are identified by the columns of
their own key that are not part of the join key.
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
"""The state columns with the rows of a key, on each side; null where there are none."""
IDS = ("__left_id", "__right_id")
"""The encoded id of a row among those of its key, never null."""
GONE = "__gone"
"""Whether a changelog row is a delete."""
WAS = "__was"
"""The number of the row that a change replaces; null for a new row."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The effect of changes on the rows of their keys, without changes that leave a row equal."""

    before: pl.DataFrame
    """The rows that are replaced or deleted, with the time of the change."""
    after: pl.DataFrame
    """The new rows, and the replacements of others."""
    untouched: pl.DataFrame
    """The other rows of these keys."""
    rows: pl.DataFrame
    """All rows of these keys after the changes."""

    @property
    def changes(self) -> bool:
        """Whether any row changes."""
        return bool(self.before.height or self.after.height)


class Standing:
    """The materialised rows of one side."""

    def __init__(
        self, operation: nodes.Join, which: int, key: tuple[str, ...], *, ordered: bool
    ) -> None:
        """`key` are the columns of the changelog key of this input."""
        import polars as pl

        side = operation.right if which == RIGHT else operation.left
        met_by = {each.value.name for each in side.key if isinstance(each.value, Column)}
        self.rest = tuple(name for name in key if name not in met_by)
        """The columns that identify rows of a join key; if empty, each key has one row."""
        self.side = Sided(operation, which, ordered=ordered)
        self.id = IDS[which]
        self.by = (KEY, self.id)
        self.rows_of = ROWS[which]
        own = {name: type for name, type in self.side.types.items() if name not in self.side.key}
        self._row = {**({self.id: pl.String()} if self.rest else {}), **own}
        self.type = pl.List(pl.Struct(self._row))
        """The type of the state column."""

    def changes(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the last change of each row, with KEY, its id, and IS_DELETE."""
        import polars as pl

        gone = frame[DELETE].fill_null(False) if DELETE in frame.columns else pl.lit(False)
        own = encoded(frame[list(self.rest)]) if self.rest else pl.lit("")
        rows = self.side.encoded(self.side.rows(frame))
        rows = rows.with_columns_seq(own.alias(self.id), gone.alias(GONE))
        return rows.unique(self.by, keep="last", maintain_order=True)

    def rows(self, found: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of the found states."""
        import polars as pl

        full = found.select(KEY, self.rows_of)
        if found[self.rows_of].null_count():
            full = full.filter(pl.col(self.rows_of).is_not_null())
        rows = full.explode(self.rows_of).unnest(self.rows_of)
        return rows if self.rest else rows.with_columns_seq(pl.lit("").alias(self.id))

    def listed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Collect the rows of each key into the list that is stored."""
        import polars as pl

        kept = pl.struct(*self._row).alias(self.rows_of)
        return rows.group_by(KEY, maintain_order=True).agg(kept)

    def touched(self, changes: pl.DataFrame, rows: pl.DataFrame) -> Touched:
        """Apply these changes to the stored rows of their keys."""
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
        """Return which of the changes add, delete or modify a row."""
        import polars as pl

        was = rows.select(pl.col(self.side.columns).gather(asked[WAS]))
        known = asked[WAS].is_not_null()
        differs = ~known
        for name in self.side.columns:
            differs |= asked[name].ne_missing(was[name])
        return (asked[GONE] & known) | (~asked[GONE] & differs)


def _without(rows: pl.DataFrame, numbers: pl.Series) -> pl.DataFrame:
    """Return the rows except those with these numbers."""
    import polars as pl

    if not len(numbers):
        return rows
    kept = pl.repeat(True, rows.height, eager=True).scatter(numbers, False)
    return rows.filter(kept)
