"""Rows as records: values, keys, partitions, headers and timestamps, without a broker."""

from __future__ import annotations

import json
import os
import random
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal as Number
from typing import Any

import polars as pl
import pytest
from aiokafka.partitioner import murmur2

from headrace.connectors.formats.csv_encode import CsvEncoder
from headrace.connectors.formats.json_encode import JsonEncoder
from headrace.connectors.kafka.sink import _build_mapping
from headrace.connectors.kafka.sink.encoding import (
    RecordEncoder,
    RecordMapping,
    encode_keys,
    encode_separately,
)
from headrace.connectors.kafka.sink.murmur import FEW_KEYS, LONG_KEY_BYTES, assign_partitions
from headrace.connectors.kafka.sink_options import KafkaSink
from headrace.core.api.failures import ConnectorError
from headrace.core.errors.value_errors import ValueTooLarge
from headrace.core.types.data_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    Decimal,
    Field,
    Schema,
    Type,
)
from tests.support.kafka.open_sink import node

ROWS = Schema((Field("k", STRING), Field("n", BIGINT)))
NOTHING = Schema(())


def recipe(**changes: Any) -> RecordMapping:
    given = {"key": NOTHING, "partition_by": NOTHING, "topic": "t", **changes}
    return RecordMapping(ROWS, JsonEncoder(ROWS), **given)


def only(*names: str) -> Schema:
    return Schema(tuple(field for field in ROWS if field.name in names))


def javas(key: bytes, count: int) -> int:
    return int((murmur2(key) & 0x7FFFFFFF) % count)


@pytest.mark.parametrize("rows", [FEW_KEYS, 4 * FEW_KEYS])
def test_partitions_are_those_of_java(rows: int) -> None:
    chosen = random.Random(rows)
    found = [chosen.randbytes(chosen.randrange(40)) for _ in range(rows - 3)] + [b"", b"abc", None]
    wanted = [None if key is None else javas(key, 7) for key in found]
    assert assign_partitions(pl.Series(found, dtype=pl.Binary), 7) == wanted


def test_partitions_of_keys_of_great_length_and_of_none_at_all() -> None:
    long = [os.urandom(LONG_KEY_BYTES + 3)] * (FEW_KEYS + 1)
    assert assign_partitions(pl.Series(long, dtype=pl.Binary), 5) == [javas(key, 5) for key in long]
    none = pl.Series([None] * (FEW_KEYS + 1), dtype=pl.Binary)
    assert assign_partitions(none, 5) == [None] * (FEW_KEYS + 1)


@pytest.mark.parametrize(
    ("type", "value", "text"),
    [
        (STRING, 'a "b"', b'a "b"'),
        (STRING, "", b""),
        (STRING, None, None),
        (BIGINT, -17, b"-17"),
        (BIGINT, None, None),
        (BOOLEAN, True, b"true"),
        (DOUBLE, 0.1, b"0.1"),
        (DOUBLE, None, None),
        (Decimal(10, 2), Number("1.50"), b"1.50"),
        (BINARY, b"\0\xff", b"\0\xff"),
        (DATE, date(2026, 1, 31), b"2026-01-31"),
        (TIMESTAMP, datetime(2026, 1, 31, 1, 2, 3, tzinfo=UTC), b"2026-01-31T01:02:03.000000Z"),
    ],
)
def test_a_key_of_one_column_is_its_text(type: Type, value: object, text: bytes | None) -> None:
    from headrace.core.types.data_types import to_polars

    frame = pl.DataFrame({"x": pl.Series([value, None], dtype=to_polars(type))})
    assert encode_keys(frame, Schema((Field("x", type),))).to_list() == [text, None]


def test_a_key_of_several_columns_is_an_object() -> None:
    frame = pl.DataFrame({"k": ["a", None], "n": [1, 2]})
    assert encode_keys(frame, ROWS).to_list() == [b'{"k":"a","n":1}', b'{"k":null,"n":2}']


def test_rows_without_a_key_take_turns_and_a_deleted_row_has_no_value() -> None:
    frame = pl.DataFrame({"k": ["a", None, "b"], "n": [1, 2, 3], "_delete": [False, True, True]})
    encoding = RecordEncoder(
        recipe(key=only("k"), has_deletes=True), next_partition=2, clock=lambda: 1.5
    )
    found = encoding.encode_rows("t", frame, 4)
    assert list(found.values) == [b'{"k":"a","n":1}', None, None]
    assert list(found.keys) == [b"a", None, b"b"]
    assert list(found.partitions) == [javas(b"a", 4), 2, javas(b"b", 4)]
    assert list(found.times_ms) == [1500] * 3
    assert list(encoding.encode_rows("t", frame, 4).partitions)[1] == 3


def test_many_rows_without_a_key_go_to_all_partitions_a_batch_to_each() -> None:
    frame = pl.DataFrame({"k": ["x" * 1000] * 2000, "n": range(2000)})
    found = list(RecordEncoder(recipe()).encode_rows("t", frame, 3).partitions)
    assert found == sorted(found[:1500]) + found[1500:]
    assert set(found) == {0, 1, 2}


def test_partition_by_goes_by_other_columns_than_the_key() -> None:
    frame = pl.DataFrame({"k": ["a", "b"], "n": [7, 7]})
    found = RecordEncoder(recipe(key=only("k"), partition_by=only("n"))).encode_rows("t", frame, 8)
    assert list(found.partitions) == [javas(b"7", 8)] * 2


def test_headers_are_those_that_are_not_null() -> None:
    frame = pl.DataFrame({"k": ["a", None], "n": [1, 2]})
    headers = {"of": pl.col("k"), "by": pl.lit("us")}
    found = RecordEncoder(recipe(headers=headers)).encode_rows("t", frame, 1).headers
    assert found == [[("of", b"a"), ("by", b"us")], [("by", b"us")]]
    constant = (
        RecordEncoder(recipe(headers={"by": pl.lit("us")})).encode_rows("t", frame, 1).headers
    )
    assert constant == [[("by", b"us")]] * 2


def test_rows_are_parted_by_their_topic_and_one_without_is_shown() -> None:
    frame = pl.DataFrame({"k": ["a", "b", "a"], "n": [1, 2, 3]})
    parts = recipe(row_topic=pl.col("k")).divide_by_topic(frame)
    assert [(topic, part["n"].to_list()) for topic, part in parts] == [("a", [1, 3]), ("b", [2])]
    with pytest.raises(ConnectorError, match=r'a row has no topic: {"k":null,"n":4}'):
        recipe(row_topic=pl.col("k")).divide_by_topic(pl.DataFrame({"k": ["a", None], "n": [3, 4]}))


def test_a_row_without_a_topic_is_shown_as_it_would_be_written() -> None:
    columns = Schema((Field("b", BINARY), Field("t", TIMESTAMP)))
    far = pl.Series([2**63 - 1]).cast(pl.Datetime("us", "UTC"))
    frame = pl.DataFrame({"b": [b"hi"], "t": far})
    said = r'a row has no topic: {"b":"aGk=","t":"\+294247-01-10T04:00:54.775807Z"}'
    with pytest.raises(ConnectorError, match=said):
        replace(recipe(row_topic=pl.lit(None)), values=columns).divide_by_topic(frame)


def test_values_of_csv_may_have_line_ends_in_them() -> None:
    frame = pl.DataFrame({"k": ["a", "b\nc", "d", "e", "\n"], "n": [1, 2, 3, 4, 5]})
    assert encode_separately(CsvEncoder(ROWS), frame) == [
        b"a,1",
        b'"b\nc",2',
        b"d,3",
        b"e,4",
        b'"\n",5',
    ]


def test_a_raw_value_is_what_the_column_holds_also_nothing() -> None:
    one = Schema((Field("k", STRING),))
    raw = RecordMapping(one, None, NOTHING, NOTHING, "t")
    frame = pl.DataFrame({"k": ["a\nb", "", None]})
    assert list(RecordEncoder(raw).encode_rows("t", frame, 1).values) == [b"a\nb", b"", None]


def test_times_are_those_of_the_column_and_now_where_it_has_none() -> None:
    at = pl.Series([1_700_000_000_123_456, None], dtype=pl.Datetime("us", "UTC"))
    frame = pl.DataFrame({"k": ["a", "b"], "n": [1, 2], "__time": at})
    found = RecordEncoder(recipe(timestamp="__time"), clock=lambda: 2.0).encode_rows("t", frame, 1)
    assert list(found.times_ms) == [1_700_000_000_123, 2000]
    assert json.loads(found.values[0] or b"") == {"k": "a", "n": 1}


@pytest.mark.parametrize(
    "option", [{"headers": {"h": "repeat(k, 1000)"}}, {"topic": {"expr": "repeat(k, 1000)"}}]
)
def test_the_largest_value_of_headers_and_topics_is_a_setting(option: dict[str, Any]) -> None:
    sink, schema = node("broker:9092", **({"topic": "t"} | option))
    options, frame = sink.options, pl.DataFrame({"k": ["ab"], "n": [1]})
    assert isinstance(options, KafkaSink)
    for limit in (1999, 2000):
        mapping = _build_mapping(replace(sink, max_value=limit), options, schema)
        compiled = mapping.headers["h"] if mapping.row_topic is None else mapping.row_topic
        with pytest.raises(ValueTooLarge) if limit < 2000 else nullcontext():
            assert frame.select(compiled).to_series()[0] == "ab" * 1000
