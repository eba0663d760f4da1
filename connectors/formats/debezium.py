"""Decodes the messages of Debezium in JSON: changes of a table, one a message.

    {"before": {...}, "after": {...}, "op": "u", "ts_ms": 1, "source": {"lsn": 7, ...}}

The parts of a message are cut out first, without being decoded. Then the rows of a block (`after`,
or `before` of a deletion) are decoded at once, as lines of JSON, and so are the other parts that a
source reads. A message may be wrapped into `{"schema": ..., "payload": ...}`: the schema then says
how times and decimals are written; without it the declared type and the options do.

Messages without a change (heartbeats, the begin and end of a transaction, changes of a schema) are
skipped. A change that cannot be applied, such as `truncate`, is a bad record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from headrace.connectors.formats.bad_records import find_null_violations
from headrace.connectors.formats.contract import DecodedBlock
from headrace.connectors.formats.debezium_values import (
    ColumnEncoding,
    Encodings,
    SchemaField,
    convert_texts,
    describe_failure,
    find_encodings,
    is_read_as_text,
)
from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.formats.lines import LineBlock, LineDecoder, remove_byte_order_mark
from headrace.core.api.sources import BadRecord
from headrace.core.plan.nodes import BEFORE_PREFIX
from headrace.core.types.data_types import STRING, Field, Schema
from headrace.core.types.elements import DELETE
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

NULL, EMPTY = b"null", b"{}"
NOTHING = msgspec.Raw(NULL)

UPSERTS, DELETION, IGNORED = ("c", "r", "u"), "d", "m"
"""The values of `op`: created, read by a snapshot, updated; deleted; a message of the writer."""

UNAVAILABLE = "__debezium_unavailable_value"
"""The text that stands for a large value that an update did not change."""


class DebeziumMessage(msgspec.Struct):
    """A message; each part is the text of its JSON."""

    op: str | None = None
    before: msgspec.Raw = NOTHING
    after: msgspec.Raw = NOTHING
    source: msgspec.Raw = NOTHING
    ts_ms: msgspec.Raw = NOTHING
    payload: msgspec.Raw = NOTHING
    schema: msgspec.Raw = NOTHING


@dataclass(slots=True)
class DecodedMessages:
    """The changes of some messages, the errors of others, and the numbers of those without any."""

    frame: pl.DataFrame
    errors: dict[int, str]
    skipped: list[int]


class _Change(NamedTuple):
    """A change: the number of its message, and the texts of its parts."""

    number: int
    row: bytes
    before: bytes
    deletes: bool
    message: DebeziumMessage
    encodings: Encodings | None


@dataclass(slots=True)
class DebeziumDecoder(LineDecoder):
    """Decodes messages into the columns of rows, and into others of DEBEZIUM_COLUMNS.

    The frame has DELETE, and the key that a row had before, under names with BEFORE_PREFIX. `epoch`
    and `decimals` are the options for messages without a schema.
    """

    rows: Schema
    metadata: Schema
    key: tuple[str, ...]
    epoch: str | None = None
    decimals: str | None = None
    _schemas: dict[bytes, Encodings] = field(default_factory=dict, init=False, repr=False)

    def decode(self, block: bytes, offset: int) -> DecodedBlock:
        """Decode a block of lines."""
        lines = LineBlock(*remove_byte_order_mark(block, offset))
        found = self.decode_messages(lines.record_texts)
        records = ((why, *lines.get_record(row)) for row, why in sorted(found.errors.items()))
        return found.frame, tuple(
            BadRecord(why, position, text.decode("utf-8", "replace"))
            for why, position, text in records
        )

    def decode_messages(self, messages: Sequence[bytes | None]) -> DecodedMessages:
        """Decode messages; each null, also as a JSON text, is skipped: it is a tombstone."""
        import polars as pl

        errors: dict[int, str] = {}
        skipped: list[int] = []
        groups: dict[Encodings | None, list[_Change]] = {}
        for number, text in enumerate(messages):
            change = None
            if text is not None and text.strip() != NULL:
                change = self._parse_message(number, text, errors)
            if change is not None:
                groups.setdefault(change.encodings, []).append(change)
            elif number not in errors:
                skipped.append(number)
        frames, numbers = [], list[int]()
        for encodings, changes in groups.items():
            frame, bad = self._decode_changes(changes, dict(encodings) if encodings else None)
            errors |= bad
            frames.append(frame)
            numbers += [each.number for each in changes if each.number not in bad]
        if not frames:
            return DecodedMessages(self._decode_changes([], None)[0], errors, skipped)
        frame = pl.concat(frames)
        if len(frames) > 1:
            frame = frame[pl.Series(numbers).arg_sort()]
        return DecodedMessages(frame, dict(sorted(errors.items())), skipped)

    def _parse_message(self, number: int, text: bytes, errors: dict[int, str]) -> _Change | None:
        """Return the change in a message; None if there is none, or an error that is recorded."""
        try:
            message, encodings = ENVELOPES.decode(text), None
            if message.op is None and (schema := bytes(message.schema)) != NULL:
                encodings = self._read_schema(schema)
            if message.op is None and bytes(message.payload) != NULL:
                message = ENVELOPES.decode(message.payload)
        except msgspec.DecodeError as error:
            errors[number] = f"wanted a Debezium message: {error}"
            return None
        deletes = message.op == DELETION
        if message.op is None and _is_without_change(text):
            return None
        if message.op == IGNORED:
            return None
        if message.op not in UPSERTS and not deletes:
            got = "it has no op" if message.op is None else f'op is "{message.op}"'
            hint = "a truncated table cannot be followed" if message.op == "t" else ""
            errors[number] = f"wanted a change of a row, but {got}{f': {hint}' if hint else ''}"
            return None
        row = bytes(message.before if deletes else message.after).replace(b"\n", b" ")
        if row == NULL:
            errors[number] = f'"{"before" if deletes else "after"}" is null'
            return None
        before = EMPTY if deletes else bytes(message.before).replace(b"\n", b" ")
        before = EMPTY if before == NULL else before
        return _Change(number, row, before, deletes, message, encodings)

    def _read_schema(self, text: bytes) -> Encodings:
        """Return the encodings that a schema says."""
        if text not in self._schemas:
            if len(self._schemas) >= 64:
                self._schemas.clear()
            self._schemas[text] = find_encodings(SCHEMAS.decode(text))
        return self._schemas[text]

    def _decode_changes(
        self, changes: Sequence[_Change], encodings: Mapping[str, ColumnEncoding] | None
    ) -> tuple[pl.DataFrame, dict[int, str]]:
        """Decode changes that are written alike; return rows, and errors by message."""
        import polars as pl

        bad: dict[int, str] = {}
        rows = _decode_lines(self._get_wire_schema(self.rows), (each.row for each in changes), bad)
        _add_missing_values(self.rows, rows, changes, bad)
        columns = [self._convert(each, rows[each.name], encodings, bad) for each in self.rows]
        keys = Schema(tuple(Field(f.name, f.type) for f in self.rows if f.name in self.key))
        olds = _decode_lines(self._get_wire_schema(keys), (each.before for each in changes), bad)
        for name in self.key:
            each = next(found for found in keys if found.name == name)
            old = self._convert(each, olds[name], encodings, bad)
            columns.append(old.rename(f"{BEFORE_PREFIX}{name}"))
        if len(self.metadata):
            others = _decode_lines(self.metadata, map(_format_metadata, changes), bad)
            columns += others.get_columns()
        columns.append(pl.Series(DELETE, [each.deletes for each in changes], pl.Boolean()))
        frame = pl.DataFrame(columns)
        if bad:
            good = [number for number in range(len(changes)) if number not in bad]
            frame = frame[good]
        return frame, {changes[at].number: why for at, why in bad.items()}

    def _get_wire_schema(self, columns: Schema) -> Schema:
        """Return the columns with the types as which JSON is read; all of them are nullable."""
        return Schema(
            tuple(
                Field(each.name, STRING if is_read_as_text(each) else each.type) for each in columns
            )
        )

    def _convert(
        self,
        column: Field,
        read: pl.Series,
        encodings: Mapping[str, ColumnEncoding] | None,
        bad: dict[int, str],
    ) -> pl.Series:
        """Convert a column to its type; add the errors of values that are not of the type."""
        encoding = ColumnEncoding(self.epoch, self.decimals)
        if encodings is not None:
            encoding = encodings.get(column.name, ColumnEncoding())
        values = read
        if is_read_as_text(column):
            values = convert_texts(column, read, encoding).alias(column.name)
            for row in (values.is_null() & read.is_not_null()).arg_true():
                bad.setdefault(row, describe_failure(column, read[row], encoding))
        for row, why in find_null_violations(column, values).items():
            bad.setdefault(row, why)
        return values


def _add_missing_values(
    schema: Schema, rows: pl.DataFrame, changes: Sequence[_Change], bad: dict[int, str]
) -> None:
    """Add an error for each row whose text stands for a large value that was not written."""
    for column in schema:
        if column.type == STRING:
            for at in (rows[column.name] == UNAVAILABLE).fill_null(False).arg_true():
                if not changes[at].deletes:
                    what = "was left as it was, and is not in the message"
                    hint = "replica identity full writes it"
                    bad.setdefault(at, f'column "{column.name}" {what}: {hint}')


def _format_metadata(change: _Change) -> bytes:
    """Return the parts of a message besides its row as a JSON object."""
    message = change.message
    parts = (message.op or "").encode(), bytes(message.ts_ms), bytes(message.source)
    return (b'{"op":"%b","ts_ms":%b,"source":%b}' % parts).replace(b"\n", b" ")


def _decode_lines(schema: Schema, texts: Iterable[bytes], bad: dict[int, str]) -> pl.DataFrame:
    """Decode JSON objects into rows, one each; those of bad ones are null, with their errors."""
    lines = list(texts)
    for _ in range(2):
        frame, found = JsonDecoder(schema).decode(b"\n".join(lines), 1)
        if not found:
            break
        starts = list(accumulate((len(line) + 1 for line in lines), initial=1))
        for each in found:
            assert isinstance(each.position, int)
            row = bisect_right(starts, each.position) - 1
            bad.setdefault(row, each.error)
            lines[row] = EMPTY
    assert frame.height == len(lines), "each object is a row"
    return frame


def _is_without_change(text: bytes) -> bool:
    """Whether a message is a heartbeat, of a transaction, or a change of a schema."""
    message = msgspec.json.decode(text)
    inner = message.get("payload")
    keys = {*(inner if isinstance(inner, dict) else message)}
    return (
        keys in ({"ts_ms"}, {"schema", "payload"})
        or keys >= {"status", "id", "event_count"}
        or (keys >= {"source", "databaseName"} and not keys.isdisjoint({"ddl", "tableChanges"}))
    )


ENVELOPES = msgspec.json.Decoder(DebeziumMessage)
SCHEMAS = msgspec.json.Decoder(SchemaField)
