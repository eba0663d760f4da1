"""Stateless operations as Spark runs them: conditions, projections, exploded arrays, routes.

Each function returns None if Spark's result would differ from headrace's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.elements import HIDDEN_COLUMNS, ORDER
from headrace.core.ordinals import PART_BITS
from headrace.core.plan import nodes
from headrace.core.spark.columns import Columns, quote_column
from headrace.core.spark.expressions import translate_column, translate_expression, types_match

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ELEMENT_INDEX = "__number"
"""The index of a row's element in its array."""


def apply_stateless(
    rows: DataFrame, operation: nodes.Operation, columns: Columns, wanted: Columns
) -> DataFrame | None:
    """Apply a stateless operation to rows with `columns`; the result has the columns `wanted`."""
    match operation:
        case nodes.Filter():
            condition = translate_expression(operation.text, operation.condition)
            return None if condition is None else rows.where(condition)
        case nodes.Project():
            return _project(rows, operation, wanted)
        case nodes.Explode():
            return _explode(rows, operation, columns)
    return None


def _project(rows: DataFrame, operation: nodes.Project, wanted: Columns) -> DataFrame | None:
    from pyspark.sql.functions import expr

    texts = [translate_column(column) for column in operation.columns]
    if None in texts:
        return None
    hidden = [quote_column(name) for name in wanted if name in HIDDEN_COLUMNS]
    named = (
        expr(text).alias(column.name)
        for text, column in zip(texts, operation.columns, strict=True)
        if text is not None
    )
    projected = rows.select(*named, *hidden)
    return projected if types_match(projected, wanted) else None


def _explode(rows: DataFrame, operation: nodes.Explode, columns: Columns) -> DataFrame | None:
    from pyspark.sql.functions import expr, posexplode, posexplode_outer

    array = translate_expression("", operation.array)
    if array is None:
        return None
    kept = [
        quote_column(name)
        for name in columns
        if name != operation.name and name not in HIDDEN_COLUMNS
    ]
    hidden = [quote_column(name) for name in columns if name in HIDDEN_COLUMNS]
    explode = posexplode_outer if operation.outer else posexplode
    elements = explode(expr(array)).alias(ELEMENT_INDEX, operation.name)
    exploded = rows.select(*kept, elements, *hidden)
    if ORDER in columns:
        part = f"{ORDER}.part * {1 << PART_BITS} + coalesce({ELEMENT_INDEX}, 0)"
        place = f"named_struct('time', {ORDER}.time, 'at', {ORDER}.at, 'part', {part})"
        exploded = exploded.withColumn(ORDER, expr(place))
    return exploded.drop(ELEMENT_INDEX)


def split_route(
    rows: DataFrame, route: nodes.Route, outputs: Sequence[nodes.Stream]
) -> dict[str, DataFrame] | None:
    """Return the rows of each output of a route, by name."""
    conditions = [translate_expression(text, condition) for _, condition, text in route.branches]
    if None in conditions:
        return None
    true = [f"coalesce(({condition}), false)" for condition in conditions]
    taken = {}
    for at, stream in enumerate(outputs):
        before = [f"not {each}" for each in true[:at]]
        taken[stream.name] = rows.where(" and ".join([*before, *true[at : at + 1]]))
    return taken
