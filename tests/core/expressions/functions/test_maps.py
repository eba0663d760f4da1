"""Maps: refusals, and the rows that fail as in Spark.

Values are compared with Spark's in tests/core/spark/cases/maps.json.
"""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest

from headrace.core.errors.value_errors import ExpressionFailure
from headrace.core.expressions import to_expr, type_expression
from headrace.core.expressions.typed import NO_SPARK_FORM, FunctionCall
from headrace.core.types.data_types import (
    BIGINT,
    DATE,
    INT,
    STRING,
    Array,
    Field,
    MapType,
    Schema,
    Struct,
    to_polars,
)
from tests.support.expression_errors import assert_refused

SCHEMA = Schema(
    (
        Field("i", INT),
        Field("l", BIGINT),
        Field("s", STRING),
        Field("keys", Array(STRING)),
        Field("m", MapType(STRING, INT)),
        Field("d", MapType(DATE, INT)),
        Field("n", MapType(BIGINT, MapType(STRING, STRING))),
        Field("entries", Array(Struct((Field("k", STRING), Field("v", INT))))),
    )
)
KEYS = Schema((Field("k", Array(STRING)),))
VALUES_HINT = "compare one of its values, as in m['key'], or map_keys(m), map_values(m)"


def evaluate(text: str, **columns: Any) -> list[Any]:
    """Evaluate an expression over rows of these columns of SCHEMA, the others null."""
    rows = max(map(len, columns.values()), default=3)
    frame = pl.DataFrame(
        [
            pl.Series(f.name, columns.get(f.name, [None] * rows), dtype=to_polars(f.type))
            for f in SCHEMA
        ]
    )
    typed = type_expression(text, SCHEMA)
    result = frame.with_columns(to_expr(typed).alias("r"))["r"]
    assert result.dtype == to_polars(typed.type)
    return result.to_list()


@pytest.mark.parametrize(
    ("text", "message", "at", "hint"),
    [
        ("map('a')", "map takes pairs of a key and a value, got 1 arguments", "map('a')", "as in"),
        ("map(null, 1)", "a key of a map cannot be null", "null", ""),
        ("map(m, 1)", "a key of a map cannot contain a map", "m", "map_entries(...)"),
        ("map('a', 1, 'a', 2)", "the key 'a' occurs twice", "'a'", ""),
        ("m = m", "= cannot compare maps, got map<string,int>", "m", VALUES_HINT),
        ("array(m) <=> array(m)", "<=> cannot compare maps", "array(m)", VALUES_HINT),
        ("m in (m)", "in cannot compare maps", "m", VALUES_HINT),
        ("nullif(m, m)", "nullif cannot compare maps", "m", VALUES_HINT),
        ("array_contains(array(m), m)", "array_contains cannot compare maps", "array(m)", ""),
        ("greatest(m, m)", "greatest cannot compare maps, got map<string,int>", "m", VALUES_HINT),
        ("d[i]", "the keys of this map are of type date, got int", "i", ""),
        ("element_at(m, i)", "element_at wants a key of type string, got int", "i", ""),
        ("element_at(n, 1.5)", "element_at wants a key of type bigint", "1.5", "cast(... as"),
        ("map_contains_key(m, null)", "cannot look for a bare NULL", "null", "cast(null as"),
        ("map_contains_key(keys, 'a')", "map_contains_key wants a map, got array", "keys", ""),
        ("map_keys(keys)", "map_keys wants a map, got array<string>", "keys", "its signature is"),
        ("map_concat(m, null)", "map_concat joins maps, got void", "null", ""),
        ("map_concat(m, keys)", "map_concat joins maps, got array<string>", "keys", ""),
        ("map_from_entries(keys)", "wants an array of structs of two fields", "keys", "as in"),
        ("str_to_map(s, ',', '[:=]')", "wants plain text between a key", "'[:=]'", "plain text"),
        ("cast(m as map<int,int>)", "may make null or equal keys of a map", None, "cast the value"),
        ("m || 'x'", "|| cannot convert map<string,int> to text", "m", ""),
        ("m.a.b", 'no field "b": int has no fields', "b", ""),
    ],
)
def test_a_misuse_is_pointed_at(text: str, message: str, at: str | None, hint: str) -> None:
    assert_refused(text, SCHEMA, message, text if at is None else at, hint)


TWICE, NULL_KEY = "the key a occurs twice", "a key of the map is NULL"
LENGTHS = "the arrays of keys and of values have not the same length"


@pytest.mark.parametrize(
    ("text", "column", "rows"),
    [
        ("map(s, 1, 'b', 2)", "s", [("c", {"c": 1, "b": 2}), ("b", "the key b occurs twice"),
                                    (None, NULL_KEY)]),
        ("map(s, 1)", "s", [("c", {"c": 1}), (None, NULL_KEY)]),
        ("map_concat(m, map('a', 0))", "m", [({}, {"a": 0}), (None, None), ({"a": 1}, TWICE)]),
        (
            "map_from_arrays(keys, array(1, 2))",
            "keys",
            [
                (["a", "b"], {"a": 1, "b": 2}),
                (None, None),
                (["a", "a"], TWICE),
                (["a", None], NULL_KEY),
                (["a"], LENGTHS),
            ],
        ),
        (
            "map_from_entries(entries)",
            "entries",
            [
                ([{"k": "a", "v": None}], {"a": None}),
                ([], {}),
                ([{"k": "b", "v": 1}, None], None),
                ([{"k": "a", "v": 1}] * 2, TWICE),
                ([{"k": None, "v": 1}], NULL_KEY),
            ],
        ),
        (
            "str_to_map(s)",
            "s",
            [("a:1,b", {"a": "1", "b": None}), ("", {"": None}), ("a:1,b:1,a:2", TWICE)],
        ),
        (
            "map(0.0D, 1, cast(i as double) * -1, 2)",
            "i",
            [(1, {0.0: 1, -1.0: 2}), (0, "the key -0.0 occurs twice")],
        ),
    ],
)  # fmt: skip
def test_a_key_that_is_null_or_occurs_twice_fails_the_row(
    text: str, column: str, rows: list[tuple[Any, Any]]
) -> None:
    typed = type_expression(text, SCHEMA)
    assert isinstance(typed, FunctionCall) and typed.spark == NO_SPARK_FORM
    sound = [(given, made) for given, made in rows if not isinstance(made, str)]
    assert evaluate(text, **{column: [given for given, _ in sound]}) == [made for _, made in sound]
    for given, reason in rows:
        if isinstance(reason, str):
            with pytest.raises(ExpressionFailure, match=re.escape(reason)):
                evaluate(text, **{column: [sound[0][0], given]})


def test_spark_makes_maps_with_distinct_literal_keys_itself() -> None:
    typed = type_expression("map('a', i, 'b', l)", SCHEMA)
    assert isinstance(typed, FunctionCall) and typed.spark != NO_SPARK_FORM


def test_a_map_of_constants_serves_all_rows() -> None:
    assert evaluate("map('a', 1, 'b', 2)[s]", s=["b", None, "z"]) == [2, None, None]
    assert evaluate("map('a', 1)", s=["b"]) == [{"a": 1}]
    assert evaluate("size(map())", s=["b", "c"]) == [0, 0]


def test_rows_of_lists_are_zipped_whatever_lies_between_them() -> None:
    keys = [None, ["a", "b"], [], ["c"], None]
    frame = pl.DataFrame({"k": pl.Series(keys, dtype=pl.List(pl.String))})
    frame = pl.concat([frame, frame.slice(1, 3)], rechunk=False).filter(pl.int_range(pl.len()) != 3)
    found = frame.select(to_expr(type_expression("map_from_arrays(k, k)", KEYS)).alias("r"))["r"]
    one = {"a": "a", "b": "b"}
    assert found.to_list() == [None, one, {}, None, one, {}, {"c": "c"}]
