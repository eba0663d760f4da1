"""JSON functions beyond the recorded cases: limits, and texts on both ways of reading."""

from __future__ import annotations

import re

import polars as pl
import pytest

from headrace.core.expressions import ExpressionErrors, to_expr, type_expression
from headrace.core.expressions.json.json_parts import JsonExtractor, extract_json, list_names
from headrace.core.expressions.json.json_path import parse_path
from headrace.core.expressions.json.json_reader import MAX_DEPTH, MAX_NUMBER
from headrace.core.types.data_types import STRING, Field, Schema

SCHEMA = Schema((Field("s", STRING), Field("p", STRING)))


def evaluate(text: str, **columns: list[str | None]) -> list[object]:
    frame = pl.DataFrame(columns)
    return frame.select(to_expr(type_expression(text, SCHEMA)).alias("r"))["r"].to_list()


@pytest.mark.parametrize("path", ["$.a", "$"])
def test_a_text_is_read_up_to_a_depth(path: str) -> None:
    def nest(depth: int) -> str:
        return '{"a":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"

    assert extract_json(nest(MAX_DEPTH), path)
    assert extract_json(nest(MAX_DEPTH + 1), path) is None
    assert extract_json(f'{{"a":1,"b":{nest(MAX_DEPTH)}}}', "$.a") is None


def test_brackets_in_texts_and_beside_each_other_are_not_nested() -> None:
    assert extract_json(f'{{"a":"{"[" * 2 * MAX_DEPTH}","b":1}}', "$.b") == "1"
    assert extract_json(f'{{"a":[{"[]," * 2 * MAX_DEPTH}[]],"b":1}}', "$.b") == "1"


def test_a_number_has_at_most_1000_characters() -> None:
    assert extract_json("1" * MAX_NUMBER, "$") == "1" * MAX_NUMBER
    assert extract_json("1" * (MAX_NUMBER + 1), "$") is None
    assert extract_json(f'"{"1" * (MAX_NUMBER + 1)}"', "$") == "1" * (MAX_NUMBER + 1)


def test_a_malformed_path_finds_nothing() -> None:
    for path in ("", "a", "$a", "$.", "$..a", "$[-1]", "$[0", "$['']", "$[0]x"):
        assert parse_path(path) is None, path


def test_texts_with_a_name_twice_are_read_in_full() -> None:
    assert extract_json('{"a":{"x":1},"a":{"b":2}}', "$.a.b") == "2"
    assert extract_json('{"\\u0061":null,"a":2}', "$.a") == "2"


def test_an_extractor_is_as_good_as_a_path_of_each_row() -> None:
    texts = ['{"a":[1,{"b":2.50}]}', "{'a':[3]}", "[1", None]
    by_row = evaluate("get_json_object(s, p)", s=texts, p=["$.a[1].b"] * 4)
    assert (
        by_row == evaluate("get_json_object(s, '$.a[1].b')", s=texts) == ["2.5", None, None, None]
    )
    steps = parse_path("$.a[0]")
    assert steps is not None
    found = JsonExtractor(steps).extract_all(pl.Series(texts)).to_list()
    assert found == ["1", "3", None, None]


def test_names_repeat_as_they_do_in_the_text() -> None:
    assert list_names(pl.Series(['{"b":1,"a":2,"b":3} rest'])).to_list() == [["b", "a", "b"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("from_json(s, 'a innt')", 'unknown type "innt"'),
        ("from_json(s, 'int')", "a schema is of columns, a struct, an array or a map, got int"),
        ("to_json(map(array(1), 2))", "to_json has no text for array<int>"),
        ("from_json(s, 'map<int,int>')", "from_json cannot read values of type map<int,int>"),
        ("from_json(s, 'a int', map('mode', 'DROPMALFORMED'))", "DROPMALFORMED is not supported"),
        ("from_json(s, 'array<int>', map('mode', 'FAILFAST'))", "wants a schema of columns"),
        (
            "from_json(s, 'a int', map('multiLine', 'true'))",
            "the option multiline is not",
        ),
        ("to_json(array(1), map('sortKeys', 'yes'))", "sortKeys is true or false, got 'yes'"),
        ("schema_of_json('[1')", "schema_of_json wants a JSON text"),
    ],
)
def test_what_has_no_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(ExpressionErrors) as raised:
        type_expression(text, SCHEMA)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "option", "schema"),
    [
        ('{"a":1,"b":[true,null],"c":null}', "primitivesAsString", "a: S, b: ARRAY<S>, c: S"),
        ('{"a":[{"g":1.5},{"g":[]}],"b":{}}', "primitivesAsString", "a: ARRAY<STRUCT<g: S>>"),
        ('{"a":1.10,"b":0.00001,"c":0.0}', "prefersDecimal", "a: D(3,2), b: D(5,5), c: D(1,1)"),
        ('{"a":[1,2.5],"b":[1.5,2.25]}', "prefersDecimal", "a: ARRAY<D(21,1)>, b: ARRAY<D(3,2)>"),
        ('{"a":[1.5,123456789012345678901234567890]}', "prefersDecimal", "a: ARRAY<D(31,1)>"),
        ('{"a":1e-50,"b":[true,1.5]}', "prefersDecimal", "a: DOUBLE, b: ARRAY<S>"),
    ],
)
def test_a_schema_has_texts_or_decimals_by_an_option(text: str, option: str, schema: str) -> None:
    named = re.sub(r"\bD\b", "DECIMAL", re.sub(r"\bS\b", "STRING", schema))
    call = f"schema_of_json('{text}', map('{option}', 'true'))"
    assert evaluate(call, s=["x"]) == [f"STRUCT<{named}>"]


@pytest.mark.parametrize("text", ["NaN", '{"a":-Infinity}'])
def test_no_decimal_is_nan_or_infinite(text: str) -> None:
    with pytest.raises(ExpressionErrors, match="wants a JSON text"):
        type_expression(f"schema_of_json('{text}', map('prefersDecimal', 'true'))", SCHEMA)


@pytest.mark.parametrize("text", ["1E2", "[1.5, 1e30]", "[1e400]"])
def test_a_decimal_of_a_negative_scale_is_refused(text: str) -> None:
    with pytest.raises(ExpressionErrors, match="has a negative scale"):
        type_expression(f"schema_of_json('{text}', map('prefersDecimal', 'true'))", SCHEMA)
