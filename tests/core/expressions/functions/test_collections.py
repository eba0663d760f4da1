"""Arrays and structs: refusals, and names that Spark's own text does not quote.

Values are compared with Spark's in tests/core/spark/cases/collections.json.
"""

from __future__ import annotations

import polars as pl
import pytest

from headrace.core.expressions import to_expr, type_expression
from headrace.core.types.data_types import (
    BIGINT,
    DATE,
    INT,
    STRING,
    Array,
    Field,
    Schema,
    Struct,
    to_polars,
)
from tests.support.expression_errors import assert_refused

POINT = Struct((Field("x", INT), Field("a b", DATE)))
SCHEMA = Schema(
    (
        Field("i", INT),
        Field("l", BIGINT),
        Field("s", STRING),
        Field("a", Array(INT)),
        Field("n", Array(Array(INT))),
        Field("v", POINT),
        Field("m", Array(POINT)),
        Field("solid", Struct((Field("x", INT, nullable=False),)), nullable=False),
    )
)
EMPTY = pl.DataFrame(schema={field.name: to_polars(field.type) for field in SCHEMA})


@pytest.mark.parametrize(
    ("text", "message", "at", "hint"),
    [
        (
            "a['x']",
            "the index of an array must be an integer, got string",
            "'x'",
            "cast(... as int)",
        ),
        ("a[1.5]", "an integer, got decimal(2,1)", "1.5", "cast(... as int)"),
        ("a[true]", "an integer, got boolean", "true", ""),
        ("s[0]", "[ ] wants an array, a map or a struct, got string", "s", "substring"),
        ("v[0]", "wanted the name of a field in quotes", "0", ""),
        ("v.y", 'unknown field "y"', "y", "the fields are x, a b"),
        ("v['a  b']", 'unknown field "a  b"', "a  b", 'did you mean "a b"?'),
        ("v['X']", 'unknown field "X"', "X", 'did you mean "x"?'),
        ("m.z", 'unknown field "z"', "z", "the fields are"),
        ("i.x", 'no field "x": int has no fields', "x", ""),
        ("a.x", 'no field "x": array<int> has no fields', "x", ""),
        ("element_at(a, 0)", "element_at counts from 1", "0", "array[0] is the first element"),
        ("element_at(a, 1L)", "element_at wants an int position, got bigint", "1L", "cast"),
        ("element_at(i, 1)", "element_at wants an array, got int", "i", ""),
        ("get(i, 1)", "get wants an array, got int", "i", ""),
        ("year(i)", "year wants date, got int", "i", "its signature is year"),
        ("get(a)", "get takes 2 arguments, got 1", "get(a)", "its signature is get(array, index)"),
        ("size(s)", "size wants an array or a map, got string", "s", ""),
        ("array_contains(a, 'x')", "cannot look for string in array<int>", "'x'", "cast"),
        ("array_contains(a, null)", "cannot look for a bare NULL", "null", "cast(null as ...)"),
        ("named_struct('x')", "pairs of a name and a value, got 1", "named_struct('x')", "'a', 1"),
        ("named_struct(s, 1)", "the name of a field must be text in quotes", "s", ""),
        ("named_struct('x', 1, 'x', 2)", 'two fields named "x"', "2", ""),
        ("struct()", "struct takes at least 1 argument, got 0", "struct()", ""),
        ("struct(i, i)", 'two fields named "i"', "i", "named_struct('name', value) sets the names"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_stands(
    text: str, message: str, at: str, hint: str
) -> None:
    assert_refused(text, SCHEMA, message, at, hint)


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("struct(i, s, i + 1)", "struct<i:int,s:string,col3:int>"),
        ("struct(v.x, a[0])", "struct<x:int,col2:int>"),
        ("named_struct('a b', l)", "struct<`a b`:bigint>"),
        ("v", "struct<x:int,`a b`:date>"),
        ("m.`a b`", "array<date>"),
        ("array(a, array(l))", "array<array<bigint>>"),
        ("array()", "array<void>"),
    ],
)
def test_what_is_made_has_a_type_of_its_own(text: str, type: str) -> None:
    typed = type_expression(text, SCHEMA)
    assert str(typed.type) == type
    assert EMPTY.select(to_expr(typed).alias("r"))["r"].dtype == to_polars(typed.type)


@pytest.mark.parametrize(
    "text",
    [
        "array(1, 2)[1]",
        "array()",
        "array(array(1), null)",
        "named_struct('x', 1)",
        "struct(1, 'x').col2",
        "array(named_struct('x', 1)).x",
        "size(null)",
        "array_contains(array(1, null), 2)",
        "element_at(array(1), -1)",
    ],
)
def test_an_expression_of_literals_has_one_value_for_each_row(text: str) -> None:
    expr = to_expr(type_expression(text, SCHEMA)).alias("r")
    rows = pl.DataFrame({"k": [1, 2, 3]})
    shown = [str(value) for value in rows.with_columns(expr)["r"]]
    assert len(shown) == 3
    assert len(set(shown)) == 1
    assert EMPTY.with_columns(expr).height == 0


def test_a_field_that_cannot_be_null_is_known_to_be_none() -> None:
    assert not type_expression("solid.x", SCHEMA).nullable
    assert type_expression("v.x", SCHEMA).nullable
    assert not type_expression("size(a)", SCHEMA).nullable


def test_slices_of_slices_are_frames_like_others() -> None:
    rows = pl.DataFrame(
        {"i": [0, 1, 2, -1], "a": [[1], [1, 2], [1, 2, 3], [4]]},
        schema={"i": pl.Int32, "a": pl.List(pl.Int32)},
    )
    for text in ("a[i]", "array_contains(a, i)", "array(i, i)", "size(a)", "element_at(a, 1)"):
        expr = to_expr(type_expression(text, SCHEMA)).alias("r")
        whole = rows.select(expr)["r"].to_list()
        assert rows[1:].slice(1, 2).select(expr)["r"].to_list() == whole[2:4], text
