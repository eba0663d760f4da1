"""Migration of the state of a join that was changed to its new definition.

Allowed changes are: which columns of a row are stored, their internal names (a column that both
inputs have is prefixed with the name of its input), whether rows have a position in the row order,
and whether they expire. New columns are null, and the position of earlier rows is the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.expressions.typed import ColumnReference
from headrace.core.operators.joins.everywhere import RULES_STATE
from headrace.core.operators.joins.laid_out import get_state_layouts
from headrace.core.operators.joins.sides import NUMBER_COLUMNS
from headrace.core.operators.joins.standing import ROW_COLUMNS
from headrace.core.operators.joins.versions import VERSIONS_STATE
from headrace.core.operators.kept import get_row_types
from headrace.core.plan import nodes
from headrace.core.plan.matching import AsOfMatch, ChangelogMatch
from headrace.core.state import EXPIRY

if TYPE_CHECKING:
    import polars as pl

    Columns = Mapping[str, pl.DataType]


def build_join_migrations(
    join: nodes.Join, *, ordered: bool
) -> dict[str, Callable[[pl.DataFrame], pl.DataFrame]]:
    """Return the migration of each frame, by the name of its state."""
    layouts = get_state_layouts(join, ordered=ordered)
    return {name: partial(_migrate_frame, join, name, wanted) for name, wanted in layouts.items()}


def _migrate_frame(
    join: nodes.Join, name: str, wanted: Columns, frame: pl.DataFrame
) -> pl.DataFrame:
    """Return the frame with these columns, in order, and EXPIRY if rows still expire."""
    import polars as pl

    is_right = name.endswith("right") or name in (VERSIONS_STATE, RULES_STATE)
    side = join.right if is_right else join.left
    columns = [
        _migrate_list(join, each, wanted, frame.schema)
        if each in ROW_COLUMNS
        else _migrate_column(side, each, type, frame.columns, pl.col)
        for each, type in wanted.items()
    ]
    ttl = isinstance(join.matching, AsOfMatch) and join.matching.ttl_us is not None
    ttl |= isinstance(join.matching, ChangelogMatch) and join.matching.ttl is not None
    return frame.select(*columns, *([EXPIRY] if ttl and EXPIRY in frame.columns else []))


def _migrate_list(join: nodes.Join, name: str, wanted: Columns, frame: Columns) -> pl.Expr:
    """Migrate the rows of a key that are stored as a list."""
    import polars as pl

    side = join.right if name == ROW_COLUMNS[1] else join.left
    field, there = pl.element().struct.field, get_row_types(frame, name)
    types = get_row_types(wanted, name)
    row = [_migrate_column(side, each, type, there, field) for each, type in types.items()]
    return pl.col(name).list.eval(pl.struct(row))


def _migrate_column(
    side: nodes.JoinSide,
    name: str,
    type: pl.DataType,
    there: Iterable[str],
    read: Callable[[str], pl.Expr],
) -> pl.Expr:
    """Return the stored column, possibly under another name, or a constant for a new one."""
    import polars as pl

    of = {
        each.name: each.value.name
        for each in side.columns
        if isinstance(each.value, ColumnReference)
    }
    names = (name, of[name], f"{side.name}.{of[name]}") if name in of else (name,)
    found = next((each for each in names if each in there), None)
    if found is not None:
        return read(found).alias(name)
    return pl.lit(0 if name in NUMBER_COLUMNS else None, dtype=type).alias(name)
