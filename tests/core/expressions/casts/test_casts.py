"""Casts: refused casts, nulls by decision, and frames of different shapes.

Values are compared with Spark's in casts.json, casts_text.json and casts_times.json of
tests/core/spark/cases.
"""

from __future__ import annotations

import math
from decimal import Decimal as D
from typing import Any

import polars as pl
import pytest

from headrace.core.expressions import to_expr, type_expression
from headrace.core.expressions.casts import build_cast_form
from headrace.core.types.data_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Schema,
    Struct,
    Type,
    to_polars,
)
from tests.support.expression_errors import assert_refused

SCHEMA = Schema(
    (
        Field("i", INT),
        Field("n", INT, nullable=False),
        Field("l", BIGINT),
        Field("x", DOUBLE),
        Field("f", FLOAT),
        Field("s", STRING),
        Field("p", BOOLEAN),
        Field("y", BINARY),
        Field("dt", DATE),
        Field("ts", TIMESTAMP),
        Field("a", Array(INT)),
        Field("o", Struct((Field("p", INT), Field("q", DOUBLE)))),
        Field("w", Decimal(38, 18)),
        Field("d", Decimal(10, 2)),
    )
)


def values(text: str, column: pl.Series) -> list[object]:
    field = SCHEMA.get(column.name)
    assert field
    frame = pl.DataFrame([column.cast(to_polars(field.type))])
    return frame.select(to_expr(type_expression(text, SCHEMA)).alias("r"))["r"].to_list()


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("cast(dt as int)", "no cast from date to int", "datediff(..., date '1970-01-01')"),
        ("cast(dt as boolean)", "no cast from date to boolean", "... is not null"),
        ("cast(i as date)", "no cast from int to date", "date_add(date '1970-01-01', ...)"),
        ("cast(p as date)", "no cast from boolean to date", ""),
        ("cast(y as int)", "no cast from binary to int", "a cast to string reads it as UTF-8"),
        ("cast(x as binary)", "no cast from double to binary", ""),
        ("cast(a as int)", "no cast from array<int> to int", ""),
        ("cast(i as array<int>)", "no cast from int to array<int>", ""),
        ("cast(o as struct<p: int>)", "no cast from struct<", ""),
        ("cast(a as array<date>)", "no cast from int to date", "date_add"),
        ("try_cast(w as int)", "no try_cast from decimal(38,18) to int", "as bigint) as int)"),
        ("try_cast(ts as boolean)", "no try_cast from timestamp to boolean", "cast does it"),
        ("try_cast(i as binary)", "no try_cast from int to binary", "cast does it"),
        ("int(i, 2)", "int takes 1 argument, got 2", "as in int(value)"),
    ],
)
def test_a_cast_that_is_not_there_is_refused_with_what_to_write(
    text: str, message: str, hint: str
) -> None:
    assert_refused(text, SCHEMA, message, text, hint)


def test_text_with_only_a_time_is_null_by_decision() -> None:
    texts = ["12:30", "T12:30:00"]
    assert values("cast(s as timestamp)", pl.Series("s", texts)) == [None] * 2


def test_a_text_may_have_any_zone_name_of_java() -> None:
    names = ["Europe/Paris", "EST", "-05", "GMT+1:30", "utc", "Mars/Olympus"]
    texts = pl.Series("s", [f"2024-01-02 03:04:05 {name}" for name in names])
    hours = values("unix_seconds(cast(s as timestamp)) - 1704153600", texts)
    assert hours == [7445, 29045, 29045, 5645, None, None]
    zoneless = values("hour(cast(s as timestamp_ntz))", texts)
    assert zoneless == [3, 3, 3, 3, None, None]


# Texts, and the doubles and floats that Spark casts them to.
HEXADECIMAL: dict[str, tuple[float | None, float | None]] = {
    "0x1p3": (8.0, 8.0),
    "0X1P3": (8.0, 8.0),
    "0x1.8p1": (3.0, 3.0),
    "-0x.8p0": (-0.5, -0.5),
    "+0x1.p-2": (0.25, 0.25),
    "0x1": (None, None),
    "0x1.8": (None, None),
    "0xp3": (None, None),
    "0x.p3": (None, None),
    "0x1p": (None, None),
    "0x1p+3d": (8.0, 8.0),
    "0x1p3f": (8.0, 8.0),
    "0x1p3D": (8.0, 8.0),
    " 0x1p3 ": (8.0, 8.0),
    "0x1p99999": (math.inf, math.inf),
    "0x1p-99999": (0.0, 0.0),
    "0x1.fffffffffffff8p0": (2.0, 2.0),
    "0x1.fffffffffffff7p0": (1.9999999999999998, 2.0),
    "0x1.00000000000008p0": (1.0, 1.0),
    "0x1.000000000000081p0": (1.0000000000000002, 1.0),
    "0x0p0": (0.0, 0.0),
    "-0x0p5": (-0.0, -0.0),
    "0x1p-1074": (5e-324, 0.0),
    "0x1p-1075": (0.0, 0.0),
    "0x1.8p-1075": (5e-324, 0.0),
    "0x1.000001p0": (1.0000000596046448, 1.0),
    "0x1.0000010000000000001p0": (1.0000000596046448, 1.0000001192092896),
    "0x1p99999999999": (math.inf, math.inf),
    "0x1p-99999999999": (0.0, 0.0),
    "0xABC.defp-2": (687.2177124023438, 687.2177124023438),
    "0x0.0000000000000000000000001p100": (1.0, 1.0),
    "0x1p3 d": (None, None),
    "- 0x1p3": (None, None),
    "0x1.fffffep127": (3.4028234663852886e38, 3.4028234663852886e38),
    "0x1.ffffffp127": (3.4028235677973366e38, math.inf),
    "0x1.fffffffffffff8p1023": (math.inf, math.inf),
    "0x1p128": (3.402823669209385e38, math.inf),
    "0x1p-149": (1.401298464324817e-45, 1.401298464324817e-45),
    "0x1p-150": (7.006492321624085e-46, 0.0),
    "0x1.00000000000000000001p-150": (7.006492321624085e-46, 1.401298464324817e-45),
    "0x1p_3": (None, None),
    "0x0p99999999999": (0.0, 0.0),
    "0x123456789abcdef01234p0": (8.596805828370696e22, 8.596806036537079e22),
}


def test_hexadecimal_text_with_an_exponent_is_a_number() -> None:
    texts = pl.Series("s", list(HEXADECIMAL))
    for at, type in enumerate(("double", "float")):
        expected = [answers[at] for answers in HEXADECIMAL.values()]
        assert str(values(f"cast(s as {type})", texts)) == str(expected)


def test_hexadecimal_text_may_be_long() -> None:
    texts = pl.Series(
        "s", ["0x" + "1" * 5000 + "p0", "0x1p" + "9" * 5000, "0x1p-" + "0" * 5000 + "1"]
    )
    assert values("cast(s as double)", texts) == [math.inf, math.inf, 0.5]


def test_bytes_that_are_no_utf_8_are_shown_as_replacement_characters() -> None:
    column = pl.Series("y", [b"a\xffb", b"ok", None, "é".encode()])
    assert values("cast(y as string)", column) == ["a\ufffdb", "ok", None, "é"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cast('5000000-01-01' as date)", "+5000000-01-01"),
        ("cast('-5000000-01-01' as date)", "-5000000-01-01"),
        ("cast('294247-01-10 04:00:54.775807' as timestamp)", "+294247-01-10 04:00:54.775807"),
        ("cast(9223372036854775807 as timestamp)", "+294247-01-10 04:00:54.775807"),
        ("cast(-9223372036854775807 as timestamp)", "-290308-12-21 19:59:05.224192"),
    ],
)
def test_dates_that_polars_cannot_print_are_printed(text: str, shown: str) -> None:
    typed = type_expression(f"cast({text} as string)", SCHEMA)
    assert pl.select(to_expr(typed)).item() == shown


@pytest.mark.parametrize(
    ("text", "nullable"),
    [
        ("cast(n as bigint)", False),
        ("cast(n as double)", False),
        ("cast(n as string)", False),
        ("cast(n as boolean)", False),
        ("cast(n as decimal(10,0))", False),
        ("cast(n as decimal(9,0))", True),
        ("cast(i as bigint)", True),
        ("cast('1' as int)", True),
        ("cast(cast(n as string) as int)", True),
    ],
)
def test_a_cast_that_always_succeeds_keeps_not_null(text: str, nullable: bool) -> None:
    assert type_expression(text, SCHEMA).nullable is nullable


PLAIN: dict[str, list[Any]] = {
    "s": ["1", "2.5", "2024-01-02 03:04:05", "x", "", None, "2024-01-02", " 7 ", "1e3", "nan"],
    "x": [2.675, 1e18, float("nan"), None, -0.0, 123456789012345.675, float("inf")],
    "w": [D("0"), D("1.5"), None, D("0.000000000000000001")],
    "ts": [0, -1, None, 1704164645120000, 2**63 - 1],
}
CASTS = [
    ("s", INT),
    ("s", DOUBLE),
    ("s", BOOLEAN),
    ("s", Decimal(10, 2)),
    ("s", DATE),
    ("s", TIMESTAMP),
    ("x", Decimal(38, 3)),
    ("x", INT),
    ("x", TIMESTAMP),
    ("w", STRING),
    ("w", INT),
    ("ts", STRING),
    ("ts", DOUBLE),
    ("ts", Decimal(20, 3)),
]


@pytest.mark.parametrize(("name", "target"), CASTS)
def test_a_row_casts_alone_as_among_others(name: str, target: Type) -> None:
    field = SCHEMA.get(name)
    assert field
    physical = pl.Int64 if field.type == TIMESTAMP else to_polars(field.type)
    frame = pl.DataFrame([pl.Series(name, PLAIN[name], dtype=physical)])
    frame = frame.with_columns(pl.col(name).cast(to_polars(field.type)))
    form = build_cast_form(field.type, target)(pl.col(name)).alias("r")
    together = frame.select(form)["r"]
    alone = pl.concat([frame[row].select(form)["r"] for row in range(frame.height)])
    assert together.dtype == to_polars(target)
    assert together.equals(alone, null_equal=True)
    assert frame.slice(1).slice(1, 2).select(form)["r"].equals(together[2:4], null_equal=True)
    assert frame.clear().select(form)["r"].dtype == to_polars(target)


def test_arrays_and_structs_are_cast_inside_and_stay_null_where_they_were() -> None:
    column = pl.Series("a", [[1, None, 3], [], None], dtype=pl.List(pl.Int32))
    assert values("cast(a as array<string>)", column) == [["1", None, "3"], [], None]
    assert values("cast(a as string)", column) == ["[1, null, 3]", "[]", None]
    both = pl.Series("o", [{"p": 1, "q": 2.5}, None, {"p": None, "q": None}])
    recast = values("cast(o as struct<a: boolean, b: int>)", both)
    assert recast == [{"a": True, "b": 2}, None, {"a": None, "b": None}]


@pytest.mark.parametrize("text", ["date '300000-01-01'", "timestamp '294247-01-01'"])
def test_a_literal_beyond_what_polars_prints_is_typed(text: str) -> None:
    typed = type_expression(f"{text} > '2024-01-01'", SCHEMA)
    assert pl.select(to_expr(typed)).item() is True
