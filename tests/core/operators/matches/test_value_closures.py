"""Functions of expressions give the values that Polars gives."""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any

import polars as pl
import pytest

from headrace.core.expressions import type_expression
from headrace.core.expressions.compilation import to_expr
from headrace.core.operators.matches.match_state import to_physical_type
from headrace.core.operators.matches.value_closures import build_value_function
from headrace.core.patterns.runs import History, Row
from headrace.core.types.data_types import to_polars
from tests.support.runtime.changelogs import schema_of

SCHEMA = schema_of(
    **{"a": "bigint", "b": "bigint", "i": "int", "d": "double", "e": "double", "s": "string"},
    **{"t": "timestamp", "u": "timestamp", "m": "decimal(10,2)", "n": "decimal(12,4)"},
    **{"f": "boolean", "g": "boolean"},
)
VALUES: dict[str, list[Any]] = {
    "bigint": [None, 0, -3, 7, 2**63 - 1, -(2**63)],
    "int": [None, 0, 5, 2**31 - 1],
    "double": [None, 0.0, -0.0, 1.5, math.nan, math.inf, -math.inf],
    "string": [None, "", "a", "ä", "𝄞", "�"],
    "timestamp": [None, 0, 1_000_000, -5],
    "decimal(10,2)": [None, "1.50", "-0.01"],
    "decimal(12,4)": [None, "1.5000", "99.0001"],
    "boolean": [None, True, False],
}
NO_ROWS: Any = None


def columns_of(text: str) -> list[str]:
    return [field.name for field in SCHEMA if field.name in text.replace("null", "").split()]


@pytest.mark.parametrize(
    "text",
    [
        "a = b",
        "a <> b",
        "a < i",
        "a + b",
        "a - b",
        "a * b",
        "i + i",
        "d = e",
        "d < e",
        "d >= e",
        "d + e",
        "d * e",
        "d / e",
        "a / i",
        "d > a",
        "s < 'b'",
        "s = 'a'",
        "t < u",
        "t - u < interval 1 second",
        "t + interval 5 seconds >= u",
        "m < n",
        "f and g",
        "f or g",
        "not f",
        "f and a > 3 or g",
        "a is null",
        "s is not null",
        "a between b and 7",
        "if( f , a , b )",
    ],
)
def test_a_function_gives_the_values_of_polars(text: str) -> None:
    typed = type_expression(text, SCHEMA)
    names = columns_of(text.replace("(", "( ").replace(",", " , "))
    places = {name: partial(get_value, at) for at, name in enumerate(names)}
    function = build_value_function(typed, places)
    assert function is not None
    fields = [field for field in SCHEMA if field.name in names]
    rows = list(product(*(VALUES[str(field.type)] for field in fields)))
    types = [to_polars(field.type) for field in fields]
    columns = [
        build_column(name, values, type)
        for name, values, type in zip(names, zip(*rows, strict=True), types, strict=True)
    ]
    frame = pl.DataFrame(columns)
    expected = frame.select(to_expr(typed).alias("value"))["value"]
    physical = expected.cast(to_physical_type(expected.dtype)).to_list()
    stored = [column.cast(to_physical_type(column.dtype)).to_list() for column in columns]
    found = [function(NO_ROWS, row) for row in zip(*stored, strict=True)]
    assert [repr(value) for value in found] == [repr(value) for value in physical]


def get_value(at: int, history: History, row: Row) -> Any:
    return row[at]


def build_column(name: str, values: tuple[Any, ...], type: pl.DataType) -> pl.Series:
    if isinstance(type, pl.Decimal):
        return pl.Series(name, values, dtype=pl.String).cast(type)
    return pl.Series(name, values, dtype=to_physical_type(type)).cast(type)


@pytest.mark.parametrize(
    "text", ["upper(s) = 'A'", "cast(d as int) > 3", "m * n > 1", "raise_error('x') is null"]
)
def test_other_expressions_have_no_function(text: str) -> None:
    names = columns_of(text.replace("(", "( ").replace(")", " )"))
    places = {name: partial(get_value, at) for at, name in enumerate(names)}
    assert build_value_function(type_expression(text, SCHEMA), places) is None
