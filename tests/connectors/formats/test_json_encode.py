"""Rows as JSON lines, which read back as the same rows."""

from __future__ import annotations

import json
import math
import pickle
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.formats.json_encode import MAX_ARRAY_ROWS, JsonEncoder
from headrace.core.types.data_types import Schema
from tests.support.formats.decoding import schema
from tests.support.formats.random_frames import frame, frames

# The type, a value, and its text.
VALUES: list[tuple[str, object, str]] = [
    ("boolean", True, "true"),
    ("tinyint", -128, "-128"),
    ("bigint", -(2**63), "-9223372036854775808"),
    ("double", 0.1, "0.1"),
    ("double", 1.0, "1.0"),
    ("double", 1e7, "10000000.0"),
    ("double", 1e15, "1000000000000000.0"),
    ("double", 1e16, "1e+16"),
    ("double", 1e-5, "0.00001"),
    ("double", 1e-7, "1e-7"),
    ("double", 5e-324, "5e-324"),
    ("double", -0.0, "-0.0"),
    ("double", 1 / 3, "0.3333333333333333"),
    ("double", math.nan, '"NaN"'),
    ("double", math.inf, '"Infinity"'),
    ("double", -math.inf, '"-Infinity"'),
    ("float", 1.100000023841858, "1.1"),
    ("float", math.inf, '"Infinity"'),
    ("decimal(10,2)", Decimal("1.1"), "1.10"),
    ("decimal(10,2)", Decimal("-0.05"), "-0.05"),
    ("decimal(10,0)", Decimal(7), "7"),
    ("decimal(2,2)", Decimal("0.5"), "0.50"),
    ("decimal(38,0)", Decimal("9" * 38), "9" * 38),
    ("string", "", '""'),
    ("string", 'é😀"\\/\n\t\x01\x7f\u2028', '"é😀\\"\\\\/\\n\\t\\u0001\x7f\u2028"'),
    ("string", "NaN", '"NaN"'),
    ("binary", b"hi\xff", '"aGn/"'),
    ("date", date(2026, 1, 31), '"2026-01-31"'),
    ("date", date(1, 1, 1), '"0001-01-01"'),
    ("timestamp", datetime(2026, 1, 31, 8, tzinfo=UTC), '"2026-01-31T08:00:00.000000Z"'),
    ("timestamp", datetime(1, 1, 1, 0, 0, 0, 7, UTC), '"0001-01-01T00:00:00.000007Z"'),
    ("timestamp_ntz", datetime(2026, 1, 31, 8), '"2026-01-31T08:00:00.000000"'),
    ("array<timestamp_ntz>", [datetime(2026, 1, 31), None], '["2026-01-31T00:00:00.000000",null]'),
    (
        "interval day to second",
        timedelta(1, 7384, 500_000),
        "\"INTERVAL '1 02:03:04.5' DAY TO SECOND\"",
    ),
    ("array<interval month>", [14, None], "[\"INTERVAL '14' MONTH\",null]"),
    ("time", time(8, 7, 6, 5), '"08:07:06.000005"'),
    (
        "struct<a:time,b:double>",
        {"a": time(8), "b": math.inf},
        '{"a":"08:00:00.000000","b":"Infinity"}',
    ),
    ("array<double>", [1.5, math.nan, None], '[1.5,"NaN",null]'),
    ("array<bigint>", [], "[]"),
    ("array<string>", ['"', None], '["\\"",null]'),
    ("array<decimal(5,1)>", [Decimal("1.2"), None], "[1.2,null]"),
    ("array<array<timestamp>>", [[None], None, []], "[[null],null,[]]"),
    (
        "struct<a:bigint,b:struct<c:double,d:timestamp>>",
        {"a": 1, "b": {"c": math.inf, "d": datetime(2026, 1, 31, tzinfo=UTC)}},
        '{"a":1,"b":{"c":"Infinity","d":"2026-01-31T00:00:00.000000Z"}}',
    ),
    ("map<string,bigint>", {'"a': 1, "b": None}, '{"\\"a":1,"b":null}'),
    ("map<string,array<timestamp>>", {"a": [None]}, '{"a":[null]}'),
    ("map<bigint,double>", {1: math.nan}, '{"1":"NaN"}'),
    ("map<bigint,bigint>", {}, "{}"),
    ("map<boolean,bigint>", {True: 1}, '{"true":1}'),
    ("map<double,bigint>", {0.1: 1, math.nan: 2, -math.inf: 3}, '{"0.1":1,"NaN":2,"-Infinity":3}'),
    ("map<decimal(5,2),decimal(5,2)>", {Decimal("1.1"): Decimal(2)}, '{"1.10":2.00}'),
    ("map<date,date>", {date(2026, 1, 31): date(1, 1, 1)}, '{"2026-01-31":"0001-01-01"}'),
    (
        "map<timestamp,binary>",
        {datetime(2026, 1, 31, tzinfo=UTC): b"hi"},
        '{"2026-01-31T00:00:00.000000Z":"aGk="}',
    ),
    ("map<binary,map<string,float>>", {b"hi": {"a": 0.5}}, '{"aGk=":{"a":0.5}}'),
    ("array<map<string,decimal(3,1)>>", [{"a": Decimal("1.5")}, {}], '[{"a":1.5},{}]'),
    ('struct<`a"b`:decimal(2,1)>', {'a"b': Decimal("0.1")}, '{"a\\"b":0.1}'),
]


@pytest.mark.parametrize(("type", "value", "text"), VALUES)
def test_the_text_of_a_value(type: str, value: object, text: str) -> None:
    columns = schema(a=type)
    rows = frame(columns, [(value,), (None,)])
    assert JsonEncoder(columns).encode(rows).decode() == f'{{"a":{text}}}\n{{"a":null}}\n'


def test_fields_come_in_the_order_of_the_schema_with_their_names_escaped() -> None:
    columns = schema(**{"é": "bigint", 'a"\n': "decimal(2,1)"})
    rows = frame(columns, [(1, Decimal("0.1"))]).select(pl.all().reverse(), pl.lit(5).alias("z"))
    assert JsonEncoder(columns).encode(rows) == '{"é":1,"a\\"\\n":0.1}\n'.encode()


@pytest.mark.parametrize(("run", "first"), [(1, 0), (3, 0), (50, 0), (100, 0), (200, 200)])
def test_runs_of_instants_are_the_bytes_that_each_is_alone(run: int, first: int) -> None:
    columns = schema(a="timestamp", b="bigint")
    times = [None, *(datetime(2026, 1, 31, 8, 0, 0, at, UTC) for at in (1, 0, 1))]
    rows = frame(columns, [(times[(first + at) // run % 4], at) for at in range(200)])
    encoder = JsonEncoder(columns)
    assert encoder.encode(rows) == b"".join(encoder.encode(rows[at]) for at in range(200))


@pytest.mark.parametrize("name", ["a", "},{"])
@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("bigint", 7),
        ("string", 'é\n"x"'),
        ("string", "},{"),
        ("string", '"},{"'),
        ("array<struct<a:bigint>>", [{"a": 1}, {"a": 2}]),
        ("struct<a:struct<b:string>>", {"a": {"b": "}"}}),
        ("array<map<string,bigint>>", [{"a": 1}, {"},{": 2}]),
        ("struct<b:string,c:array<struct<a:bigint>>>", {"b": "}", "c": [{"a": 1}, None]}),
    ],
)
def test_few_rows_are_the_bytes_that_they_are_among_many(
    name: str, type: str, value: object
) -> None:
    columns = schema(**{name: type})
    rows = frame(columns, [(value,), (None,)] * (MAX_ARRAY_ROWS // 2))
    encoder = JsonEncoder(columns)
    assert b"".join(encoder.encode(rows[at : at + 3]) for at in range(0, MAX_ARRAY_ROWS, 3)) == (
        encoder.encode(rows)
    )


def test_no_rows_are_no_bytes() -> None:
    for type in ("bigint", "decimal(2,1)", "array<double>", "struct<a:timestamp>"):
        columns = schema(a=type)
        assert JsonEncoder(columns).encode(frame(columns, [])) == b""


@settings(max_examples=60, deadline=None)
@given(frames())
def test_rows_read_back_as_they_were(drawn: tuple[Schema, pl.DataFrame]) -> None:
    columns, rows = drawn
    text = JsonEncoder(columns).encode(rows)
    again, bad = JsonDecoder(columns).decode(text, 0)
    assert not bad
    assert repr(again.rows()) == repr(rows.rows())
    for line in text.splitlines():
        json.loads(line)


@settings(max_examples=60, deadline=None)
@given(frames())
def test_a_row_is_the_same_bytes_in_any_batch(
    drawn: tuple[Schema, pl.DataFrame],
) -> None:
    columns, rows = drawn
    encoder = JsonEncoder(columns)
    alone = b"".join(encoder.encode(rows[at]) for at in range(rows.height))
    assert encoder.encode(rows) == alone


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=200))
def test_a_double_is_the_shortest_number_that_reads_back(numbers: list[float]) -> None:
    columns = schema(a="double")
    text = JsonEncoder(columns).encode(frame(columns, [(number,) for number in numbers]))
    odd = JsonEncoder(columns).encode(frame(columns, [(n,) for n in [*numbers, math.nan]]))
    assert odd == text + b'{"a":"NaN"}\n'
    for line, number in zip(text.splitlines(), numbers, strict=True):
        digits = line[5:-1].decode()
        assert repr(float(digits)) == repr(number)
        assert len(digits.lstrip("-").split("e")[0].strip("0.")) <= len(repr(number))


def test_an_encoder_can_be_pickled_and_names_its_files() -> None:
    encoder = JsonEncoder(schema(a="decimal(10,2)"))
    assert pickle.loads(pickle.dumps(encoder)) == encoder
    assert (encoder.suffix, encoder.header()) == (".jsonl", b"")
