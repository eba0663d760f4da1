"""Deletes of a table's rows from records without a value: the key of a record is the row's key.

The key of a record is read as the Kafka sink writes it: one column as its text, several as a JSON
object. A JSON object with the columns is accepted for one column too, and so is the `payload` of
Kafka Connect, which has its schema beside it.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import field

from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.kafka.source.value_decoding import (
    DecodedValues,
    RecordValues,
    build_json_decoder,
)
from headrace.core.types.data_types import BINARY, STRING, Field, Schema
from headrace.core.types.elements import DELETE
from headrace.core.types.lazy_dataclass import dataclass

JSON_SCALAR = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false")


@dataclass(slots=True)
class TombstoneDecoder:
    """Decodes the keys of records into these columns; none: metadata columns have the key."""

    key: Schema
    _decoder: JsonDecoder = field(init=False)

    def __post_init__(self) -> None:
        required = (Field(each.name, each.type, nullable=False) for each in self.key)
        self._decoder = JsonDecoder(Schema(tuple(required)))

    def add_deletes(self, decoded: DecodedValues, keys: RecordValues, count: int) -> DecodedValues:
        """Add a deletion for each record that was skipped, in order, or an error for its key."""
        import polars as pl

        numbers = decoded.skipped
        texts = [self._format_object(keys[number]) for number in numbers]
        found = build_json_decoder(self._decoder).decode_values(texts)
        if not len(self.key):
            found = DecodedValues(pl.DataFrame(height=len(numbers)))
        errors = {
            numbers[at]: f"no value, and the key of the record cannot be read: {why}"
            for at, why in found.errors.items()
        }
        deleted = [number for at, number in enumerate(numbers) if at not in found.errors]
        deletes = found.frame.with_columns(pl.lit(True).alias(DELETE))
        skipped = {*numbers, *decoded.errors}
        with_rows = [number for number in range(count) if number not in skipped]
        frame = pl.concat([decoded.frame, deletes], how="diagonal")
        order = pl.Series([*with_rows, *deleted], dtype=pl.Int64).arg_sort()
        return DecodedValues(frame[order], dict(sorted({**decoded.errors, **errors}.items())))

    def _format_object(self, key: bytes | None) -> bytes:
        """Return the key of a record as a JSON object with the columns, as far as it has them."""
        if key is None or not len(self.key):
            return b"{}"
        if (found := self._parse_object(key)) is not None:
            return found
        if len(self.key) > 1:
            return key.strip() or b"{}"
        (column,) = self.key
        return b"{%b:%b}" % (json.dumps(column.name).encode(), _format_value(key, column))

    def _parse_object(self, key: bytes) -> bytes | None:
        """Return the JSON object in a key that has the columns; None if it is none."""
        if not key.lstrip().startswith(b"{"):
            return None
        try:
            document = json.loads(key)
        except ValueError:
            return None
        inner = document.get("payload")
        if isinstance(inner, dict) and self._has_columns(inner):
            return json.dumps(inner).encode()
        return key if self._has_columns(document) else None

    def _has_columns(self, document: dict[str, object]) -> bool:
        return all(name in document for name in self.key.names)


def _format_value(key: bytes, column: Field) -> bytes:
    """Return the text of a single column as a JSON value."""
    if column.type == BINARY:
        return b'"%b"' % b64encode(key)
    text = key.decode("utf-8", "replace")
    if column.type != STRING and JSON_SCALAR.fullmatch(key):
        return key
    return json.dumps(text).encode()
