"""Maps: refusals, and the NULLs where Spark fails a job.

Values are compared with Spark's in tests/core/spark/cases/maps.json.
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

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
        ("greatest(m, m)", "greatest wants ordered values, got map<string,int>", None, ""),
        ("d[i]", "the keys of this map are of type date, got int", "i", ""),
        ("element_at(m, i)", "element_at cannot look for int in the keys", "i", ""),
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


@pytest.mark.parametrize(
    ("text", "columns", "values"),
    [
        (
            "map(s, i, 'b', 2)",
            {"s": ["a", "b", None], "i": [1, 1, 1]},
            [{"a": 1, "b": 2}, None, None],
        ),
        ("map_concat(m, map('a', 0))", {"m": [{}, {"a": 1}, None]}, [{"a": 0}, None, None]),
        (
            "map_from_arrays(keys, array(1, 2))",
            {"keys": [["a", "b"], ["a", "a"], ["a", None], ["a"], None]},
            [{"a": 1, "b": 2}, None, None, None, None],
        ),
        (
            "map_from_entries(entries)",
            {
                "entries": [
                    [{"k": "a", "v": None}],
                    [{"k": "a", "v": 1}] * 2,
                    [{"k": None, "v": 1}],
                    [None],
                    [],
                ]
            },
            [{"a": None}, None, None, None, {}],
        ),
        (
            "str_to_map(s)",
            {"s": ["a:1,b", "a:1,a:2", ""]},
            [{"a": "1", "b": None}, None, {"": None}],
        ),
        ("map(0.0D, 1, cast(i as double) * -1, 2)", {"i": [1, 0]}, [{0.0: 1, -1.0: 2}, None]),
    ],
)
def test_a_key_that_is_null_or_occurs_twice_makes_no_map(
    text: str, columns: dict[str, list[Any]], values: list[Any]
) -> None:
    assert evaluate(text, **columns) == values
    typed = type_expression(text, SCHEMA)
    assert isinstance(typed, FunctionCall) and typed.spark == NO_SPARK_FORM


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
    found = evaluate("map_from_arrays(keys, keys)", keys=frame["k"].to_list())
    assert found == [None, {"a": "a", "b": "b"}, {}, None, {"a": "a", "b": "b"}, {}, {"c": "c"}]
