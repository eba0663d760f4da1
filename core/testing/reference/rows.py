"""Rows as plain Python values, and expressions over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import polars as pl

from headrace.core.api.window_classes import EPOCH
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
from headrace.core.types.lazy_dataclass import dataclass

Value: TypeAlias = Any
"""A value of a column, as a Python object."""


@dataclass(frozen=True)
class TimedRow:
    """A row: its columns, its event time (microseconds), its position in the order of all rows."""

    values: dict[str, Value]
    time: int | None
    order: tuple[int, ...]
    clock_us: int = 0
    """The time of the wall clock at which it arrived or was emitted."""

    def as_fact(self) -> TimedRow:
        """Return the row, which may be one of a table, in the order of its event time."""
        return self if self.time is None else replace(self, order=(self.time, *self.order[1:]))


Rows: TypeAlias = "list[TimedRow]"


def convert_time(time: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return (time - EPOCH) // timedelta(microseconds=1)


def evaluate(typed: TypedExpression, rows: Sequence[TimedRow]) -> list[Value]:
    """Evaluate an expression for each row, by the compiler, which is tested elsewhere."""
    if not rows:
        return []
    frame = build_frame(rows, [typed])
    return frame.with_columns(to_expr(typed).alias("__value"))["__value"].to_list()


def build_frame(rows: Sequence[TimedRow], expressions: Sequence[TypedExpression]) -> pl.DataFrame:
    """Build a frame of the columns that these expressions read."""
    types = {
        node.name: to_polars(node.type)
        for expression in expressions
        for node in walk(expression)
        if isinstance(node, ColumnReference)
    }
    data = {
        name: pl.Series(name, [_get_value(row, name) for row in rows], dtype=type)
        for name, type in types.items()
    }
    if any(PROCESSING_TIME in find_inputs(each) for each in expressions):
        clocks = [row.clock_us for row in rows]
        data[PROCESSING_TIME] = pl.Series(PROCESSING_TIME, clocks, dtype=pl.Int64)
    return pl.DataFrame({"__row": pl.Series("__row", range(len(rows))), **data})


def _get_value(row: TimedRow, name: str) -> Value:
    if name != EVENT_TIME or row.time is None:
        return row.values.get(name) if name == EVENT_TIME else row.values[name]
    return EPOCH + timedelta(microseconds=row.time)


def normalize_key(value: Value) -> Value:
    """Return a value as a key: NaN equals NaN, and zero has no sign."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value
