"""Values of records become rows one by one, whatever bytes are in them."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.connectors.formats.csv_decode import CsvDecoder
from headrace.connectors.formats.csv_syntax import RFC_4180
from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.kafka.source.value_decoding import (
    DecodedValues,
    LineValueDecoder,
    RawValueDecoder,
    build_csv_decoder,
    build_json_decoder,
)
from headrace.core.types.data_types import BIGINT, BINARY, STRING, Field, Schema

TWO = Schema((Field("a", BIGINT), Field("b", STRING)))
JSON = build_json_decoder(JsonDecoder(TWO))
CSV = build_csv_decoder(CsvDecoder(TWO, TWO, TWO.names), RFC_4180)


def numbered(rows: DecodedValues, count: int) -> dict[int, object]:
    """The result of each value: a row, None for a skipped one, or its error."""
    out = set(rows.errors) | set(rows.skipped)
    good = [number for number in range(count) if number not in out]
    assert rows.frame.height == len(good)
    found: dict[int, object] = dict(zip(good, rows.frame.rows(), strict=True))
    return found | dict(rows.errors) | dict.fromkeys(rows.skipped)


def alone(reader: LineValueDecoder, value: bytes | None) -> object:
    return numbered(reader.decode_values([value]), 1)[0]


def test_json_is_read_at_once_and_by_record() -> None:
    rows = JSON.decode_values([b'{"a":1,"b":"x"}', b'{"a":2}'])
    assert numbered(rows, 2) == {0: (1, "x"), 1: (2, None)}


def test_a_record_of_json_may_stand_on_many_lines() -> None:
    rows = JSON.decode_values([b'{"a":1}', b'{\n  "a": 2,\n  "b": "y"\n}\n', b'{"a":3}'])
    assert numbered(rows, 3) == {0: (1, None), 1: (2, "y"), 2: (3, None)}


def test_a_line_feed_in_a_text_of_json_is_wrong() -> None:
    found = numbered(JSON.decode_values([b'{"a":1}', b'{"a":2,"b":"x\ny"}', b'{"a":3}']), 3)
    assert (found[0], found[2]) == ((1, None), (3, None))
    assert "wanted a JSON object" in str(found[1])


def test_two_objects_in_a_value_are_no_two_records() -> None:
    found = numbered(JSON.decode_values([b'{"a":1}\n{"a":2}', b'{"a":3}']), 2)
    assert isinstance(found[0], str)
    assert found[1] == (3, None)


@pytest.mark.parametrize("reader", [JSON, CSV])
def test_null_is_skipped_and_nothing_is_bad(reader: LineValueDecoder) -> None:
    good = b'{"a":1,"b":"x"}' if reader is JSON else b"1,x"
    found = numbered(reader.decode_values([None, good, b"", good, b"\r", b"\n", b"\r\n"]), 7)
    assert found[0] is None
    assert found[1] == found[3] == (1, "x")
    assert all("got nothing" in str(found[at]) for at in (2, 4, 5, 6))


def test_a_byte_order_mark_is_judged_in_the_same_way_at_any_place() -> None:
    marked = b'\xef\xbb\xbf{"a":1}'
    first = numbered(JSON.decode_values([marked, b'{"a":2}']), 2)
    second = numbered(JSON.decode_values([b'{"a":2}', marked]), 2)
    assert first[0] == second[1] == alone(JSON, marked)
    assert first[1] == second[0] == (2, None)


def test_what_looks_packed_is_one_bad_record() -> None:
    for value in (b"\x1f\x8b\x08\n\n", b"\x28\xb5\x2f\xfd\n", b"x\x9c\n"):
        found = numbered(JSON.decode_values([value, b'{"a":2}']), 2)
        assert isinstance(found[0], str)
        assert found[1] == (2, None)


def test_a_field_of_csv_may_hold_line_feeds() -> None:
    rows = CSV.decode_values([b'1,"x\ny"', b"2,z\n", b'3,"q""\n""r"\r\n'])
    assert numbered(rows, 3) == {0: (1, "x\ny"), 1: (2, "z"), 2: (3, 'q"\n"r')}


def test_an_open_quote_does_not_reach_into_the_next_record() -> None:
    found = numbered(CSV.decode_values([b'1,"x', b'2,y"', b'3,"z"', b'4,a"b,"c', b'5,d"']), 5)
    assert found[2] == (3, "z")
    assert all(isinstance(found[at], str) for at in (0, 1, 3, 4))


def test_two_records_of_csv_in_a_value_are_bad() -> None:
    found = numbered(CSV.decode_values([b"1,x\n2,y", b"3,z"]), 2)
    assert found == {0: "wanted one record, got 2", 1: (3, "z")}


JSONS = st.builds(
    lambda a, b, indent: json.dumps({"a": a, "b": b}, indent=indent).encode(),
    st.integers(-9, 9),
    st.none() | st.text(max_size=3),
    st.none() | st.just(1),
)
BYTES = st.lists(
    st.sampled_from(
        [b"1", b",", b'"', b"\n", b"\r", b" ", b"{", b"}", b'"a":1', b"\xff", b"\xef\xbb\xbf", b"x"]
    ),
    max_size=8,
).map(b"".join)


@given(st.lists(st.none() | JSONS | BYTES, max_size=8))
@example([b'"\n"', b'"'])
@example([b"}", b"x\r{ \r\r{}", b"\r,", b" \n\xef\xbb\xbf}\xffx11"])
def test_a_value_is_read_as_if_it_were_alone(values: list[bytes | None]) -> None:
    for reader in (JSON, CSV):
        rows = reader.decode_values(values)
        assert numbered(rows, len(values)) == {
            at: alone(reader, value) for at, value in enumerate(values)
        }
        assert list(rows.errors) == sorted(rows.errors)


def raw(type_: Field, values: list[bytes | None]) -> dict[int, object]:
    return numbered(RawValueDecoder(Schema((type_,))).decode_values(values), len(values))


def test_raw_values_are_what_they_are() -> None:
    values = [b"a\nb", b"", None, b"\xef\xbb\xbfc\r\n", "ü".encode()]
    assert raw(Field("v", BINARY), values) == {at: (v,) for at, v in enumerate(values)}
    texts = [None if value is None else value.decode() for value in values]
    assert raw(Field("v", STRING), values) == {at: (v,) for at, v in enumerate(texts)}


def test_raw_text_that_is_no_utf_8_is_bad_and_so_is_null_that_must_not_be() -> None:
    found = raw(Field("v", STRING, nullable=False), [b"a", b"\xff", None, b"b"])
    assert found == {
        0: ("a",),
        1: "wanted UTF-8",
        2: 'column "v": wanted string not null, got null',
        3: ("b",),
    }


def test_rows_of_no_column_are_counted() -> None:
    nothing = Schema(())
    assert RawValueDecoder(nothing).decode_values([b"a", None]).frame.height == 2
    rows = build_json_decoder(JsonDecoder(nothing)).decode_values([b'{"a":1}', None, b"", b"{\n}"])
    assert (rows.frame.height, list(rows.errors), list(rows.skipped)) == (2, [2], [1])
    assert rows.frame.width == 0
    assert isinstance(rows.frame, pl.DataFrame)
