"""Rows as plain Python values, and expressions over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.typed import (
    PROCESSING_TIME,
    ColumnReference,
    TypedExpression,
    find_inputs,
    walk,
)
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import EVENT_TIME

Value = Any


@dataclass(frozen=True)
class Row:
    """A row: its columns, its event time (microseconds), its position in the order of all rows."""

    values: dict[str, Value]
    time: int | None
    order: tuple[int, ...]
    clock_us: int = 0
    """The time of the wall clock at which it arrived or was emitted."""


def evaluated(typed: TypedExpression, rows: Sequence[Row]) -> list[Value]:
    """Evaluate an expression for each row, by the compiler, which is tested elsewhere."""
    if not rows:
        return []
    frame = frame_of(rows, [typed])
    return frame.with_columns(to_expr(typed).alias("__value"))["__value"].to_list()


def frame_of(rows: Sequence[Row], expressions: Sequence[TypedExpression]) -> pl.DataFrame:
    """Build a frame of the columns that these expressions read."""
    types = {
        node.name: to_polars(node.type)
        for expression in expressions
        for node in walk(expression)
        if isinstance(node, ColumnReference)
    }
    data = {
        name: pl.Series(name, [_value(row, name) for row in rows], dtype=type)
        for name, type in types.items()
    }
    if any(PROCESSING_TIME in find_inputs(each) for each in expressions):
        clocks = [row.clock_us for row in rows]
        data[PROCESSING_TIME] = pl.Series(PROCESSING_TIME, clocks, dtype=pl.Int64)
    return pl.DataFrame({"__row": pl.Series("__row", range(len(rows))), **data})


def _value(row: Row, name: str) -> Value:
    if name != EVENT_TIME or row.time is None:
        return row.values.get(name) if name == EVENT_TIME else row.values[name]
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=row.time)


def same(value: Value) -> Value:
    """Return a value as a key: NaN equals NaN, and zero has no sign."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value
