"""Migration of the state of a join that was changed to its new definition.

Allowed changes are: which columns of a row are stored, their internal names (a column that both
inputs have is prefixed with the name of its input), whether rows have a position in the row order,
and whether they expire. New columns are null, and the position of earlier rows is the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.expressions.typed import Column
from headrace.core.operators.joins.everywhere import RULES
from headrace.core.operators.joins.laid_out import laid_out
from headrace.core.operators.joins.sides import NUMBERS
from headrace.core.operators.joins.standing import ROWS
from headrace.core.operators.joins.versions import VERSIONS
from headrace.core.operators.kept import row_types
from headrace.core.plan import nodes
from headrace.core.plan.matching import AsOf, Changing
from headrace.core.state import UNTIL

if TYPE_CHECKING:
    import polars as pl

    Columns = Mapping[str, pl.DataType]


def changes_of_join(
    join: nodes.Join, *, ordered: bool
) -> dict[str, Callable[[pl.DataFrame], pl.DataFrame]]:
    """Return the migration of each frame, by the name of its state."""
    layouts = laid_out(join, ordered=ordered)
    return {name: partial(_fitted, join, name, wanted) for name, wanted in layouts.items()}


def _fitted(join: nodes.Join, name: str, wanted: Columns, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with these columns, in order, and EXPIRY if rows still expire."""
    import polars as pl

    is_right = name.endswith("right") or name in (VERSIONS, RULES)
    side = join.right if is_right else join.left
    columns = [
        _rows(join, each, wanted, frame.schema)
        if each in ROWS
        else _column(side, each, type, frame.columns, pl.col)
        for each, type in wanted.items()
    ]
    ttl = isinstance(join.matching, AsOf) and join.matching.ttl_us is not None
    ttl |= isinstance(join.matching, Changing) and join.matching.ttl is not None
    return frame.select(*columns, *([UNTIL] if ttl and UNTIL in frame.columns else []))


def _rows(join: nodes.Join, name: str, wanted: Columns, frame: Columns) -> pl.Expr:
    """Migrate the rows of a key that are stored as a list."""
    import polars as pl

    side = join.right if name == ROWS[1] else join.left
    field, there = pl.element().struct.field, row_types(frame, name)
    types = row_types(wanted, name)
    row = [_column(side, each, type, there, field) for each, type in types.items()]
    return pl.col(name).list.eval(pl.struct(row))


def _column(
    side: nodes.Side,
    name: str,
    type: pl.DataType,
    there: Iterable[str],
    read: Callable[[str], pl.Expr],
) -> pl.Expr:
    """Return the stored column, possibly under another name, or a constant for a new one."""
    import polars as pl

    of = {each.name: each.value.name for each in side.columns if isinstance(each.value, Column)}
    names = (name, of[name], f"{side.name}.{of[name]}") if name in of else (name,)
    found = next((each for each in names if each in there), None)
    if found is not None:
        return read(found).alias(name)
    return pl.lit(0 if name in NUMBERS else None, dtype=type).alias(name)
