"""Aggregates by key and window as Spark runs them, if Spark gives a stream's final result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.plan import nodes
from headrace.core.spark.columns import Columns, quoted
from headrace.core.spark.expressions import sql, types_match
from headrace.core.spark.grouped import aggregate_sql
from headrace.core.spark.grouping import inside, is_plain, with_key
from headrace.core.spark.windows import LAST, SLOT, Windowed, windowed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ALL = "__all"
"""The key column of an aggregate without a key: no rows then make no group."""


def aggregated(rows: DataFrame, operation: nodes.Aggregate, wanted: Columns) -> DataFrame | None:
    """Return the rows of an aggregate with these columns; None if Spark's would differ."""
    window, timed = operation.window, EVENT_TIME in wanted
    results, passes = _texts(operation), _having(operation)
    if ORDER in wanted or not is_plain(window, operation.ttl):
        return None
    keyed = with_key(rows, operation.key)
    if keyed is None or results is None or passes is None:
        return None
    keys = inside(operation)
    windows = windowed(keyed, window.shape, keys) if window else None
    if windows is not None:
        grouped = _of_windows(windows, keys, results)
        times = {**windows.bounds, EVENT_TIME: windows.time}
    else:
        grouped = _of_keys(keyed, keys, results, timed)
        times = {EVENT_TIME: EVENT_TIME} if timed else {}
    shown = _named(grouped, operation, times).where(passes)
    return shown if types_match(shown, wanted) else None


def _texts(operation: nodes.Aggregate) -> list[str] | None:
    """Return the SQL of each aggregate; None if Spark cannot compute one of them."""
    keys = {each.name: name for each, name in zip(operation.key, inside(operation), strict=True)}
    texts = [aggregate_sql(column, keys) for column in operation.columns]
    known = [text for text in texts if text is not None]
    return known if len(known) == len(texts) else None


def _having(operation: nodes.Aggregate) -> str | None:
    having = operation.having
    return sql(having.text, having.condition) if having else "true"


def _of_windows(windows: Windowed, keys: Sequence[str], results: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as f

    last = [f.expr(windows.last).alias(LAST)] if windows.last else []
    return windows.rows.groupBy(*keys, SLOT).agg(*_aliased(results), *last)


def _of_keys(
    rows: DataFrame, keys: Sequence[str], results: Sequence[str], timed: bool
) -> DataFrame:
    """Group rows by key alone.

    Without window bounds the time of a key is the greatest of its rows. No rows make no group.
    """
    from pyspark.sql import functions as f

    time = [f.max(EVENT_TIME).alias(EVENT_TIME)] if timed else []
    by = keys or (f.lit(0).alias(ALL),)
    return rows.groupBy(*by).agg(*_aliased(results), *time)


def _aliased(results: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions as f

    return [f.expr(text).alias(f"__a{at}") for at, text in enumerate(results)]


def _named(grouped: DataFrame, operation: nodes.Aggregate, times: Mapping[str, str]) -> DataFrame:
    """Select the columns under the user's names, with the times of their window."""
    keys = {each.name: name for each, name in zip(operation.key, inside(operation), strict=True)}
    results = {each.name: f"__a{at}" for at, each in enumerate(operation.columns)}
    bounds = {name: time for name, time in times.items() if name != EVENT_TIME}
    hidden = {name: time for name, time in times.items() if name == EVENT_TIME}
    columns = {**keys, **bounds, **results, **hidden}
    return grouped.selectExpr(*(f"{text} as {quoted(name)}" for name, text in columns.items()))
