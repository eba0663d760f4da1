"""The columns for display: the key under its names, stored rows, then metadata columns.

State may also be shown as it is stored, under the operators' names. A call is stored under its
text, which may contain a secret: as in checkpoints, such a text is marked and named by a hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from headrace.core.operators.folds import ROW_TIME, get_row_types
from headrace.core.pipeline.text import MASK
from headrace.core.state_reader.state_schema import StateKey
from headrace.core.types.data_types import quote_name
from headrace.core.types.elements import HIDDEN_COLUMNS, ORDER

if TYPE_CHECKING:
    import polars as pl

ROW_NUMBER = "__row"
"""The rank of a stored row among those of its key."""


def move_to_end(frame: pl.DataFrame, display_names: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """Move those of these columns that the frame has to its end, under their display names.

    >>> import polars as pl
    >>> move_to_end(pl.DataFrame({"__until": [1], "until": ["x"]}), [("__until", "until")]).columns
    ['until', 'until_']
    """
    import polars as pl

    last = {name: shown for name, shown in display_names if name in frame.columns}
    used_names = [name for name in frame.columns if name not in last]
    columns = [pl.col(name) for name in used_names]
    for name, shown in last.items():
        used_names.append(make_unique_name(shown, used_names))
        columns.append(pl.col(name).alias(used_names[-1]))
    return frame.select(columns)


def make_unique_name(name: str, used_names: Sequence[str]) -> str:
    """Return the name with as many underscores as make it unique."""
    while name in used_names:
        name += "_"
    return name


def explode_stored_rows(
    frame: pl.DataFrame,
    list_column: str,
    key: StateKey,
    before: Sequence[str],
    number: str,
    numbers: pl.Series | None = None,
) -> pl.DataFrame:
    """Return a row for each row that is stored in a list, numbered, after the columns `before`.

    `numbers` are lists with the numbers of the rows; by default they are counted from 1.

    A key column that the rows contain as well is shown once.
    """
    import polars as pl

    same = {n for n, text in zip(key.names, key.expressions, strict=True) if text == quote_name(n)}
    inside = [
        n for n in get_row_types(frame.schema, list_column) if n not in (*HIDDEN_COLUMNS, ROW_TIME)
    ]
    used_names, rows = [*before, number], list[pl.Expr]()
    for name in inside:
        if name not in same:
            used_names.append(make_unique_name(name, used_names))
            rows.append(pl.col(list_column).struct.field(name).alias(used_names[-1]))
    counted = pl.int_ranges(1, pl.col(list_column).list.len() + 1, dtype=pl.Int32)
    listed = counted if numbers is None else pl.lit(numbers)
    exploded = frame.with_columns(listed.alias(ROW_NUMBER)).explode(
        list_column, ROW_NUMBER, empty_as_null=False
    )
    other_columns = [name for name in frame.columns if name not in (*before, list_column)]
    shown = pl.col(ROW_NUMBER).alias(make_unique_name(number, [*before]))
    return exploded.select(*before, shown, *rows, *other_columns)


def sort_stored_rows(frame: pl.DataFrame, list_column: str) -> pl.DataFrame:
    """Sort the rows that are stored in a list by their position among all rows."""
    import polars as pl

    place = pl.element().struct.field(ORDER)
    return frame.with_columns(pl.col(list_column).list.eval(pl.element().sort_by(place)))


def mask_secret_columns(frame: pl.DataFrame, calls: Iterable[str]) -> pl.DataFrame:
    """Rename the columns that have secrets in their names; `calls` are those that are stored."""
    secret = {call for call in calls if call.startswith(MASK)}
    if not secret:
        return frame
    return frame.rename({name: _mask_name(name, secret) for name in frame.columns})


def _mask_name(name: str, secret: set[str]) -> str:
    call, dot, part = name.removeprefix("__").rpartition(".")
    masked = f"{MASK} {sha256(call.encode()).hexdigest()[:8]}"
    return f"{masked}{dot}{part}" if masked in secret else name
