"""Window operators over literal rows and times, in seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import polars as pl

from headrace.core.aggregates import type_aggregate_text
from headrace.core.api.state import StepState
from headrace.core.api.state_backend import StateOwnership
from headrace.core.expressions import type_expression
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.keyed_factory import build_keyed_operator
from headrace.core.operators.operator import Operator, Output
from headrace.core.operators.result_rows import WINDOW_END, WINDOW_START
from headrace.core.plan import nodes
from headrace.core.plan.nodes.windows import Window
from headrace.core.types.data_types import BIGINT, STRING, TIMESTAMP, Field, Schema, to_polars
from headrace.core.types.elements import DELETE, EVENT_TIME, MAX_WATERMARK_US, ORDER
from headrace.core.types.key_groups import compute_owned_groups
from headrace.core.types.row_order import ORDER_TYPE
from headrace.state.memory.backend import MemoryBackend

SCHEMA = Schema((Field("k", STRING), Field("x", BIGINT)))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FOREVER = MAX_WATERMARK_US / 1e6


def computed(**columns: str) -> tuple[nodes.ComputedColumn, ...]:
    return tuple(
        nodes.ComputedColumn(n, type_expression(text, SCHEMA)) for n, text in columns.items()
    )


def aggregate(
    window: Window, key: Sequence[str] = ("k",), having: str = "", **columns: str
) -> nodes.Aggregate:
    """An aggregate over the test's rows; without columns the number of rows and the sum of x."""
    keys = Schema(tuple(Field(name, STRING) for name in key))
    columns = columns or {"n": "count(*)", "x": "sum(x)"}
    aggregated = tuple(
        nodes.AggregatedColumn(name, type_aggregate_text(text, SCHEMA, keys), text)
        for name, text in columns.items()
    )
    bounds = tuple(Field(name, TIMESTAMP) for name in (WINDOW_START, WINDOW_END))
    results = tuple(Field(each.name, each.expression.type) for each in aggregated)
    schema = Schema((*keys, *bounds, *results))
    condition = nodes.Filter(type_expression(having, schema), having) if having else None
    named = computed(**{name: name for name in key})
    return nodes.Aggregate(named, window, aggregated, condition)


def us(seconds: float) -> int:
    return MAX_WATERMARK_US if seconds == FOREVER else round(seconds * 1_000_000)


def top(window: Window, rows: int, *by: str, key: Sequence[str] = ("k",)) -> nodes.Top:
    """The first rows by these columns; a minus before a name: the greatest first."""
    ranked = tuple(
        nodes.Ranking(
            type_expression(each.lstrip("-"), SCHEMA), each[0] == "-", each[0] == "-", each
        )
        for each in by
    )
    return nodes.Top(computed(**{name: name for name in key}), window, rows, ranked)


Row = tuple[float, str | None, int | None]
"""The time (seconds), the key, the value."""


def frame_of(rows: Sequence[Row], first: int = 0) -> pl.DataFrame:
    """The rows as they come to an operator; their ordinals count on from the first."""
    schema = {field.name: to_polars(field.type) for field in SCHEMA}
    times = pl.Series(EVENT_TIME, [us(at) for at, _, _ in rows], pl.Int64)
    frame = pl.DataFrame([row[1:] for row in rows], schema=schema, orient="row")
    order = [{"time": us(row[0]), "at": at, "part": 0} for at, row in enumerate(rows, first)]
    return frame.with_columns(
        times.cast(to_polars(TIMESTAMP)), pl.Series(ORDER, order, to_polars(ORDER_TYPE))
    )


@dataclass
class Driven:
    """An operator, and what is said to it; what it answers comes back as rows."""

    operation: nodes.KeyedOperation
    state: StepState
    operator: Operator
    came: int = 0
    now_us: int = 0

    def rows(self, *rows: Row) -> list[tuple[object, ...]]:
        """Rows have come."""
        frame = frame_of(rows, self.came)
        self.came += len(rows)
        return self.said(self.operator.process(frame))

    def time(self, seconds: float) -> list[tuple[object, ...]]:
        """The watermark has come."""
        return self.said(self.operator.advance(us(seconds)))

    def end(self) -> list[tuple[object, ...]]:
        """The stream has ended."""
        return self.time(FOREVER)

    def tick(self, seconds: float) -> list[tuple[object, ...]]:
        """The wall clock has come this far."""
        self.now_us = us(seconds)
        return self.said(self.operator.tick(self.now_us))

    def said(self, outputs: Iterator[Output]) -> list[tuple[object, ...]]:
        """Return the output: times in seconds, deletes with a minus before."""
        return [row for stream, frame in outputs for row in shown(stream, frame)]


def driven(operation: nodes.KeyedOperation, *, ordered: bool = False) -> Driven:
    """The operator over fresh state in memory."""
    state = MemoryBackend().open_state(
        StateOwnership("step", 0, compute_owned_groups(0, 1, 128), 128)
    )
    made: list[Driven] = []
    place = KeyedContext("out", state, lambda: made[0].now_us, ordered, frozenset({"late"}))
    made.append(Driven(operation, state, build_keyed_operator(operation, place)))
    return made[0]


def shown(stream: str, frame: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    """The rows of a batch for people: ("late", ...) for those of another stream than `out`."""
    deleted = frame[DELETE].to_list() if DELETE in frame.columns else [False] * frame.height
    visible = frame.drop(DELETE, ORDER, EVENT_TIME, strict=False)
    for row, gone in zip(visible.rows(), deleted, strict=True):
        values = tuple(map(plain, row))
        yield (*(("-",) if gone else ()), *((stream,) if stream != "out" else ()), *values)


def plain(value: object) -> object:
    """A time as seconds since the epoch."""
    if not isinstance(value, datetime):
        return value
    seconds = (value - EPOCH) / timedelta(seconds=1)
    return int(seconds) if seconds == int(seconds) else seconds
