"""Records from rows: topics, partitions, keys, values, headers and timestamps, in columns.

The key of a record is the text of one column, or a JSON object of several.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from time import time
from typing import TYPE_CHECKING

from headrace.connectors.formats.contract import BytesEncoder
from headrace.connectors.formats.json_encode import JsonEncoder
from headrace.connectors.kafka.sink.envelopes import EnvelopeEncoder
from headrace.connectors.kafka.sink.murmur import assign_partitions
from headrace.connectors.kafka.sink.producer_batches import (
    BATCH_BYTES,
    RecordColumns,
    RecordHeaders,
)
from headrace.core.api.failures import ConnectorError
from headrace.core.types.data_types import BINARY, BOOLEAN, STRING, Field, Schema, Type, is_integer
from headrace.core.types.elements import DELETE
from headrace.core.types.frames import pick_columns
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


PREFIX_LENGTH = len(b'{"_":')


def encode_keys(frame: pl.DataFrame, columns: Schema, *, as_objects: bool = False) -> pl.Series:
    """Return the key of each row (Binary); null if the key is a single column that is null.

    `as_objects`: the key is a JSON object also if it is a single column, or none: the key of the
    only row of a table.
    """
    import polars as pl

    if not len(columns):
        return pl.Series([b"{}"], dtype=pl.Binary).new_from_index(0, frame.height)
    if len(columns) == 1 and not as_objects:
        return _encode_column(frame[columns.fields[0].name], columns.fields[0].type)
    return pl.Series(_encode_objects(frame, columns), dtype=pl.Binary)


def _encode_column(column: pl.Series, type: Type) -> pl.Series:
    """Return a column as text: a string unchanged, other types as in JSON, without quotes."""
    import polars as pl

    if type == BINARY:
        return column
    if type in (STRING, BOOLEAN) or is_integer(type):
        return column.cast(pl.String).cast(pl.Binary)
    objects = _encode_objects(column.alias("_").to_frame(), Schema((Field("_", type),)))
    texts = [text[PREFIX_LENGTH:-1].strip(b'"') for text in objects]
    found = pl.Series(column.name, texts, dtype=pl.Binary)
    return found.zip_with(column.is_not_null(), pl.Series([None], dtype=pl.Binary))


def _encode_objects(frame: pl.DataFrame, columns: Schema) -> Sequence[bytes]:
    return JsonEncoder(columns).encode(frame).split(b"\n")[:-1]


TOPIC_COLUMN = "__topic"


SAMPLE_ROWS = 100
"""Rows from which the average size of a row is estimated."""


@dataclass(frozen=True, slots=True)
class RecordMapping:
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
    has_deletes: bool = False
    envelope: EnvelopeEncoder | None = None
    """The encoder of values that are envelopes of changes."""

    def divide_by_topic(self, frame: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
        """Divide rows by topic, in order."""
        if self.row_topic is None:
            return [(self.topic, frame)]
        named = frame.with_columns(self.row_topic.alias(TOPIC_COLUMN))
        if named[TOPIC_COLUMN].null_count():
            row = named.filter(named[TOPIC_COLUMN].is_null()).head(1)
            shown = JsonEncoder(self.values).encode(row).decode().strip()
            hint = "the expression is null there: filter such rows, or use coalesce"
            raise ConnectorError(f"a row has no topic: {shown}", hint, final=True)
        parts = named.partition_by(TOPIC_COLUMN, maintain_order=True, include_key=True)
        return [(part.item(0, TOPIC_COLUMN), part) for part in parts]


@dataclass(slots=True)
class RecordEncoder:
    """Makes records of one subtask's rows; rows without a key go to partitions in turn."""

    mapping: RecordMapping
    next_partition: int = 0
    clock: Callable[[], float] = time

    def encode_rows(self, topic: str, frame: pl.DataFrame, count: int) -> RecordColumns:
        """Encode rows of a topic that has `count` partitions."""
        if self.mapping.envelope is not None:
            frame = self.mapping.envelope.add_tombstones(frame)
        values = self._encode_values(frame)
        named = self._encode_keys(frame)
        return RecordColumns(
            topic,
            self._assign_partitions(frame, named, values, count),
            [None] * frame.height if named is None else named.to_list(),
            values,
            self._encode_timestamps(frame),
            self._encode_headers(frame),
        )

    def _encode_values(self, frame: pl.DataFrame) -> Sequence[bytes | None]:
        recipe = self.mapping
        if recipe.envelope is not None:
            return recipe.envelope.encode(frame, int(self.clock() * 1000))
        values = self._encode_rows(frame)
        if not recipe.has_deletes or not frame[DELETE].any():
            return values
        deletes = frame[DELETE].to_list()
        return [None if is_gone else value for value, is_gone in zip(values, deletes, strict=True)]

    def _encode_rows(self, frame: pl.DataFrame) -> Sequence[bytes | None]:
        import polars as pl

        recipe = self.mapping
        if recipe.encoder is None:
            found: list[bytes | None] = (
                frame[recipe.values.fields[0].name].cast(pl.Binary).to_list()
            )
            return found
        return encode_separately(recipe.encoder, pick_columns(frame, recipe.values.names))

    def _encode_keys(self, frame: pl.DataFrame) -> pl.Series | None:
        key, as_objects = self.mapping.key, self.mapping.envelope is not None
        if not len(key) and not as_objects:
            return None
        return encode_keys(frame, key, as_objects=as_objects)

    def _assign_partitions(
        self,
        frame: pl.DataFrame,
        named: pl.Series | None,
        values: Sequence[bytes | None],
        count: int,
    ) -> Sequence[int]:
        by = (
            encode_keys(frame, self.mapping.partition_by)
            if len(self.mapping.partition_by)
            else named
        )
        if by is None:
            return self._assign_in_turn(values, count)
        found = assign_partitions(by, count)
        if not by.null_count():
            return found  # type: ignore[return-value] # none of them is None then
        turns = self._assign_in_turn(values, count)
        return [turns[at] if number is None else number for at, number in enumerate(found)]

    def _assign_in_turn(self, values: Sequence[bytes | None], count: int) -> list[int]:
        """Assign partitions to rows without a key: the same one for as many as fill a batch."""
        rows = len(values)
        some = values[:: max(1, rows // SAMPLE_ROWS)]
        size = sum(len(value or b"") for value in some) / max(1, len(some))
        run = max(1, int(BATCH_BYTES / max(size, 1)))
        first, self.next_partition = (
            self.next_partition,
            self.next_partition + (rows + run - 1) // run,
        )
        return [(first + at // run) % count for at in range(rows)]

    def _encode_timestamps(self, frame: pl.DataFrame) -> Sequence[int]:
        now_ms = int(self.clock() * 1000)
        if self.mapping.timestamp is None:
            return [now_ms] * frame.height
        times = frame[self.mapping.timestamp].dt.epoch("ms").fill_null(now_ms)
        found: list[int] = times.to_list()
        return found

    def _encode_headers(self, frame: pl.DataFrame) -> Sequence[RecordHeaders] | None:
        import polars as pl

        if not self.mapping.headers:
            return None
        columns = frame.select(
            expr.cast(pl.Binary).alias(name) for name, expr in self.mapping.headers.items()
        )
        if columns.height != frame.height:  # all of them are constants
            columns = pl.concat([columns] * frame.height)
        return [_drop_nulls(columns.columns, row) for row in columns.iter_rows()]


def _drop_nulls(names: Sequence[str], row: tuple[bytes | None, ...]) -> RecordHeaders:
    pairs = zip(names, row, strict=True)
    return [(name, value) for name, value in pairs if value is not None]


def encode_separately(encoder: BytesEncoder, frame: pl.DataFrame) -> list[bytes]:
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
    return encode_separately(encoder, frame[:middle]) + encode_separately(encoder, frame[middle:])
