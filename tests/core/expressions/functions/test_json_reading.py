"""Fast readers of JSON texts: they read what the exact reader reads.

The exact reader ignores what follows the first value of a text, and the fast ones leave such a text
to it. So a text and the same text with a word after it must have one value.
"""

from __future__ import annotations

from random import Random

import polars as pl
import pytest

from headrace.core.expressions import to_expr, type_expression
from headrace.core.expressions.json.json_reader import MAX_DEPTH, MAX_NUMBER
from headrace.core.types.data_types import STRING, Field, Schema
from tests.support.random_json import draw_texts

SCHEMA = Schema((Field("s", STRING),))
SCHEMAS = (
    "a string, b string, c string",
    "a int, b bigint, c tinyint",
    "a smallint, b boolean, c binary",
    "a double, b float, c double",
    "a decimal(5,2), b decimal(38,10), c decimal(2,2)",
    "a date, b timestamp, c timestamp_ntz",
    "a array<string>, b array<int>, c array<decimal(4,1)>",
    "a struct<b:int,c:string>, b struct<a:array<struct<b:double>>>, c array<struct<a:timestamp>>",
    "a map<string,string>, b map<string,int>, c map<string,array<decimal(9,2)>>",
    "`é` string, `a b` int, A int, `a` bigint",
    "array<string>",
    "array<struct<a:int,b:string>>",
    "map<string,bigint>",
    "map<string,struct<a:decimal(3,1),b:date>>",
)


def evaluate(text: str, texts: list[str]) -> list[object]:
    frame = pl.DataFrame({"s": texts}, schema={"s": pl.String})
    result = frame.select(to_expr(type_expression(text, SCHEMA)).alias("r"))["r"]
    return result.to_physical().to_list()  # years beyond 9999 are no dates of Python


def list_differences(call: str, texts: list[str], size: int = 16) -> list[object]:
    """Return the texts whose value the exact reader does not give."""
    wrong: list[object] = []
    for start in range(0, len(texts), size):
        part = texts[start : start + size]
        fast, exact = evaluate(call, part), evaluate(call, [f"{text} x" for text in part])
        pairs = zip(part, fast, exact, strict=True)
        wrong += [found for found in pairs if repr(found[1]) != repr(found[2])]
    return wrong


@pytest.mark.parametrize("schema", SCHEMAS)
def test_rows_are_those_of_the_exact_reader(schema: str) -> None:
    texts = draw_texts(Random(schema), 400)
    assert list_differences(f"from_json(s, '{schema}')", texts) == []


def test_limits_hold_for_what_is_not_in_the_schema() -> None:
    digits, depth = "1" * (MAX_NUMBER + 1), MAX_DEPTH + 1
    texts = [
        f'{{"a":"x","z":{digits}}}',
        f'{{"a":"x","z":"{digits}"}}',
        f'{{"a":"x","z":{"[" * depth}{"]" * depth}}}',
        f'{{"a":"x","z":[{"[]," * depth}[]]}}',
    ]
    found = [{"a": value} for value in (None, "x", None, "x")]
    assert evaluate("from_json(s, 'a string')", texts) == found


@pytest.mark.parametrize(
    "call",
    [
        *(
            f"get_json_object(s, '{path}')"
            for path in ("$", "$.a", "$.b", "$[1]", "$.a.b", "$.a[0]")
        ),
        *(f"get_json_object(s, '{path}')" for path in ("$.a[*]", "$[*]", "$.a[1].b", "$[0][*]")),
        *(
            "get_json_object(s, '$.a b')",
            "get_json_object(s, '$.é')",
            "get_json_object(s, '$.x:y')",
        ),
        *("json_object_keys(s)", "json_array_length(s)"),
    ],
)
def test_parts_are_those_of_the_exact_reader(call: str) -> None:
    texts = draw_texts(Random(call), 1000)
    assert list_differences(call, texts, size=100) == []


def test_a_name_that_is_there_twice_is_written_twice() -> None:
    texts = ['{"a":{"b":1, "c" :2,"b":3}}', '{"a":[{"b" : 1,"b":":"}]}']
    found = ['{"b":1,"c":2,"b":3}', '[{"b":1,"b":":"}]']
    assert evaluate("get_json_object(s, '$.a')", texts) == found
