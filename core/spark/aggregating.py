"""Aggregates by key and window as Spark runs them, if Spark gives a stream's final result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.plan import nodes
from headrace.core.spark.columns import Columns, quote_column
from headrace.core.spark.expressions import translate_expression, types_match
from headrace.core.spark.grouped import translate_aggregate
from headrace.core.spark.grouping import add_key_columns, is_native_grouping, key_column_names
from headrace.core.spark.windows import LAST_TIME, WINDOW_NUMBER, WindowedFrame, assign_windows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ALL_ROWS_KEY = "__all"
"""The key column of an aggregate without a key: no rows then make no group."""


def aggregate_rows(
    rows: DataFrame, operation: nodes.Aggregate, wanted: Columns
) -> DataFrame | None:
    """Return the rows of an aggregate with these columns; None if Spark's would differ."""
    window, timed = operation.window, EVENT_TIME in wanted
    results, passes = _translate_aggregates(operation), _translate_having(operation)
    if ORDER in wanted or not is_native_grouping(window, operation.ttl):
        return None
    keyed = add_key_columns(rows, operation.key)
    if keyed is None or results is None or passes is None:
        return None
    keys = key_column_names(operation)
    windows = assign_windows(keyed, window.shape, keys) if window else None
    if windows is not None:
        grouped = _group_by_window(windows, keys, results)
        times = {**windows.bounds, EVENT_TIME: windows.event_time}
    else:
        grouped = _group_by_key(keyed, keys, results, timed)
        times = {EVENT_TIME: EVENT_TIME} if timed else {}
    shown = _select_results(grouped, operation, times).where(passes)
    return shown if types_match(shown, wanted) else None


def _translate_aggregates(operation: nodes.Aggregate) -> list[str] | None:
    """Return the SQL of each aggregate; None if Spark cannot compute one of them."""
    keys = {
        each.name: name
        for each, name in zip(operation.key, key_column_names(operation), strict=True)
    }
    texts = [translate_aggregate(column, keys) for column in operation.columns]
    known = [text for text in texts if text is not None]
    return known if len(known) == len(texts) else None


def _translate_having(operation: nodes.Aggregate) -> str | None:
    having = operation.having
    return translate_expression(having.text, having.condition) if having else "true"


def _group_by_window(
    windows: WindowedFrame, keys: Sequence[str], results: Sequence[str]
) -> DataFrame:
    from pyspark.sql import functions as f

    last = (
        [f.expr(windows.last_time_aggregate).alias(LAST_TIME)]
        if windows.last_time_aggregate
        else []
    )
    return windows.rows.groupBy(*keys, WINDOW_NUMBER).agg(*_alias_aggregates(results), *last)


def _group_by_key(
    rows: DataFrame, keys: Sequence[str], results: Sequence[str], timed: bool
) -> DataFrame:
    """Group rows by key alone.

    Without window bounds the time of a key is the greatest of its rows. No rows make no group.
    """
    from pyspark.sql import functions as f

    time = [f.max(EVENT_TIME).alias(EVENT_TIME)] if timed else []
    by = keys or (f.lit(0).alias(ALL_ROWS_KEY),)
    return rows.groupBy(*by).agg(*_alias_aggregates(results), *time)


def _alias_aggregates(results: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions as f

    return [f.expr(text).alias(f"__a{at}") for at, text in enumerate(results)]


def _select_results(
    grouped: DataFrame, operation: nodes.Aggregate, times: Mapping[str, str]
) -> DataFrame:
    """Select the columns under the user's names, with the times of their window."""
    keys = {
        each.name: name
        for each, name in zip(operation.key, key_column_names(operation), strict=True)
    }
    results = {each.name: f"__a{at}" for at, each in enumerate(operation.columns)}
    bounds = {name: time for name, time in times.items() if name != EVENT_TIME}
    hidden = {name: time for name, time in times.items() if name == EVENT_TIME}
    columns = {**keys, **bounds, **results, **hidden}
    return grouped.selectExpr(
        *(f"{text} as {quote_column(name)}" for name, text in columns.items())
    )
