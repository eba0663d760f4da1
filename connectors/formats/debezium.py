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

from base64 import b64decode
from binascii import Error as Base64Error
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from headrace.connectors.formats import times
from headrace.connectors.formats.bad_records import (
    describe_invalid_value,
    find_null_violations,
    shorten_text,
)
from headrace.connectors.formats.contract import DecodedBlock
from headrace.connectors.formats.decimals import parse_decimals
from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.formats.lines import LineBlock, LineDecoder, remove_byte_order_mark
from headrace.core.api.sources import BadRecord
from headrace.core.plan.nodes import BEFORE_PREFIX
from headrace.core.types.data_types import (
    DATE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
    Field,
    Schema,
    Time,
    to_polars,
)
from headrace.core.types.elements import DELETE

if TYPE_CHECKING:
    import polars as pl

NULL, EMPTY = b"null", b"{}"
NOTHING = msgspec.Raw(NULL)

UPSERTS, DELETION, IGNORED = ("c", "r", "u"), "d", "m"
"""The values of `op`: created, read by a snapshot, updated; deleted; a message of the writer."""

UNAVAILABLE = "__debezium_unavailable_value"
"""The text that stands for a large value that an update did not change."""

WHOLE_NUMBER = r"^-?[0-9]+$"

UNITS_US = {"ms": 1000, "us": 1}
"""The microseconds of a unit; a nanosecond is a fraction of one."""

MAX_MILLIS = (1 << 63) // 1000 - 1
DAY_US = 86_400_000_000

TIME_UNITS = {
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Timestamp": "ms",
    "io.debezium.time.Time": "ms",
    "io.debezium.time.MicroTime": "us",
    "io.debezium.time.NanoTime": "ns",
    "org.apache.kafka.connect.data.Time": "ms",
}
"""The unit of a number, by the name of its type in a schema."""

DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"

WRITTEN_AS_TEXT = (DATE, TIMESTAMP, TIMESTAMP_NTZ)


class DebeziumMessage(msgspec.Struct):
    """A message; each part is the text of its JSON."""

    op: str | None = None
    before: msgspec.Raw = NOTHING
    after: msgspec.Raw = NOTHING
    source: msgspec.Raw = NOTHING
    ts_ms: msgspec.Raw = NOTHING
    payload: msgspec.Raw = NOTHING
    schema: msgspec.Raw = NOTHING


class SchemaField(msgspec.Struct):
    """A field of a schema of Kafka Connect."""

    type: Any = None
    name: str | None = None
    field: str | None = None
    fields: list[SchemaField] | None = None
    parameters: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Encoding:
    """The form of the values of a column: the unit of numbers, the scale of base64 decimals."""

    unit: str | None = None
    decimals: str | None = None
    scale: int | None = None


Encodings: TypeAlias = "tuple[tuple[str, Encoding], ...]"
"""The encodings of columns, where a schema says them."""


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
        """Decode messages; each null is skipped."""
        import polars as pl

        errors: dict[int, str] = {}
        skipped: list[int] = []
        groups: dict[Encodings | None, list[_Change]] = {}
        for number, text in enumerate(messages):
            change = None if text is None else self._parse_message(number, text, errors)
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
            self._schemas[text] = _find_encodings(SCHEMAS.decode(text))
        return self._schemas[text]

    def _decode_changes(
        self, changes: Sequence[_Change], encodings: Mapping[str, Encoding] | None
    ) -> tuple[pl.DataFrame, dict[int, str]]:
        """Decode changes that are written alike; return rows, and errors by message."""
        import polars as pl

        bad: dict[int, str] = {}
        rows = _decode_lines(self._get_wire_schema(self.rows), (each.row for each in changes), bad)
        _add_missing_values(self.rows, rows, changes, bad)
        columns = [self._convert(each, rows[each.name], encodings, bad) for each in self.rows]
        keys = Schema(tuple(Field(f.name, f.type) for f in self.rows if f.name in self.key))
        olds = _decode_lines(self._get_wire_schema(keys), (each.before for each in changes), {})
        for name in self.key:
            each = next(found for found in keys if found.name == name)
            old = self._convert(each, olds[name], encodings, {})
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
                Field(each.name, STRING if _is_written_as_text(each) else each.type)
                for each in columns
            )
        )

    def _convert(
        self,
        column: Field,
        read: pl.Series,
        encodings: Mapping[str, Encoding] | None,
        bad: dict[int, str],
    ) -> pl.Series:
        """Convert a column to its type; add the errors of values that are not of the type."""
        encoding = Encoding(self.epoch, self.decimals)
        if encodings is not None:
            encoding = encodings.get(column.name, Encoding())
        values = read
        if _is_written_as_text(column):
            values = _convert_texts(column, read, encoding).alias(column.name)
            for row in (values.is_null() & read.is_not_null()).arg_true():
                bad.setdefault(row, _describe_failure(column, read[row], encoding))
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


def _is_written_as_text(column: Field) -> bool:
    """Whether a column is read as text, because Debezium has several forms of its values."""
    return column.type in WRITTEN_AS_TEXT or isinstance(column.type, Decimal | Time)


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


def _find_encodings(schema: SchemaField) -> Encodings:
    """Return the encodings of the columns of a row in the schema of a message."""
    parts = {each.field: each for each in schema.fields or ()}
    row = parts.get("after") or parts.get("before")
    found = []
    for each in (row.fields if row else None) or ():
        name = each.name or ""
        if name in TIME_UNITS:
            found.append((each.field or "", Encoding(unit=TIME_UNITS[name])))
        elif name == DECIMAL_NAME:
            scale = (each.parameters or {}).get("scale", "0")
            found.append((each.field or "", Encoding(None, "base64", int(scale))))
        elif each.type in ("string", "double", "float"):
            found.append((each.field or "", Encoding(decimals="text")))
    return tuple(found)


def _convert_texts(column: Field, texts: pl.Series, encoding: Encoding) -> pl.Series:
    """Convert texts to the type of the column; null for one that is not of the type."""
    if isinstance(column.type, Decimal):
        return _convert_decimals(texts, column.type, encoding)
    import polars as pl

    name = column.name
    is_number = texts.str.contains(WHOLE_NUMBER).fill_null(False)
    written = texts.zip_with(~is_number, pl.Series(name, [None], pl.String()))
    if column.type == DATE:
        parsed = written.to_frame().select(times.parse_dates(pl.col(name))).to_series()
    elif column.type == TIMESTAMP:
        parsed = times.parse_timestamp_column(written)
    elif column.type == TIMESTAMP_NTZ:
        parsed = written.to_frame().select(times.parse_local_timestamps(pl.col(name))).to_series()
    else:
        assert isinstance(column.type, Time)
        precision = column.type.precision
        clock = times.parse_clock_times(pl.col(name), precision)
        parsed = written.to_frame().select(clock).to_series()
    if not is_number.any():
        return parsed
    numbers = texts.zip_with(is_number, pl.Series(name, [None], pl.String()))
    counted = _convert_numbers(column, numbers.cast(pl.Int64(), strict=False), encoding.unit)
    return parsed.cast(to_polars(column.type)).zip_with(~is_number, counted)


def _convert_numbers(column: Field, numbers: pl.Series, unit: str | None) -> pl.Series:
    """Convert numbers since the epoch, or midnight; days if the column is a date."""
    import polars as pl

    type = to_polars(column.type)
    if column.type == DATE:
        return numbers.cast(pl.Int32(), strict=False).cast(type)
    if unit is None:
        return pl.Series(column.name, [None], type).new_from_index(0, numbers.len())
    many = numbers.clip(-MAX_MILLIS, MAX_MILLIS) if unit == "ms" else numbers
    fits = many == numbers
    micros = numbers // 1000 if unit == "ns" else many * UNITS_US[unit]
    if isinstance(column.type, Time):
        fits &= micros.is_between(0, DAY_US - 1)
        micros = micros * 1000
    micros = micros.zip_with(fits, pl.Series(column.name, [None], pl.Int64()))
    return micros.cast(type)


def _convert_decimals(texts: pl.Series, type: Decimal, encoding: Encoding) -> pl.Series:
    import polars as pl

    plain = texts.str.contains(r"^[-+]?[0-9]*\.?[0-9]*([eE][-+]?[0-9]+)?$").fill_null(True)
    if encoding.decimals == "text" or (encoding.decimals is None and _are_surely_texts(texts)):
        return parse_decimals(texts.zip_with(plain, pl.Series([None], dtype=pl.String())), type)
    scale = type.scale if encoding.scale is None else encoding.scale
    converted = [
        None if text is None else _decode_decimal(text, scale, encoding.decimals) for text in texts
    ]
    return parse_decimals(pl.Series(texts.name, converted, pl.String()), type)


def _are_surely_texts(texts: pl.Series) -> bool:
    """Whether all texts are numbers that cannot be base64, which has no points and signs."""
    return bool(texts.drop_nulls().str.contains(r"^[-+]?[0-9]*\.[0-9]*$|^-[0-9]+$").all())


def _decode_decimal(text: str, scale: int, decimals: str | None) -> str | None:
    """Return the number in a text as digits; None if there is none, or more than one reading."""
    if text.startswith("{"):  # a number with a scale of its own
        try:
            whole = msgspec.json.decode(text)
            return _decode_base64(str(whole["value"]), int(whole["scale"]))
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            return None
    if decimals is None and text.lstrip("+-").replace(".", "", 1).isdigit():
        return None if text.isdigit() and len(text) % 4 == 0 else text
    return _decode_base64(text, scale)


def _decode_base64(text: str, scale: int) -> str | None:
    try:
        unscaled = int.from_bytes(b64decode(text, validate=True), "big", signed=True)
    except (Base64Error, ValueError):
        return None
    digits = str(abs(unscaled)).rjust(scale + 1, "0") + "0" * -scale
    point = len(digits) - max(scale, 0)
    return f"{'-' if unscaled < 0 else ''}{digits[:point]}.{digits[point:]}"


def _describe_failure(column: Field, text: str, encoding: Encoding) -> str:
    got = describe_invalid_value(column, f'"{shorten_text(text)}"')
    if isinstance(column.type, Decimal) and encoding.decimals is None and text.isdigit():
        hint = "say so, as in debezium_json: {decimals: text}"
        return f"{got}, which may be text or base64: {hint}"
    has_unit = column.type != DATE and not isinstance(column.type, Decimal)
    if has_unit and encoding.unit is None and text.lstrip("-").isdigit():
        hint = "say so, as in debezium_json: {epoch: us}"
        return f"{got}, whose unit is not known: {hint}"
    return got


ENVELOPES = msgspec.json.Decoder(DebeziumMessage)
SCHEMAS = msgspec.json.Decoder(SchemaField)
