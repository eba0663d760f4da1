"""The state of steps that read a changelog: the result of each group, and its current rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.operators.changes.filed import VERSION, newest
from headrace.core.operators.changes.latest import GONE, ID, LAST
from headrace.core.operators.changes.lists import WHOLE
from headrace.core.operators.changes.running import ROW, row_columns
from headrace.core.operators.changes.top import DUE
from headrace.core.operators.top import BEST
from headrace.core.plan import nodes
from headrace.core.readable.columns import free, listed
from headrace.core.readable.meaning import Meaning
from headrace.core.state import SLOT
from headrace.core.types import TIMESTAMP, quoted, to_polars

if TYPE_CHECKING:
    import polars as pl


def keys_columns(meaning: Meaning, row: dict[str, pl.DataType]) -> dict[str, pl.DataType]:
    """Return the columns that are stored of a group; `row` are those of stored rows."""
    import polars as pl

    if isinstance(meaning.operation, nodes.Top):
        best = {BEST: pl.List(pl.Struct({**row, ID: pl.String()})), LAST: to_polars(TIMESTAMP)}
        return {**best, WHOLE: pl.Boolean(), VERSION: pl.Int64(), DUE: pl.Int64()}
    assert isinstance(meaning.operation, nodes.Aggregate), "nothing else reads changes"
    return {ROW: pl.Struct(row_columns(meaning.operation)), LAST: to_polars(TIMESTAMP)}


def of_keys(meaning: Meaning, table: pl.DataFrame) -> pl.DataFrame:
    """Return the emitted rows of each group; `table` has the columns of the key in front."""
    import polars as pl

    if isinstance(meaning.operation, nodes.Top):
        shown = table.with_columns(pl.col(BEST).list.head(meaning.operation.rows))
        names = meaning.key.names
        return listed(shown, BEST, meaning.key, names, "rank").drop(ID, WHOLE, VERSION, DUE)
    rows = table.select(ROW, LAST).unnest(ROW)
    return rows.drop(meaning.hidden, strict=False)


def rows_columns(
    key: dict[str, pl.DataType], row: dict[str, pl.DataType]
) -> dict[str, pl.DataType]:
    """Return the columns with which rows are stored."""
    import polars as pl

    return {**key, **row, ID: pl.String(), GONE: pl.Boolean(), SLOT: pl.Int64()}


def of_rows(meaning: Meaning, inside: Sequence[str], rows: pl.DataFrame) -> pl.DataFrame:
    """Return the current rows, each with its id; the key comes first."""
    if GONE in rows.columns:
        rows = newest(rows)
        rows = rows.filter(~rows[GONE])
    shown = keyed(meaning, inside, rows.drop(ORDER, SLOT, GONE, strict=False))
    return shown.sort(shown.columns[: len(inside) + 1])


def keyed(meaning: Meaning, inside: Sequence[str], rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the columns of their key in front, under their names."""
    import polars as pl

    names, taken = meaning.key.names, [*meaning.key.names]
    same = {n for n, text in zip(names, meaning.key.texts, strict=True) if text == quoted(n)}
    shown = [pl.col(k).alias(n) for k, n in zip(inside, names, strict=True)]
    if ID in rows.columns:
        taken.append(free("row", taken))
        shown.append(pl.col(ID).alias(taken[-1]))
    for name in (n for n in rows.columns if n not in (*inside, *same, EVENT_TIME, ID)):
        taken.append(free(name, taken))
        shown.append(pl.col(name).alias(taken[-1]))
    return rows.select(*shown, *(n for n in (EVENT_TIME,) if n in rows.columns))
