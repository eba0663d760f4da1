"""Records from rows: topics, partitions, keys, values, headers and timestamps, in columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import time
from typing import TYPE_CHECKING

from headrace.connectors.formats import BytesEncoder
from headrace.connectors.formats.json_encode import JsonEncoder
from headrace.connectors.kafka.sink.batches import SIZE, Headers, Records
from headrace.connectors.kafka.sink.keys import keys
from headrace.connectors.kafka.sink.murmur import partitions
from headrace.core.contracts import ConnectorError
from headrace.core.elements import DELETE
from headrace.core.types import Schema

if TYPE_CHECKING:
    import polars as pl

TOPIC = "__topic"
SAMPLE = 100
"""Rows from which the average size of a row is estimated."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The mapping of rows to records; columns that it does not name are dropped."""

    values: Schema
    encoder: BytesEncoder | None
    """None: the value is the only column, as bytes."""
    key: Schema
    partition_by: Schema
    topic: str = ""
    row_topic: pl.Expr | None = None
    headers: Mapping[str, pl.Expr] = field(default_factory=dict)
    timestamp: str | None = None
    deletes: bool = False

    def by_topic(self, frame: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
        """Divide rows by topic, in order."""
        if self.row_topic is None:
            return [(self.topic, frame)]
        named = frame.with_columns(self.row_topic.alias(TOPIC))
        if named[TOPIC].null_count():
            row = named.filter(named[TOPIC].is_null()).head(1)
            shown = JsonEncoder(self.values).encode(row).decode().strip()
            hint = "the expression is null there: filter such rows, or use coalesce"
            raise ConnectorError(f"a row has no topic: {shown}", hint, final=True)
        parts = named.partition_by(TOPIC, maintain_order=True, include_key=True)
        return [(part.item(0, TOPIC), part) for part in parts]


@dataclass(slots=True)
class Encoding:
    """Makes records of one subtask's rows; rows without a key go to partitions in turn."""

    recipe: Recipe
    turn: int = 0
    clock: Callable[[], float] = time

    def records(self, topic: str, frame: pl.DataFrame, count: int) -> Records:
        """Encode rows of a topic that has `count` partitions."""
        values = self._values(frame)
        named = self._keys(frame)
        return Records(
            topic,
            self._partitions(frame, named, values, count),
            [None] * frame.height if named is None else named.to_list(),
            values,
            self._times_ms(frame),
            self._headers(frame),
        )

    def _values(self, frame: pl.DataFrame) -> Sequence[bytes | None]:
        recipe, values = self.recipe, self._encoded(frame)
        if not recipe.deletes or not frame[DELETE].any():
            return values
        gone = frame[DELETE].to_list()
        return [None if is_gone else value for value, is_gone in zip(values, gone, strict=True)]

    def _encoded(self, frame: pl.DataFrame) -> Sequence[bytes | None]:
        import polars as pl

        recipe = self.recipe
        if recipe.encoder is None:
            found: list[bytes | None] = (
                frame[recipe.values.fields[0].name].cast(pl.Binary).to_list()
            )
            return found
        return split(recipe.encoder, frame.select(recipe.values.names))

    def _keys(self, frame: pl.DataFrame) -> pl.Series | None:
        return keys(frame, self.recipe.key) if len(self.recipe.key) else None

    def _partitions(
        self,
        frame: pl.DataFrame,
        named: pl.Series | None,
        values: Sequence[bytes | None],
        count: int,
    ) -> Sequence[int]:
        by = keys(frame, self.recipe.partition_by) if len(self.recipe.partition_by) else named
        if by is None:
            return self._in_turn(values, count)
        found = partitions(by, count)
        if not by.null_count():
            return found  # type: ignore[return-value] # none of them is None then
        turns = self._in_turn(values, count)
        return [turns[at] if number is None else number for at, number in enumerate(found)]

    def _in_turn(self, values: Sequence[bytes | None], count: int) -> list[int]:
        """Assign partitions to rows without a key: the same one for as many as fill a batch."""
        rows = len(values)
        some = values[:: max(1, rows // SAMPLE)]
        size = sum(len(value or b"") for value in some) / max(1, len(some))
        run = max(1, int(SIZE / max(size, 1)))
        first, self.turn = self.turn, self.turn + (rows + run - 1) // run
        return [(first + at // run) % count for at in range(rows)]

    def _times_ms(self, frame: pl.DataFrame) -> Sequence[int]:
        now_ms = int(self.clock() * 1000)
        if self.recipe.timestamp is None:
            return [now_ms] * frame.height
        times = frame[self.recipe.timestamp].dt.epoch("ms").fill_null(now_ms)
        found: list[int] = times.to_list()
        return found

    def _headers(self, frame: pl.DataFrame) -> Sequence[Headers] | None:
        import polars as pl

        if not self.recipe.headers:
            return None
        columns = frame.select(
            expr.cast(pl.Binary).alias(name) for name, expr in self.recipe.headers.items()
        )
        if columns.height != frame.height:  # all of them are constants
            columns = pl.concat([columns] * frame.height)
        return [_present(columns.columns, row) for row in columns.iter_rows()]


def _present(names: Sequence[str], row: tuple[bytes | None, ...]) -> Headers:
    pairs = zip(names, row, strict=True)
    return [(name, value) for name, value in pairs if value is not None]


def split(encoder: BytesEncoder, frame: pl.DataFrame) -> list[bytes]:
    """Encode each row separately, without its line end.

    A CSV value may contain line ends: then rows are encoded in halves, down to single rows.
    """
    data = encoder.encode(frame)
    lines = data.split(b"\n")
    lines.pop()
    if len(lines) == frame.height:
        return lines
    if frame.height == 1:
        return [data[:-1]]
    middle = frame.height // 2
    return split(encoder, frame[:middle]) + split(encoder, frame[middle:])
