"""Values of tests in the types of columns."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest

from headrace.core.pipeline.text import NOTHING, Text
from headrace.core.testing.written_values import ValueConverter, WrongValue
from headrace.core.types.type_parser import parse_type

DAY = date(2026, 1, 31)
TEN = datetime(2026, 1, 31, 10, tzinfo=UTC)


def convert(value: object, type: str, day: date | None = DAY) -> object:
    parsed, _ = parse_type(type)
    return ValueConverter(day).convert(_make_texts(value), parsed)


def _make_texts(value: object) -> object:
    match value:
        case str():
            return Text(value)
        case list():
            return [_make_texts(each) for each in value]
        case dict():
            return {Text(key): _make_texts(each) for key, each in value.items()}
    return value


@pytest.mark.parametrize(
    ("value", "type", "converted"),
    [
        (NOTHING, "int", None),
        ("5", "int", 5),
        ("-128", "tinyint", -128),
        ("5", "string", "5"),
        ("null", "string", "null"),
        ("1.5", "double", 1.5),
        ("1.50", "decimal(4,2)", Decimal("1.50")),
        ("0", "decimal(2,2)", Decimal(0)),
        ("True", "boolean", True),
        ("2026-01-31", "date", DAY),
        ("10:00", "timestamp", TEN),
        ("10:00:00.25", "timestamp", TEN.replace(microsecond=250_000)),
        ("2026-01-31T11:00:00+01:00", "timestamp", TEN),
        ("2026-01-31 10:00:00", "timestamp", TEN),
        ("10:00", "timestamp_ntz", TEN.replace(tzinfo=None)),
        ("10:00:05", "time(6)", time(10, 0, 5)),
        ("aGk=", "binary", b"hi"),
        (["1", NOTHING], "array<int>", [1, None]),
        ({"a": "1"}, "map<string,int>", {"a": 1}),
        ({"a": "1"}, "struct<a:int,b:string>", {"a": 1, "b": None}),
    ],
)
def test_values_have_the_type_of_their_column(value: object, type: str, converted: object) -> None:
    assert convert(value, type) == converted


@pytest.mark.parametrize(
    ("value", "type", "message"),
    [
        ("128", "tinyint", 'wanted tinyint, got "128"'),
        ("1.0", "int", 'wanted int, got "1.0"'),
        ("100", "decimal(4,2)", 'wanted decimal(4,2), got "100"'),
        ("NaN", "decimal(4,2)", 'wanted decimal(4,2), got "NaN"'),
        ("yes", "boolean", 'wanted boolean, got "yes"'),
        ("x", "double", 'wanted double, got "x"'),
        ("noon", "timestamp", 'wanted timestamp, got "noon"'),
        ("2026-01-31T10:00:00Z", "timestamp_ntz", "has a time zone"),
        ("!", "binary", 'wanted binary, got "!"'),
        (["1"], "int", "wanted int, got a list"),
        ("1", "array<int>", 'wanted array<int>, got "1"'),
        ({"c": "1"}, "struct<a:int>", 'there is no field "c"'),
    ],
)
def test_other_values_are_refused(value: object, type: str, message: str) -> None:
    with pytest.raises(WrongValue) as refused:
        convert(value, type)
    assert message in refused.value.message


def test_a_short_time_needs_a_day() -> None:
    with pytest.raises(WrongValue) as refused:
        convert("10:00", "timestamp", None)
    assert refused.value.hint.startswith("add date:")
