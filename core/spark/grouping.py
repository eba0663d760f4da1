"""Key columns of the rows of a keyed operation, grouped as headrace's operators group them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.plan import nodes
from headrace.core.plan.windows import Count, Cumulate, Slide, Ttl, Window, WindowShape
from headrace.core.spark.expressions import translate_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_WINDOWS_PER_ROW = 64
"""Spark copies a row for each of its windows; headrace's operators merge panes instead."""


def is_native_grouping(window: Window | None, ttl: Ttl | None) -> bool:
    """Whether Spark can group the rows: by their values, not by their number or arrival time."""
    if window is None or ttl is not None:
        return ttl is None
    parts = window.trigger is not None and not window.keeps_rows
    special = window.uses_processing_time or window.evict is not None or parts
    return not special and _is_native_shape(window.shape)


def _is_native_shape(shape: WindowShape) -> bool:
    match shape:
        case Slide(size, every) | Cumulate(size, every):
            return size <= every * MAX_WINDOWS_PER_ROW
    return not isinstance(shape, Count)


def key_column_names(operation: nodes.KeyedOperation) -> tuple[str, ...]:
    """Return the names of the key columns while rows are grouped."""
    return tuple(f"__k{at}" for at in range(len(operation.key)))


def add_key_columns(rows: DataFrame, key: Sequence[nodes.ComputedColumn]) -> DataFrame | None:
    """Add the key columns to the rows; None if Spark cannot compute one of them."""
    from pyspark.sql import functions as f

    texts = {f"__k{at}": translate_column(each) for at, each in enumerate(key)}
    columns = {name: f.expr(text) for name, text in texts.items() if text is not None}
    if len(columns) < len(texts):
        return None
    return rows.withColumns(columns) if columns else rows
