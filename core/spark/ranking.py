"""`top` and `dedup` as Spark runs them: rows of a key are numbered, and the first ones remain.

Ties are broken by the position of rows among all rows (ORDER), so that column is required.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.ordinals import ORDER_TYPE
from headrace.core.plan import nodes
from headrace.core.plan.rankings import parse_ordering
from headrace.core.spark.columns import Columns, quote_column
from headrace.core.spark.expressions import translate_expression, types_match
from headrace.core.spark.grouping import add_key_columns, is_native_grouping, key_column_names
from headrace.core.spark.windows import LAST_TIME, WINDOW_NUMBER, assign_windows
from headrace.core.types import Struct

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RANK_COLUMN = "__number"
"""The rank of a row among those of its key, from 1."""


def rank_rows(rows: DataFrame, operation: nodes.Top, wanted: Columns) -> DataFrame | None:
    """Return the rows of a `top` with these columns; None if Spark's would differ."""
    window = operation.window
    by = _sort_columns(operation)
    keyed = add_key_columns(rows, operation.key)
    # Rows of windows get a new position, from a number that headrace derives from their key.
    placed_anew = window is not None and ORDER in wanted
    if by is None or keyed is None or placed_anew or not is_native_grouping(window, operation.ttl):
        return None
    keys, time = [*key_column_names(operation)], EVENT_TIME
    windows = assign_windows(keyed, window.shape, keys) if window else None
    if windows is not None:
        keyed, time = windows.rows, windows.event_time
        keys.append(WINDOW_NUMBER)
        if windows.last_time_aggregate:
            keyed = _add_last_time(keyed, windows.last_time_aggregate, keys)
    elif window is not None and EVENT_TIME in wanted:
        keyed, time = _add_last_time(keyed, f"max({EVENT_TIME})", keys), LAST_TIME
    first = _add_rank(keyed, keys, by).where(f"{RANK_COLUMN} <= {operation.rows}")
    shown = _select_columns(first, wanted, {nodes.RANK_COLUMN: RANK_COLUMN, EVENT_TIME: time})
    return shown if types_match(shown, wanted) else None


def deduplicate_rows(rows: DataFrame, operation: nodes.Dedup, wanted: Columns) -> DataFrame | None:
    """Return the first or last row of each key with these columns; None if Spark's would differ."""
    keyed = add_key_columns(rows, operation.key)
    if keyed is None or operation.ttl is not None or ORDER not in rows.columns:
        return None
    by = _order_columns(descending=operation.keep == "last")
    shown = _select_columns(
        _add_rank(keyed, key_column_names(operation), by).where(f"{RANK_COLUMN} = 1"), wanted, {}
    )
    return shown if types_match(shown, wanted) else None


def _sort_columns(operation: nodes.Top) -> list[Column] | None:
    """Return the sort columns of a `top`; None if Spark cannot compute one of them."""
    from pyspark.sql import functions as f

    by = []
    for each in operation.by:
        end, _, _ = parse_ordering(each.text)
        text = translate_expression(each.text[:end], each.value)
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
    return [*by, *_order_columns(descending=False)]


def _order_columns(*, descending: bool) -> list[Column]:
    from pyspark.sql import functions as f

    assert isinstance(ORDER_TYPE, Struct)
    parts = [f.col(f"{ORDER}.{field.name}") for field in ORDER_TYPE.fields]
    return [part.desc() if descending else part.asc() for part in parts]


def _add_rank(rows: DataFrame, keys: Sequence[str], by: Sequence[Column]) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    return rows.withColumn(RANK_COLUMN, f.row_number().over(Window.partitionBy(*keys).orderBy(*by)))


def _add_last_time(rows: DataFrame, last: str, keys: Sequence[str]) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    return rows.withColumn(LAST_TIME, f.expr(last).over(Window.partitionBy(*keys)))


def _select_columns(rows: DataFrame, wanted: Columns, others: dict[str, str]) -> DataFrame:
    """Select the wanted columns, some of them from other columns."""
    columns = ((others.get(name, quote_column(name)), quote_column(name)) for name in wanted)
    return rows.selectExpr(*(f"{text} as {name}" for text, name in columns))
