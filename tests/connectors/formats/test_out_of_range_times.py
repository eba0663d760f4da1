"""Dates and timestamps of years that Polars cannot write: what is written of them."""

from __future__ import annotations

import json

import polars as pl
import pytest

from headrace.connectors.formats.contract import BytesEncoder
from headrace.connectors.formats.csv_decode import CsvDecoder
from headrace.connectors.formats.csv_encode import CsvEncoder
from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.formats.json_encode import JsonEncoder
from headrace.core.expressions import to_expr, type_expression
from headrace.core.types.data_types import Schema
from tests.support.formats.decoding import schema

INFINITY = 9223372036825200000
"""What Debezium writes for it."""
TIMES = {
    INFINITY: "+294247-01-10T04:00:25.200000Z",
    -(2**63): "-290308-12-21T19:59:05.224192Z",
    253402300800000000: "+10000-01-01T00:00:00.000000Z",
    -62167219200000001: "-0001-12-31T23:59:59.999999Z",
    -62135596800000001: "0000-12-31T23:59:59.999999Z",
    1_700_000_000_000_000: "2023-11-14T22:13:20.000000Z",
}
DATES = {
    2**31 - 1: "+5881580-07-11",
    -(2**31): "-5877641-06-23",
    2932897: "+10000-01-01",
    -719529: "-0001-12-31",
    0: "1970-01-01",
}


def rows(times: list[int | None], **columns: str) -> tuple[Schema, pl.DataFrame]:
    """Columns computed from `i`, these numbers of microseconds."""
    frame = pl.DataFrame({"i": pl.Series(times, dtype=pl.Int64)})
    typed = {name: type_expression(text, schema(i="bigint")) for name, text in columns.items()}
    made = frame.select(to_expr(each).alias(name) for name, each in typed.items())
    return schema(**{name: str(each.type) for name, each in typed.items()}), made


def parsed(encoder: JsonEncoder, frame: pl.DataFrame) -> list[object]:
    """The first value of each row."""
    lines = encoder.encode(frame).splitlines()
    return [next(iter(json.loads(line).values())) for line in lines]


def encoders(columns: Schema) -> list[BytesEncoder]:
    """Encode rows as JSON, as CSV, and as CSV with quotes."""
    return [JsonEncoder(columns), CsvEncoder(columns), CsvEncoder(columns, null="NULL")]


@pytest.mark.parametrize(
    ("expression", "texts"),
    [("timestamp_micros(i)", TIMES), ("date_add(date'1970-01-01', int(i))", DATES)],
)
def test_the_year_has_all_its_digits_and_a_sign(expression: str, texts: dict[int, str]) -> None:
    columns, frame = rows([*texts, None], t=expression)
    wanted = [*texts.values(), None]
    assert parsed(JsonEncoder(columns), frame) == wanted
    assert CsvEncoder(columns).encode(frame).decode() == "".join(f"{t or ''}\n" for t in wanted)


@pytest.mark.parametrize("beside", ["1", "cast('Infinity' as double)"])
def test_a_row_is_the_same_bytes_in_any_batch(beside: str) -> None:
    columns, frame = rows(list(TIMES), t="timestamp_micros(i)", beside=beside)
    for encoder in encoders(columns):
        one_by_one = b"".join(encoder.encode(frame[at]) for at in range(frame.height))
        assert encoder.encode(frame) == one_by_one
        assert one_by_one.count(b"294247-01-10") == 1


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("array(timestamp_micros(i), null)", lambda text: [text, None]),
        ("array(array(timestamp_micros(i)))", lambda text: [[text]]),
        ("named_struct('a', timestamp_micros(i), 'n', 1)", lambda text: {"a": text, "n": 1}),
        ("array(named_struct('a', timestamp_micros(i)))", lambda text: [{"a": text}]),
    ],
)
def test_in_arrays_and_structs(expression: str, wanted: object) -> None:
    assert callable(wanted)
    columns, frame = rows(list(TIMES), t=expression)
    assert parsed(JsonEncoder(columns), frame) == [wanted(text) for text in TIMES.values()]


@pytest.mark.parametrize(
    "expression",
    [
        "timestamp_micros(i)",
        "array(timestamp_micros(i))",
        "array(date_add(date'1970-01-01', int(i)))",
        "named_struct('t', array(date_add(date'1970-01-01', int(i))))",
    ],
)
def test_a_far_time_under_a_null_does_no_harm(expression: str) -> None:
    columns, frame = rows([2**31 - 1, INFINITY, 0], t=expression)
    is_last = pl.int_range(pl.len()) == 2
    found = parsed(JsonEncoder(columns), frame.select(pl.when(is_last).then("t").alias("t")))
    assert found[:2] == [None, None]
    assert "1970-01-01" in json.dumps(found[2])


@pytest.mark.parametrize("text", [text for text in TIMES.values() if not text.startswith("2")])
def test_what_is_written_of_a_year_that_is_none_of_1_to_9999_is_no_record(text: str) -> None:
    columns = schema(t="timestamp")
    of_csv = CsvDecoder(columns, columns, columns.names)
    for decoder, record in ((JsonDecoder(columns), f'{{"t":"{text}"}}'), (of_csv, text)):
        frame, bad = decoder.decode(f"{record}\n".encode(), 0)
        assert (frame.height, len(bad)) == (0, 1)
