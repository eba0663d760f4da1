"""Changelog operators over literal rows: their output, and the table that it maintains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import polars as pl

from headrace.core.aggregates import type_aggregate_text
from headrace.core.api.state import StepState
from headrace.core.api.state_backend import StateOwnership
from headrace.core.expressions import type_expression
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import Operator, Output
from headrace.core.plan.nodes import Aggregate, AggregatedColumn, ComputedColumn, Filter
from headrace.core.plan.nodes.windows import Ttl
from headrace.core.types.data_types import Field, Schema
from headrace.core.types.elements import DELETE, EVENT_TIME, HIDDEN_COLUMNS
from headrace.core.types.row_order import add_row_order
from headrace.core.types.type_parser import parse_type
from headrace.state.memory.backend import MemoryBackend

ALL = StateOwnership("step", 0, range(8), 8)


def schema_of(**columns: str) -> Schema:
    """Return the schema of columns with types as in YAML."""
    return Schema(tuple(Field(name, *parse_type(type)) for name, type in columns.items()))


def computed(schema: Schema, *keys: str, **named: str) -> tuple[ComputedColumn, ...]:
    """Return the columns of a key."""
    pairs = {**{key: key for key in keys}, **named}
    return tuple(
        ComputedColumn(name, type_expression(text, schema)) for name, text in pairs.items()
    )


def aggregate(
    schema: Schema,
    key: tuple[ComputedColumn, ...],
    columns: Mapping[str, str],
    having: str | None = None,
    ttl: Ttl | None = None,
) -> Aggregate:
    """Return a running aggregate."""
    keys = tuple(Field(each.name, each.value.type, each.value.nullable) for each in key)
    typed = {n: type_aggregate_text(text, schema, Schema(keys)) for n, text in columns.items()}
    out = Schema((*keys, *(Field(name, each.type) for name, each in typed.items())))
    return Aggregate(
        key,
        None,
        tuple(AggregatedColumn(name, each, columns[name]) for name, each in typed.items()),
        Filter(type_expression(having, out), having) if having else None,
        ttl,
    )


@dataclass(slots=True)
class Clock:
    """A wall clock that stands still."""

    now_us: int = 0

    def __call__(self) -> int:
        return self.now_us


def place(
    state: StepState | None = None, clock: Clock | None = None, *, ordered: bool = False
) -> KeyedContext:
    """Return the key context of an operator whose output stream is `out`."""
    state = state or MemoryBackend().open_state(ALL)
    return KeyedContext("out", state, clock or Clock(), ordered, frozenset())


def timed(frame: pl.DataFrame, times: Sequence[int], *, ordered: bool = False) -> pl.DataFrame:
    """Add event times in seconds to the rows, and positions if `ordered`."""
    at = pl.Series(EVENT_TIME, [t * 1_000_000 for t in times]).cast(pl.Datetime("us", "UTC"))
    frame = frame.with_columns(at)
    return add_row_order(frame, pl.int_range(pl.len())) if ordered else frame


def second(at: int) -> datetime:
    """Return that second of the epoch."""
    return datetime.fromtimestamp(at, UTC)


@dataclass(slots=True)
class Table:
    """The table that a changelog maintains: the last row of each key that was not deleted."""

    key: tuple[str, ...]
    rows: dict[tuple[object, ...], tuple[object, ...]] = field(default_factory=dict)
    deletes: int = 0

    def take(self, outputs: Iterable[Output]) -> None:
        """Apply changelog rows; a delete must delete a row."""
        for _, frame in outputs:
            deleted = frame[DELETE].to_list()
            shown = frame.drop(HIDDEN_COLUMNS, strict=False)
            keys = shown.select(self.key).rows() if self.key else [()] * shown.height
            for key, row, gone in zip(keys, shown.rows(), deleted, strict=True):
                if gone:
                    del self.rows[key]
                    self.deletes += 1
                else:
                    self.rows[key] = row


def rows_of(outputs: Iterator[Output]) -> list[tuple[object, ...]]:
    """Return all output rows, sorted; with the hidden columns."""
    return sorted((row for _, frame in outputs for row in frame.rows()), key=repr)


def cut(frame: pl.DataFrame, ends: Iterable[int]) -> Iterator[pl.DataFrame]:
    """Split the frame at these rows."""
    start = 0
    for end in (*sorted(ends), frame.height):
        if end > start:
            yield frame.slice(start, end - start)
            start = end


def fed(operator: Operator, pieces: Iterable[pl.DataFrame]) -> Iterator[Output]:
    """Return the output of an operator for these batches."""
    for piece in pieces:
        yield from operator.process(piece)
