"""JSON values of each type, and values that are invalid for the type."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.formats.decimals import convert_doubles, round_decimal
from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.formats.json_wire import UNITS_PER_SECOND
from headrace.core.types.data_types import Decimal as DecimalType
from headrace.core.types.data_types import to_polars
from tests.support.formats.decoding import schema

BAD = object()

UTC = ZoneInfo("UTC")

NAN = math.nan
INF = math.inf

# The type, the JSON text of a value, and what it is.
VALUES: list[tuple[str, str, object]] = [
    ("boolean", "true", True),
    ("boolean", "false", False),
    ("boolean", "1", BAD),
    ("boolean", '"true"', BAD),
    ("tinyint", "127", 127),
    ("tinyint", "-128", -128),
    ("tinyint", "128", BAD),
    ("tinyint", "1.0", BAD),
    ("smallint", "32767", 32767),
    ("smallint", "-32769", BAD),
    ("smallint", "99999999999", BAD),
    ("int", "2147483647", 2147483647),
    ("int", "2147483648", BAD),
    ("bigint", "0", 0),
    ("bigint", "-0", 0),
    ("bigint", "9223372036854775807", 2**63 - 1),
    ("bigint", "-9223372036854775808", -(2**63)),
    ("bigint", "9223372036854775808", BAD),
    ("bigint", "123456789012345678901234567890", BAD),
    ("bigint", "1.0", BAD),
    ("bigint", "1e3", BAD),
    ("bigint", "01", BAD),
    ("bigint", "+1", BAD),
    ("bigint", '"5"', BAD),
    ("bigint", "true", BAD),
    ("bigint", "[1]", BAD),
    ("bigint", "{}", BAD),
    ("double", "1", 1.0),
    ("double", "-0.0", -0.0),
    ("double", "1e3", 1000.0),
    ("double", "1e-400", 0.0),
    ("double", "9007199254740993", 9007199254740992.0),
    ("double", "1.7976931348623157e308", 1.7976931348623157e308),
    ("double", "1e999", BAD),
    ("double", ".5", BAD),
    ("double", "5.", BAD),
    ("double", "NaN", BAD),
    ("double", '"NaN"', NAN),
    ("double", '"Infinity"', INF),
    ("double", '"-Infinity"', -INF),
    ("double", '"nan"', BAD),
    ("double", '"inf"', BAD),
    ("double", '"1.5"', BAD),
    ("double", '""', BAD),
    ("double", "true", BAD),
    ("float", "1.1", 1.100000023841858),
    ("float", "3.4028234e38", 3.4028234663852886e38),
    ("float", "1e39", BAD),
    ("float", '"Infinity"', INF),
    ("decimal(10,2)", "1", Decimal("1.00")),
    ("decimal(10,2)", "1.10", Decimal("1.10")),
    ("decimal(10,2)", "-0.05", Decimal("-0.05")),
    ("decimal(10,2)", "1.005", Decimal("1.01")),
    ("decimal(10,2)", "-1.005", Decimal("-1.01")),
    ("decimal(10,2)", "1.0049999999999999999999999999999999999999999", Decimal("1.00")),
    ("decimal(10,2)", "1e3", Decimal("1000.00")),
    ("decimal(10,2)", "99999999.99", Decimal("99999999.99")),
    ("decimal(10,2)", "99999999.995", BAD),
    ("decimal(10,2)", "100000000", BAD),
    ("decimal(10,2)", '"1.10"', Decimal("1.10")),
    ("decimal(10,2)", '"1.005"', Decimal("1.01")),
    ("decimal(10,2)", '"1e3"', Decimal("1000.00")),
    ("decimal(10,2)", r'"1\u002e5"', Decimal("1.50")),
    ("decimal(10,2)", '"100000000"', BAD),
    ("decimal(10,2)", '""', BAD),
    ("decimal(10,2)", '" 1"', BAD),
    ("decimal(10,2)", '"1,5"', BAD),
    ("decimal(10,2)", '"1', BAD),
    ("decimal(10,2)", '"NaN"', BAD),
    ("decimal(10,2)", "true", BAD),
    ("decimal(2,2)", "0.99", Decimal("0.99")),
    ("decimal(2,2)", "1", BAD),
    ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
    ("decimal(38,0)", "9" * 39, BAD),
    (
        "decimal(38,18)",
        "12345678901234567890.123456789012345678",
        Decimal("12345678901234567890.123456789012345678"),
    ),
    ("string", '"x"', "x"),
    ("string", '""', ""),
    ("string", '"é\\n\\u0000\\ud83d\\ude00"', "é\n\0😀"),
    ("string", '"\\ud83d"', BAD),
    ("string", '"\\ude00"', BAD),
    ("string", '"\\\\ud83d"', "\\ud83d"),
    ("string", "1.50", "1.5"),
    ("string", "true", "true"),
    ("string", '{"a": [1,null, "é"]}', '{"a": [1, null, "é"]}'),
    ("string", "1e999", BAD),
    ("binary", '"aGk="', b"hi"),
    ("binary", '"\\u0061Gk="', b"hi"),
    ("binary", '"//79"', b"\xff\xfe\xfd"),
    ("binary", '"\\/\\/79"', b"\xff\xfe\xfd"),
    ("binary", '""', b""),
    ("binary", '"a"', BAD),
    ("binary", '"aGk"', BAD),
    ("binary", "1234", BAD),
    ("binary", "true", BAD),
    ("date", '"2026-01-31"', date(2026, 1, 31)),
    ("date", '"0001-01-01"', date(1, 1, 1)),
    ("date", '"2026-02-30"', BAD),
    ("date", '"2026-1-31"', BAD),
    ("date", '"2026-01-31T00:00:00Z"', BAD),
    ("date", "20260131", BAD),
    ("timestamp", '"2026-01-31T08:00:00Z"', datetime(2026, 1, 31, 8, tzinfo=UTC)),
    ("timestamp", "1769846400000", BAD),
    ("timestamp_ntz", '"2026-01-31T08:00:00.5"', datetime(2026, 1, 31, 8, 0, 0, 500_000)),
    ("timestamp_ntz", '"2026-01-31 08:00"', datetime(2026, 1, 31, 8)),
    ("timestamp_ntz", '"2026-01-31"', datetime(2026, 1, 31)),
    ("timestamp_ntz", '"2026-01-31T08:00:00Z"', BAD),
    ("timestamp_ntz", '"2026-01-31T08:00:00+02:00"', BAD),
    ("timestamp_ntz", "1769846400000", BAD),
    ("array<timestamp_ntz>", '["2026-01-31",null]', [datetime(2026, 1, 31), None]),
    ("time", '"08:07:06.5"', time(8, 7, 6, 500_000)),
    ("time", '"08:07"', time(8, 7)),
    ("time(0)", '"08:07:06.999"', time(8, 7, 6)),
    ("time", '"24:00:00"', BAD),
    ("time", '"8:07"', BAD),
    ("time", '"08:07:06Z"', BAD),
    ("time", "29220", BAD),
    ("array<time>", '["08:07",null]', [time(8, 7), None]),
    ("interval day to second", '"1 02:03:04.5"', timedelta(1, 7384, 500_000)),
    ("interval hour", """ "INTERVAL '-03' HOUR" """, timedelta(hours=-3)),
    ("interval year to month", """ "INTERVAL '1-2' YEAR TO MONTH" """, 14),
    ("interval day", '"1 02:03:04"', BAD),
    ("interval day", "1", timedelta(1)),
    ("array<bigint>", "[1,null,2]", [1, None, 2]),
    ("array<bigint>", "[]", []),
    ("array<bigint>", "[1.5]", BAD),
    ("array<bigint>", "1", BAD),
    ("array<bigint>", "{}", BAD),
    ("array<double>", '[1,"-Infinity",1.5,null]', [1.0, -INF, 1.5, None]),
    ("array<double>", '["NaN","1.5"]', BAD),
    ("array<tinyint>", "[127]", [127]),
    ("array<tinyint>", "[1,128]", BAD),
    ("array<float>", "[1e39]", BAD),
    ("array<date>", '["2026-01-31",null]', [date(2026, 1, 31), None]),
    ("array<date>", '["x"]', BAD),
    ("array<decimal(5,1)>", "[1.25,null]", [Decimal("1.3"), None]),
    ("array<decimal(5,1)>", '["1.25",1]', [Decimal("1.3"), Decimal("1.0")]),
    ("array<decimal(5,1)>", '["x"]', BAD),
    ("array<binary>", '["aGk=",null]', [b"hi", None]),
    ("array<binary>", "[1234]", BAD),
    ("array<array<double>>", '[[1.5],["NaN"],null]', [[1.5], [NAN], None]),
    ("struct<a:bigint,b:string>", '{"a":1,"c":2}', {"a": 1, "b": None}),
    ("struct<a:bigint,b:string>", '{"b":{"x":1}}', {"a": None, "b": '{"x": 1}'}),
    ("struct<a:bigint,b:string>", '{"a":"1"}', BAD),
    ("struct<a:bigint,b:string>", "[]", BAD),
    ("struct<a:bigint,b:string>", '"x"', BAD),
    (
        "struct<t:timestamp,d:decimal(5,1),x:array<double>>",
        '{"t":"2026-01-31","d":0.05,"x":["NaN"]}',
        {"t": datetime(2026, 1, 31, tzinfo=UTC), "d": Decimal("0.1"), "x": [NAN]},
    ),
    ("struct<s:string,x:double>", '{"s":"NaN","x":"NaN"}', {"s": "NaN", "x": NAN}),
]


@pytest.mark.parametrize(("type", "text", "value"), VALUES)
def test_a_value_of_a_type(type: str, text: str, value: object) -> None:
    decoder = JsonDecoder(schema(a=type))
    frame, bad = decoder.decode(f'{{"a":{text}}}'.encode(), 0)
    assert frame.schema == {"a": to_polars(decoder.schema.fields[0].type)}
    if value is BAD:
        assert (frame.height, len(bad)) == (0, 1)
    else:
        assert not bad
        # As text, because NaN is not itself.
        assert repr(frame["a"].to_list()) == repr([value])


@pytest.mark.parametrize("type", sorted({type for type, _, _ in VALUES}))
def test_null_and_a_missing_field_are_null(type: str) -> None:
    frame, bad = JsonDecoder(schema(a=type)).decode(b'{"a":null}\n{}\n{"A":1}', 0)
    assert not bad
    assert frame["a"].to_list() == [None, None, None]


@pytest.mark.parametrize("type", sorted({type for type, _, _ in VALUES}))
def test_null_is_bad_where_it_must_not_be(type: str) -> None:
    frame, bad = JsonDecoder(schema(a=f"{type} not null")).decode(b'{"a":null}\n{}', 0)
    assert frame.height == 0
    assert [record.position for record in bad] == [0, 11]
    assert bad[0].error == f'column "a": wanted {decoder_type(type)} not null, got null'


def test_a_field_within_must_not_be_null_if_the_struct_is_not() -> None:
    decoder = JsonDecoder(schema(a="array<struct<x:bigint not null,y:struct<z:string not null>>>"))
    lines = (
        *('{"a":null}', '{"a":[]}', '{"a":[null]}', '{"a":[{"x":1}]}'),
        *('{"a":[{"x":1,"y":{"z":"q"}}]}', '{"a":[{}]}', '{"a":[{"x":null}]}'),
        *('{"a":[{"x":1},{}]}', '{"a":[{"x":1,"y":{}}]}'),
    )
    frame, bad = decoder.decode("\n".join(lines).encode(), 0)
    assert frame.height == 5
    assert [record.raw for record in bad] == list(lines[5:])
    assert bad[0].error.endswith(", got null within")


def decoder_type(text: str) -> str:
    return str(schema(a=text).fields[0].type)


@pytest.mark.parametrize(
    ("unit", "text", "micros"),
    [
        ("s", "1769846400", 1769846400_000000),
        ("s", "-1", -1_000000),
        ("ms", "1769846400123", 1769846400_123000),
        ("us", "9223372036854775807", 9223372036854775807),
        ("ns", "1999", 1),
        ("ns", "-1", -1),
        ("s", "9223372036855", None),
        ("ms", "-9223372036854776", None),
        ("ms", "1769846400123.0", None),
        ("ms", '"1769846400123"', None),
        ("ms", '"2026-01-31T08:00:00Z"', None),
    ],
)
def test_an_instant_as_a_number(unit: str, text: str, micros: int | None) -> None:
    frame, bad = JsonDecoder(schema(a="timestamp"), unit).decode(f'{{"a":{text}}}'.encode(), 0)
    assert frame["a"].to_physical().to_list() == ([] if micros is None else [micros])
    assert len(bad) == (micros is None)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(UNITS_PER_SECOND)),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)),
)
def test_times_as_numbers_are_the_same_in_any_batch(unit: str, numbers: list[int | None]) -> None:
    decoder = JsonDecoder(schema(a="timestamp"), unit)
    lines = [b'{"a":%s}\n' % json.dumps(number).encode() for number in numbers]
    alone = [decoder.decode(line, 0) for line in lines]
    frame, bad = decoder.decode(b"".join(lines), 0)
    whole = pl.concat([frame.clear(), *(frame for frame, _ in alone)])
    assert frame.equals(whole)
    assert [record.error for record in bad] == [one.error for _, ones in alone for one in ones]


@given(
    st.builds(
        "{}{}.{}{}".format,
        st.sampled_from(["", "-"]),
        st.integers(0, 10**17),
        st.text("0123456789", min_size=1, max_size=20),
        st.sampled_from(["", "e3", "E-5"]),
    ),
    st.sampled_from(
        [DecimalType(15, 2), DecimalType(38, 6), DecimalType(5, 0), DecimalType(20, 15)]
    ),
)
def test_a_double_is_the_decimal_of_its_text_or_is_read_again(text: str, type: DecimalType) -> None:
    converted = convert_doubles(pl.Series("a", [float(text)]), type).item()
    rounded = round_decimal(text, type)
    assert converted is None or converted == Decimal(rounded or "nan")


def test_decimals_in_quotes_stand_beside_numbers_and_bad_records() -> None:
    decoder = JsonDecoder(schema(id="bigint", a="decimal(10,2)"))
    values = ["1.10", '"1.10"', "null", '"x"', '"-2.005"', "true", "3"]
    lines = [f'{{"id":{row},"a":{value}}}\n' for row, value in enumerate(values)]
    frame, bad = decoder.decode("".join(lines).encode(), 0)
    read = [None if value is None else str(value) for value in frame["a"].to_list()]
    assert read == ["1.10", "1.10", None, "-2.01", "3.00"]
    assert [record.error for record in bad] == [
        'column "a": wanted decimal(10,2), got "x"',
        'column "a": wanted decimal(10,2), got true',
    ]


def test_most_prices_need_no_second_reading() -> None:
    prices = pl.Series("a", [cents / 100 for cents in range(-10_000, 10_000_000, 997)])
    assert convert_doubles(prices, DecimalType(15, 2)).null_count() == 0
