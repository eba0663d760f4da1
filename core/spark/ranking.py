"""`top` and `dedup` as Spark runs them: rows of a key are numbered, and the first ones remain.

Ties are broken by the position of rows among all rows (ORDER), so that column is required.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.ordinals import ORDER_TYPE
from headrace.core.plan import nodes
from headrace.core.plan.rankings import ordering
from headrace.core.spark.columns import Columns, quoted
from headrace.core.spark.expressions import sql, types_match
from headrace.core.spark.grouping import inside, is_plain, with_key
from headrace.core.spark.windows import LAST, SLOT, windowed
from headrace.core.types import Struct

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NUMBER = "__number"
"""The rank of a row among those of its key, from 1."""


def ranked(rows: DataFrame, operation: nodes.Top, wanted: Columns) -> DataFrame | None:
    """Return the rows of a `top` with these columns; None if Spark's would differ."""
    window = operation.window
    by = _ranking(operation)
    keyed = with_key(rows, operation.key)
    # Rows of windows get a new position, from a number that headrace derives from their key.
    placed_anew = window is not None and ORDER in wanted
    if by is None or keyed is None or placed_anew or not is_plain(window, operation.ttl):
        return None
    keys, time = [*inside(operation)], EVENT_TIME
    windows = windowed(keyed, window.shape, keys) if window else None
    if windows is not None:
        keyed, time = windows.rows, windows.time
        keys.append(SLOT)
        if windows.last:
            keyed = _with_greatest(keyed, windows.last, keys)
    elif window is not None and EVENT_TIME in wanted:
        keyed, time = _with_greatest(keyed, f"max({EVENT_TIME})", keys), LAST
    first = _numbered(keyed, keys, by).where(f"{NUMBER} <= {operation.rows}")
    shown = _shown(first, wanted, {nodes.RANK: NUMBER, EVENT_TIME: time})
    return shown if types_match(shown, wanted) else None


def deduplicated(rows: DataFrame, operation: nodes.Dedup, wanted: Columns) -> DataFrame | None:
    """Return the first or last row of each key with these columns; None if Spark's would differ."""
    keyed = with_key(rows, operation.key)
    if keyed is None or operation.ttl is not None or ORDER not in rows.columns:
        return None
    by = _place(descending=operation.keep == "last")
    shown = _shown(_numbered(keyed, inside(operation), by).where(f"{NUMBER} = 1"), wanted, {})
    return shown if types_match(shown, wanted) else None


def _ranking(operation: nodes.Top) -> list[Column] | None:
    """Return the sort columns of a `top`; None if Spark cannot compute one of them."""
    from pyspark.sql import functions as f

    by = []
    for each in operation.by:
        end, _, _ = ordering(each.text)
        text = sql(each.text[:end], each.value)
        if text is None:
            return None
        column = f.expr(text)
        match each.descending, each.nulls_last:
            case False, False:
                by.append(column.asc_nulls_first())
            case False, True:
                by.append(column.asc_nulls_last())
            case True, False:
                by.append(column.desc_nulls_first())
            case _:
                by.append(column.desc_nulls_last())
    return [*by, *_place(descending=False)]


def _place(*, descending: bool) -> list[Column]:
    from pyspark.sql import functions as f

    assert isinstance(ORDER_TYPE, Struct)
    parts = [f.col(f"{ORDER}.{field.name}") for field in ORDER_TYPE.fields]
    return [part.desc() if descending else part.asc() for part in parts]


def _numbered(rows: DataFrame, keys: Sequence[str], by: Sequence[Column]) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    return rows.withColumn(NUMBER, f.row_number().over(Window.partitionBy(*keys).orderBy(*by)))


def _with_greatest(rows: DataFrame, last: str, keys: Sequence[str]) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    return rows.withColumn(LAST, f.expr(last).over(Window.partitionBy(*keys)))


def _shown(rows: DataFrame, wanted: Columns, others: dict[str, str]) -> DataFrame:
    """Select the wanted columns, some of them from other columns."""
    columns = ((others.get(name, quoted(name)), quoted(name)) for name in wanted)
    return rows.selectExpr(*(f"{text} as {name}" for text, name in columns))
