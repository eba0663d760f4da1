"""Arithmetic on integers and doubles: refusals, and results that do not depend on the batch."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context
from decimal import Decimal as D
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.expressions import to_expr, type_expression
from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    Array,
    Field,
    Schema,
    Struct,
)
from tests.support.expression_errors import assert_refused

SCHEMA = Schema(
    (
        Field("i", INT),
        Field("l", BIGINT),
        Field("f", FLOAT),
        Field("x", DOUBLE),
        Field("y", DOUBLE),
        Field("s", STRING),
        Field("p", BOOLEAN),
        Field("dt", DATE),
        Field("ts", TIMESTAMP),
        Field("a", Array(INT)),
        Field("o", Struct((Field("u", INT, nullable=False),))),
    )
)


def values(text: str, **columns: list[float] | list[int]) -> list[Any]:
    types = {"i": pl.Int32, "l": pl.Int64, "f": pl.Float32, "x": pl.Float64, "y": pl.Float64}
    frame = pl.DataFrame(columns, schema={name: types[name] for name in columns})
    return frame.select(to_expr(type_expression(text, SCHEMA)).alias("r"))["r"].to_list()


def bits(value: float | None) -> bytes | None:
    """Return a key that distinguishes doubles: 0.0 from -0.0, but not one NaN from another."""
    if value is None or math.isnan(value):
        return None if value is None else b"nan"
    return struct.pack("d", value)


@pytest.mark.parametrize(
    ("text", "message", "at", "hint"),
    [
        ("p + 1", "+ wants a number, got boolean", "p", "as int) converts true to 1"),
        ("1 / a", "/ wants a number, got array<int>", "a", ""),
        ("+p", "+ wants a number, got boolean", "p", "as int)"),
        ("dt + dt", "+ does not take date and date", "dt + dt", "datediff(..., ...)"),
        ("ts + 1", "+ does not take timestamp and int", "ts + 1", "... + interval 1 hour"),
        ("dt * 2", "* does not take date and int", "dt * 2", ""),
        ("x div 2", "div does not take double and int", "x div 2", "as bigint) drops"),
        ("x & 1", "& wants an integer, got double", "x", ""),
        ("~x", "~ wants an integer, got double", "x", ""),
        ("round(x, i)", "round wants a constant int", "i", "a column is not allowed here"),
        ("round(x, 21)", "a double can be rounded to -20 to 20 digits, got 21", "21", ""),
        ("bround(f, 13)", "a float can be rounded to -20 to 12 digits, got 13", "13", ""),
        (
            "abs()",
            "abs takes 1 argument, got 0",
            "abs()",
            "its signature is abs(value: N)",
        ),
        ("pmod(i)", "pmod takes 2 arguments, got 1", "pmod(i)", ""),
        ("typeof()", "typeof takes 1 argument, got 0", "typeof()", ""),
    ],
)
def test_what_does_not_fit_is_refused_where_it_stands(
    text: str, message: str, at: str, hint: str
) -> None:
    error = assert_refused(text, SCHEMA, message, at, hint)
    assert len(error.hint) < 200


doubles = st.floats() | st.floats(-1e6, 1e6) | st.integers(-(10**9), 10**9).map(lambda n: n / 100)
dividing: dict[str, Callable[[float, float], float]] = {"/": operator.truediv, "%": math.fmod}


@settings(max_examples=120, deadline=None)
@given(st.lists(doubles, min_size=1, max_size=5), doubles, st.sampled_from(["/", "%"]))
def test_division_is_exact_by_a_constant_and_by_a_column(
    column: list[float], divisor: float, sign: str
) -> None:
    def true(value: float) -> float | None:
        try:
            return None if divisor == 0 else dividing[sign](value, divisor)
        except ValueError:
            return math.nan

    wanted = [bits(true(value)) for value in column]
    by_column = values(f"x {sign} y", x=column, y=[divisor] * len(column))
    assert [bits(value) for value in by_column] == wanted
    if math.isfinite(divisor):
        by_constant = values(f"x {sign} {divisor!r}D", x=column)
        assert [bits(value) for value in by_constant] == wanted


@pytest.mark.parametrize("text", ["x / k", "x % k", "pow(x, k)", "pmod(x, k)"])
def test_a_column_that_polars_holds_as_one_value_counts_like_any_other(text: str) -> None:
    schema = Schema((Field("x", DOUBLE), Field("k", DOUBLE)))
    expr = to_expr(type_expression(text, schema)).alias("r")
    plain = pl.DataFrame({"x": [0.1 * n for n in range(1, 500)], "k": [3.7] * 499})
    held = plain.select("x").with_columns(k=pl.lit(3.7))
    alone = pl.concat([plain[row].select(expr) for row in range(plain.height)])
    assert plain.select(expr).equals(held.select(expr))
    assert plain.select(expr).equals(alone)


halves = st.builds(
    lambda n, digits: (10 * n + 5) / 10 ** (digits + 1), st.integers(0, 10**12), st.integers(-3, 9)
)


@settings(max_examples=100, deadline=None)
@given(doubles | halves, st.integers(-12, 12), st.booleans())
def test_a_double_is_rounded_as_its_shortest_digits_are(
    value: float, digits: int, half_even: bool
) -> None:
    name, mode = ("bround", ROUND_HALF_EVEN) if half_even else ("round", ROUND_HALF_UP)
    (rounded,) = values(f"{name}(x, {digits})", x=[value])
    assert isinstance(rounded, float)
    if not math.isfinite(value):
        assert bits(rounded) == bits(value)
        return
    unit = D(1).scaleb(-digits)
    true = D(repr(value)).quantize(unit, rounding=mode, context=Context(prec=400))
    assert bits(rounded) == bits(float(true) + 0.0)


@settings(max_examples=120, deadline=None)
@given(doubles | halves, st.integers(0, 38))
def test_a_double_is_cast_to_a_decimal_as_its_shortest_digits_are(value: float, scale: int) -> None:
    (cast,) = values(f"cast(x as decimal(38,{scale}))", x=[value])
    if not math.isfinite(value):
        assert cast is None
        return
    unit = D(1).scaleb(-scale)
    true = D(repr(value)).quantize(unit, rounding=ROUND_HALF_UP, context=Context(prec=400))
    assert cast == (None if true.copy_abs() >= D(10) ** (38 - scale) else true)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x + 0", [0.0, 0.0, 1.0]),
        ("0 + x", [0.0, 0.0, 1.0]),
        ("0 - x", [0.0, 0.0, -1.0]),
        ("x - 0", [0.0, -0.0, 1.0]),
        ("-x", [-0.0, 0.0, -1.0]),
        ("round(x - 1.4)", [-1.0, -1.0, 0.0]),
        ("abs(x)", [0.0, 0.0, 1.0]),
        ("x * -1", [-0.0, 0.0, -1.0]),
    ],
)
def test_zeros_have_the_sign_that_java_gives_them(text: str, wanted: list[float]) -> None:
    found = values(text, x=[0.0, -0.0, 1.0])
    assert [bits(value) for value in found] == [bits(value) for value in wanted]


@settings(max_examples=100, deadline=None)
@given(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5),
    st.sampled_from(["+", "-", "*", "div", "%"]),
)
def test_bigints_wrap_and_cut_off_as_in_java(a: int, b: int, sign: str) -> None:
    schema = Schema((Field("l", BIGINT), Field("m", BIGINT)))
    frame = pl.DataFrame({"l": [a], "m": [b]}, schema={"l": pl.Int64, "m": pl.Int64})
    found = frame.select(to_expr(type_expression(f"l {sign} m", schema))).item()
    if sign in ("div", "%") and b == 0:
        assert found is None
        return
    cut = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
    true = {"+": a + b, "-": a - b, "*": a * b, "div": cut, "%": a - cut * b}[sign]
    assert found == (true + 2**63) % 2**64 - 2**63


def test_nested_forms_compute_their_arguments_once() -> None:
    text = "x"
    for _ in range(12):
        text = f"round(nanvl({text} / y, 0.5) + 1, 2)"
    expr = to_expr(type_expression(text, SCHEMA))
    frame = pl.DataFrame({"x": [1.0] * 1000, "y": [3.0] * 1000})
    assert frame.select(expr.alias("r"))["r"].n_unique() == 1
    assert len(str(expr)) < 10_000  # if each argument stood there twice, it would be 4096 times


@pytest.mark.parametrize(
    "text",
    ["1 / 3", "7 % 3", "round(2.675D, 2)", "pow(2, 3)", "1.5 / 7", "1 << 2", "-1.5", "ceil(1.5D)"],
)
def test_an_expression_of_literals_has_one_value_for_each_row(text: str) -> None:
    expr = to_expr(type_expression(text, SCHEMA)).alias("r")
    rows = pl.DataFrame({"k": [1, 2, 3]})
    assert rows.with_columns(expr)["r"].n_unique() == 1
    assert rows.with_columns(expr).height == 3
    assert rows.clear().with_columns(expr).height == 0


@pytest.mark.parametrize(
    "text", ["x / y", "x % y", "round(x, 2)", "pow(x, y)", "ln(x)", "x / 3", "i % 3", "i << 2"]
)
def test_empty_frames_and_groups_are_computed_like_others(text: str) -> None:
    expr = to_expr(type_expression(text, SCHEMA)).alias("r")
    rows = pl.DataFrame(
        {"x": [1.5, 2.5, 3.5], "y": [2.0, 4.0, 5.0], "i": [1, 5, 7], "g": [1, 1, 2]},
        schema_overrides={"i": pl.Int32},
    )
    plain = rows.select("g", expr)
    assert rows.clear().select(expr).height == 0
    assert rows.slice(1).slice(1).select(expr)["r"].to_list() == plain["r"].to_list()[2:]
    grouped = rows.group_by("g").agg(expr.sum()).sort("g")["r"].to_list()
    assert grouped == plain.group_by("g").agg(pl.col("r").sum()).sort("g")["r"].to_list()


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("i + l", "bigint"),
        ("i / i", "double"),
        ("f + l", "float"),
        ("f / 2", "double"),
        ("i div 2", "bigint"),
        ("ceil(x)", "bigint"),
        ("ceil(i)", "bigint"),
        ("null + null", "double"),
        ("null div null", "bigint"),
        ("nanvl(f, i)", "double"),
        ("l >> 1", "bigint"),
    ],
)
def test_results_have_the_types_that_spark_gives(text: str, type: str) -> None:
    assert str(type_expression(text, SCHEMA).type) == type


def test_typeof_tells_the_type_as_spark_writes_it() -> None:
    typed = type_expression("typeof(o)", SCHEMA)
    assert pl.select(to_expr(typed)).item() == "struct<u:int>"
