"""Changes as Debezium envelopes, without a broker."""

from __future__ import annotations

import json
from decimal import Decimal as Number
from typing import Any

import polars as pl

from headrace.connectors.kafka.sink import _build_mapping
from headrace.connectors.kafka.sink.encoding import RecordEncoder
from headrace.connectors.kafka.sink_options import KafkaSink
from headrace.core.types.change_columns import BEFORE, CHANGE_NUMBER
from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    STRING,
    Decimal,
    Field,
    Schema,
    Struct,
    to_polars,
)
from headrace.core.types.elements import DELETE
from tests.support.kafka.open_sink import node

ROW = (Field("id", BIGINT), Field("name", STRING), Field("price", Decimal(10, 2)))
HIDDEN = (Field(BEFORE, Struct(ROW)), Field(CHANGE_NUMBER, BIGINT), Field(DELETE, BOOLEAN))
CHANGES = Schema((*ROW, *HIDDEN))
OLD = {"id": 1, "name": "ann", "price": Number("1.50")}


def encoded(*rows: tuple[Any, ...], **options: Any) -> list[tuple[Any, Any, int]]:
    """Return the key, the value and the partition of the record of each row."""
    key = options.pop("changes", ["id"])
    sink, schema = node("b:1", "t", CHANGES, format="debezium_json", changes=key, **options)
    assert isinstance(sink.options, KafkaSink)
    encoder = RecordEncoder(_build_mapping(sink, sink.options, schema, "shop"), clock=lambda: 7.5)
    types = {field.name: to_polars(field.type) for field in CHANGES}
    records = encoder.encode_rows("t", pl.DataFrame(rows, types, orient="row"), 5)
    assert records.times_ms == [7500] * len(records)
    values = (None if value is None else json.loads(value) for value in records.values)
    keys = (json.loads(key or b"") for key in records.keys)
    return list(zip(keys, values, records.partitions, strict=True))


def envelope(before: object, after: object, op: str, sequence: int) -> dict[str, object]:
    source = {"connector": "headrace", "name": "shop", "table": "rows", "sequence": sequence}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 7500}


def test_each_change_has_the_row_before_and_after() -> None:
    found = encoded(
        (2, None, None, None, 3, False),
        (1, "anna", Number("1.50"), OLD, 4, False),
    )
    was = {"id": 1, "name": "ann", "price": 1.5}
    assert [(key, value) for key, value, _ in found] == [
        ({"id": 2}, envelope(None, {"id": 2, "name": None, "price": None}, "c", 3)),
        ({"id": 1}, envelope(was, {**was, "name": "anna"}, "u", 4)),
    ]


def test_a_deletion_is_followed_by_a_tombstone_of_its_key() -> None:
    rows = (
        (1, "ann", Number("1.50"), OLD, 5, True),
        (2, None, None, None, 6, False),
        (1, "ann", Number("1.50"), OLD, 7, True),
    )
    was = {"id": 1, "name": "ann", "price": 1.5}
    deletion, other, again = (
        ({"id": 1}, envelope(was, None, "d", 5)),
        ({"id": 2}, envelope(None, {"id": 2, "name": None, "price": None}, "c", 6)),
        ({"id": 1}, envelope(was, None, "d", 7)),
    )
    found = encoded(*rows)
    tombstone = ({"id": 1}, None)
    assert [record[:2] for record in found] == [deletion, tombstone, other, again, tombstone]
    assert len({partition for key, _, partition in found if key == {"id": 1}}) == 1
    assert [record[:2] for record in encoded(*rows, tombstones=False)] == [deletion, other, again]


def test_the_only_row_of_a_table_has_an_empty_object_as_its_key() -> None:
    found = encoded((1, "ann", None, None, 1, False), (1, "ann", None, OLD, 2, True), changes=[])
    assert [key for key, _, _ in found] == [{}] * 3
    assert len({partition for _, _, partition in found}) == 1
