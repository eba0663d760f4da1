"""One materialized side of a changelog join: the current rows of each join key.

The state of a key is a list of its rows. Rows of one join key are identified by the columns of
their own key that are not part of the join key.

The joins of small frames here have shortcuts for empty ones: a changelog join runs seven per batch,
most often with a single row, and half of them have an empty side. Polars takes longer to find that
out than for all the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.api.state import KEY
from headrace.core.expressions.typed import ColumnReference
from headrace.core.operators.joins.join_sides import RIGHT, JoinSideColumns
from headrace.core.plan import nodes
from headrace.core.types.elements import DELETE
from headrace.core.types.frames import concat_chunks
from headrace.core.types.key_groups import encode_keys
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


def inner_join(rows: pl.DataFrame, others: pl.DataFrame, by: str) -> pl.DataFrame:
    """Return the inner join of both on the column."""
    if rows.height and others.height:
        return rows.join(others, on=by)
    return rows.clear().hstack(others.clear().drop(by).get_columns())


def left_join(rows: pl.DataFrame, others: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the left join of both on the columns."""
    return rows.join(others, on=by, how="left", maintain_order="left")


def semi_join(rows: pl.DataFrame, others: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the rows that have an equal row among the others."""
    if rows.height and others.height:
        return rows.join(others, on=by, how="semi", maintain_order="left")
    return rows.clear()


def anti_join(rows: pl.DataFrame, others: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the rows that have no equal row among the others."""
    if rows.height and others.height:
        return rows.join(others, on=by, how="anti", maintain_order="left")
    return rows


ROW_COLUMNS = ("__left_rows", "__right_rows")
"""The state columns with the rows of a key, on each side; null where there are none."""


ID_COLUMNS = ("__left_id", "__right_id")
"""The encoded id of a row among those of its key, never null."""


IS_DELETE = "__gone"
"""Whether a changelog row is a delete."""


OLD_ROW = "__was"
"""The number of the row that a change replaces; null for a new row."""


@dataclass(frozen=True, slots=True)
class ChangeEffect:
    """The effect of changes on the rows of their keys, without changes that leave a row equal."""

    old_rows: pl.DataFrame
    """The rows that are replaced or deleted, with the time of the change."""
    new_rows: pl.DataFrame
    """The new rows, and the replacements of others."""
    unchanged_rows: pl.DataFrame
    """The other rows of these keys."""
    current_rows: pl.DataFrame
    """All rows of these keys after the changes."""

    @property
    def has_changes(self) -> bool:
        """Whether any row changes."""
        return bool(self.old_rows.height or self.new_rows.height)


class MaterializedSide:
    """The materialised rows of one side."""

    def __init__(
        self, operation: nodes.Join, which: int, key: tuple[str, ...], *, ordered: bool
    ) -> None:
        """`key` are the columns of the changelog key of this input."""
        import polars as pl

        side = operation.right if which == RIGHT else operation.left
        met_by = {each.value.name for each in side.key if isinstance(each.value, ColumnReference)}
        self.id_columns = tuple(name for name in key if name not in met_by)
        """The columns that identify rows of a join key; if empty, each key has one row."""
        self.side = JoinSideColumns(operation, which, ordered=ordered)
        self.id = ID_COLUMNS[which]
        self.row_columns = (KEY, self.id)
        self.state_column = ROW_COLUMNS[which]
        own = {name: type for name, type in self.side.types.items() if name not in self.side.key}
        self._row = {**({self.id: pl.String()} if self.id_columns else {}), **own}
        self.type = pl.List(pl.Struct(self._row))
        """The type of the state column."""

    def compact_changes(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the last change of each row, with KEY, its id, and IS_DELETE."""
        import polars as pl

        is_delete = frame[DELETE].fill_null(False) if DELETE in frame.columns else pl.lit(False)
        own = encode_keys(frame[list(self.id_columns)]) if self.id_columns else pl.lit("")
        rows = self.side.encode_keys(self.side.project_input(frame))
        rows = rows.with_columns_seq(own.alias(self.id), is_delete.alias(IS_DELETE))
        return rows.unique(self.row_columns, keep="last", maintain_order=True)

    def unnest_rows(self, found: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of the found states."""
        import polars as pl

        full = found.select(KEY, self.state_column)
        if found[self.state_column].null_count():
            full = full.filter(pl.col(self.state_column).is_not_null())
        rows = full.explode(self.state_column).unnest(self.state_column)
        return rows if self.id_columns else rows.with_columns_seq(pl.lit("").alias(self.id))

    def collect_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Collect the rows of each key into the list that is stored."""
        import polars as pl

        row_struct = pl.struct(*self._row).alias(self.state_column)
        return rows.group_by(KEY, maintain_order=True).agg(row_struct)

    def apply_changes(self, changes: pl.DataFrame, rows: pl.DataFrame) -> ChangeEffect:
        """Apply these changes to the stored rows of their keys."""
        import polars as pl

        was = rows.select(*self.row_columns).with_row_index(OLD_ROW)
        matched_changes = left_join(changes, was, self.row_columns)
        upserts = matched_changes.filter(~pl.col(IS_DELETE))
        changed = matched_changes.filter(self._find_differing(matched_changes, rows))
        replaced = changed.filter(pl.col(OLD_ROW).is_not_null())
        before = rows.select(pl.all().gather(replaced[OLD_ROW]))
        later = pl.max_horizontal(before[self.side.time], replaced[self.side.time])
        upserted_rows = upserts.select(rows.columns)
        return ChangeEffect(
            before.with_columns(later.alias(self.side.time)),
            changed.filter(~pl.col(IS_DELETE)).select(rows.columns),
            _drop_rows(rows, replaced[OLD_ROW]),
            concat_chunks([_drop_rows(rows, matched_changes[OLD_ROW].drop_nulls()), upserted_rows]),
        )

    def _find_differing(self, matched_changes: pl.DataFrame, rows: pl.DataFrame) -> pl.Series:
        """Return which of the changes add, delete or modify a row."""
        import polars as pl

        was = rows.select(pl.col(self.side.columns).gather(matched_changes[OLD_ROW]))
        known = matched_changes[OLD_ROW].is_not_null()
        differs = ~known
        for name in self.side.columns:
            differs |= matched_changes[name].ne_missing(was[name])
        return (matched_changes[IS_DELETE] & known) | (~matched_changes[IS_DELETE] & differs)


def _drop_rows(rows: pl.DataFrame, numbers: pl.Series) -> pl.DataFrame:
    """Return the rows except those with these numbers."""
    import polars as pl

    if not len(numbers):
        return rows
    mask = pl.repeat(True, rows.height, eager=True).scatter(numbers, False)
    return rows.filter(mask)
