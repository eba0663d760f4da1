"""Lambda functions: what is refused, what columns they read, their limits and their Spark text.

Values are compared with Spark's in tests/core/spark/cases: higher_order.json and
higher_order_maps.json.
"""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors.value_errors import ValueTooLarge
from headrace.core.expressions import ExpressionErrors, find_columns, to_expr, type_expression
from headrace.core.expressions.checked_expressions import CheckedExpressions
from headrace.core.expressions.parsing.parser import parse_expression
from headrace.core.expressions.resolver import ExpressionResolver
from headrace.core.expressions.typed import NOWHERE, ColumnReference, substitute_columns
from headrace.core.spark.expressions import translate_expression
from headrace.core.types.data_types import (
    DOUBLE,
    INT,
    STRING,
    Array,
    Decimal,
    Field,
    MapType,
    Schema,
    to_polars,
)
from tests.support.expression_errors import assert_refused

SCHEMA = Schema(
    (
        Field("a", Array(INT)),
        Field("i", INT),
        Field("s", STRING),
        Field("t", Array(STRING)),
        Field("n", Array(Array(INT))),
        Field("d", Array(DOUBLE)),
        Field("m", Array(Decimal(10, 2))),
        Field("w", MapType(STRING, INT)),
    )
)
TYPES = {field.name: to_polars(field.type) for field in SCHEMA}
MESSAGES = [
    ("x -> x", "a lambda function (x -> ...) is not a value", "x -> x", "transform(array, x ->"),
    ("1 + (x -> x)", "is not a value", "(x -> x)", "transform(array, x ->"),
    ("upper(x -> x)", "is not a value", "x -> x", "transform(array, x ->"),
    ("transform(x -> x, a)", "wants an array before", "x -> x", "as in transform(array"),
    ("transform(i, x -> x)", "transform wants an array, got int", "i", "as in transform"),
    ("transform(a)", "transform takes 2 arguments, got 1", "transform(a)", "as in transform"),
    (
        "transform(a, (x, y, z) -> x)",
        "transform wants a lambda function of 1 or 2 parameters, got 3",
        "(x, y, z) -> x",
        "as in transform(array, x -> x + 1)",
    ),
    (
        "exists(a, (x, y) -> true)",
        "exists wants a lambda function of 1 parameter, got 2",
        "(x, y) -> true",
        "as in exists",
    ),
    ("zip_with(a, a, x -> x)", "of 2 parameters, got 1", "x -> x", "as in zip_with"),
    ("transform(a, (x, x) -> x)", 'two parameters named "x"', "x", ""),
    ("transform(a, x -> y)", 'unknown column "y"', "y", "the parameters are x, the columns are a"),
    ("transform(a, price -> prize + 1)", 'unknown column "prize"', "prize", '"price"'),
    ("transform(n, x -> exists(x, y -> z))", 'unknown column "z"', "z", "parameters are y, x"),
    ("transform(t, upper)", "wants a lambda function, got the name of one", "upper", "upper(x)"),
    ("transform(a, x -> upper(a))", "upper wants string, got array<int>", "a", "cast"),
    ("transform(a, x -> x.y)", 'no field "y": int has no fields', "y", ""),
    ("filter(a, x -> x)", "filter wants a boolean condition, got int", "x", "<> 0"),
    ("exists(t, x -> x)", "exists wants a boolean condition, got string", "x", ""),
    ("filter(a, (x) -> x > 1)", 'wanted ")", got "->"', "(x) ->", "write x ->"),
    ("filter(a, x => x > 1)", 'wanted ")", got "=>"', "=>", 'write "->"'),
    ("filter(a, lambda x: x > 1)", 'wanted ")", got "x"', "x", "written x -> x + 1"),
    ("aggregate(a, 0)", "takes 3 or 4 arguments, got 2", "aggregate(a, 0)", "as in aggregate"),
    ("aggregate(a, (b, x) -> b, 0)", "wants a value to start with", "(b, x) -> b", "as in"),
    (
        "aggregate(a, 0, (b, x) -> b + 1L)",
        "starts with int, and its lambda function gives bigint",
        "0",
        "write cast(... as bigint)",
    ),
    (
        "aggregate(m, 0.0, (b, x) -> b + x)",
        "starts with decimal(1,1), and its lambda function gives decimal(11,2)",
        "0.0",
        "as decimal(38,2)",
    ),
    ("map_filter(a, (k, v) -> true)", "map_filter wants a map, got array<int>", "a", "as in"),
    ("map_filter((k, v) -> true, w)", "wants a map before", "(k, v) -> true", "as in map_filter"),
    ("map_filter(w, k -> true)", "of 2 parameters, got 1", "k -> true", "as in map_filter"),
    ("map_filter(w, (k, v) -> v)", "wants a boolean condition, got int", "v", "<> 0"),
    ("transform_values(w)", "takes 2 arguments, got 1", "transform_values(w)", "as in"),
    ("transform_keys(w, (k, v) -> w)", "cannot make keys of type map<string,int>", "w", "as in"),
    ("map_zip_with(w, w, (k, v) -> v)", "of 3 parameters, got 2", "(k, v) -> v", "as in"),
    ("array_sort(a, (l, r) -> l < r)", "that gives int, got boolean", "l < r", "-1, 0 or 1"),
    ("array_sort(array(w))", "wants a type with an order", "array(w)", ""),
    ("transform(t, x -> s rlike x)", "a constant string", "x", "a column is not allowed here"),
]


@pytest.mark.parametrize(("text", "message", "at", "hint"), MESSAGES)
def test_what_does_not_fit_is_refused_where_it_stands(
    text: str, message: str, at: str, hint: str
) -> None:
    if text == "transform(a, (x, x) -> x)":
        at = text[17]
    assert_refused(text, SCHEMA, message, at, hint)


def test_what_hints_say_is_accepted() -> None:
    type_expression("aggregate(a, cast(0 as bigint), (b, x) -> b + 1L)", SCHEMA)
    wide = "decimal(38,2)"
    type_expression(f"aggregate(m, cast(0.0 as {wide}), (b, x) -> cast(b + x as {wide}))", SCHEMA)


def test_errors_of_several_lambdas_are_found_by_their_own_scope() -> None:
    with pytest.raises(ExpressionErrors, match='unknown column "x"'):
        type_expression("transform(a, x -> x) = array(x)", SCHEMA)


def evaluate(text: str, rows: list[dict[str, Any]]) -> list[Any]:
    frame = pl.DataFrame(rows, schema=TYPES)
    typed = type_expression(text, SCHEMA)
    values = frame.with_columns(to_expr(typed).alias("__r"))["__r"]
    assert values.dtype == to_polars(typed.type)
    return values.to_list()


def test_a_lambda_reads_the_columns_that_no_parameter_hides() -> None:
    text = "transform(a, (i, k) -> exists(t, x -> x = s) and filter(n[0], y -> y > i)[0] > k)"
    assert find_columns(type_expression(text, SCHEMA)) == {"a", "t", "s", "n"}


def test_columns_inside_of_a_lambda_are_substituted() -> None:
    typed = type_expression("transform(a, x -> x + i)", SCHEMA)
    columns = {"a": "transform(n[0], x -> x * 2)", "i": "size(filter(a, x -> x > 1))"}
    inlined = substitute_columns(
        typed, {name: type_expression(text, SCHEMA) for name, text in columns.items()}
    )
    frame = pl.DataFrame({"n": [[[1, 2]]], "a": [[1, 2, 3]]}, schema={k: TYPES[k] for k in "na"})
    assert frame.select(to_expr(inlined)).to_series().to_list() == [[4, 6]]
    renamed = substitute_columns(
        typed,
        {"a": ColumnReference(Array(INT), True, NOWHERE, "left.a"), "i": typed.arguments[0]},  # type: ignore[attr-defined]
    )
    assert find_columns(renamed) == {"left.a", "a"}


ELEMENTS = st.lists(st.integers(-5, 5) | st.none(), max_size=7) | st.none()
ENTRIES = st.none() | st.dictionaries(
    st.sampled_from(("a", "ab", "b", "bc")), st.integers(-3, 3) | st.none()
)
INCONSTANT = [
    "transform(a, (x, k) -> x * 10 + k + i)",
    "filter(a, (x, k) -> x > i or k = 1)",
    "exists(a, x -> x > i)",
    "forall(a, x -> x > i)",
    "zip_with(a, n[0], (x, y) -> coalesce(x, i) - y)",
    "aggregate(a, i, (b, x) -> b * 3 - x, b -> b + i)",
    "transform(n, x -> aggregate(x, 0, (b, y) -> b + y * i))",
    "array_sort(a, (l, r) -> coalesce(l % 3, 9) - coalesce(r % 3, 9))",
    "map_filter(w, (k, v) -> v > i)",
    "transform_values(w, (k, v) -> v + i)",
    "transform_keys(w, (k, v) -> if(i > 0, k, substring(k, 1, 1)))",
    "map_zip_with(w, map('a', 1, 'bc', i), (k, v, x) -> coalesce(v, i) - x)",
]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "a": ELEMENTS,
                "i": st.integers(-3, 3) | st.none(),
                "n": st.lists(ELEMENTS, max_size=3),
            }
        ),
        min_size=1,
        max_size=9,
    ),
    text=st.sampled_from(INCONSTANT),
)
def test_values_do_not_depend_on_the_batch(rows: list[dict[str, Any]], text: str) -> None:
    assert evaluate(text, rows) == [evaluate(text, [row])[0] for row in rows]


def test_rows_that_a_filter_left_hide_no_elements() -> None:
    frame = pl.DataFrame({"a": [[1, 2], [3], None, [4, 5, 6], []]}, schema={"a": TYPES["a"]})
    typed = type_expression("transform(a, (x, k) -> x * 10 + k)", SCHEMA)
    wanted = [[10, 21], [30], None, [40, 51, 62], []]
    masked = frame.with_columns(pl.when(pl.Series([1, 0, 1, 1, 1]) == 1).then("a").alias("a"))
    assert masked.select(to_expr(typed)).to_series().to_list() == [wanted[0], None, *wanted[2:]]
    sliced = frame.slice(1, 3)
    assert sliced.select(to_expr(typed)).to_series().to_list() == wanted[1:4]
    chunked = pl.concat([frame, frame], rechunk=False)
    assert chunked.select(to_expr(typed)).to_series().to_list() == wanted * 2


@pytest.mark.parametrize("size", [0, 1, 2, 31, 32, 33, 1000])
def test_a_comparator_sorts_stably(size: int) -> None:
    random = Random(size)
    numbers = [random.randrange(size) for _ in range(size)]
    found = evaluate("array_sort(a, (l, r) -> int(l div 10 - r div 10))", [{"a": numbers}])
    assert found == [sorted(numbers, key=lambda number: number // 10)]


def test_an_array_that_a_comparator_cannot_sort_is_null() -> None:
    rows: list[dict[str, Any]] = [{"a": [2, None, 1]}, {"a": [None]}, {"a": [2, 1]}, {"a": None}]
    assert evaluate("array_sort(a, (l, r) -> l - r)", rows) == [None, [None], [1, 2], None]


def limit(
    text: str, rows: list[dict[str, Any]], max_value: int
) -> tuple[list[Any], dict[int, str], int]:
    """Evaluate with a limit: values, failed rows with their message, and the number of slices."""
    typed = ExpressionResolver(SCHEMA, max_value=max_value).resolve(parse_expression(text))
    frame = pl.DataFrame(rows, schema=TYPES)
    pieces = list(CheckedExpressions({"r": typed}).evaluate(frame))
    values: list[Any] = []
    failed: dict[int, str] = {}
    for piece in pieces:
        found = piece.failures.get("r", {})
        failed |= {len(values) + row: str(failure) for row, failure in found.items()}
        values += piece.values["r"].to_list()
    return values, failed, len(pieces)


REPEATING = [
    ("transform(t, x -> repeat(x, i))", "repeat"),
    ("transform(n, y -> transform(t, x -> repeat(x, i)))[0]", "repeat"),
    ("filter(t, x -> length(repeat(x, i)) > 0)", "repeat"),
    ("zip_with(t, a, (x, y) -> repeat(x, i))", "repeat"),
    ("aggregate(t, '', (b, x) -> concat(b, repeat(x, i)))", "aggregate"),
    ("aggregate(a, s, (b, x) -> concat(b, b))", "aggregate"),
    ("aggregate(a, array(s), (b, x) -> concat(b, b))", "aggregate"),
    ("transform(a, x -> concat(s, '12345'))", "transform"),
    ("transform(a, x -> a)[0]", "transform"),
    (
        "aggregate(a, struct(s, a), (b, x) -> named_struct('s', concat(b.s, s), 'a', b.a)).s",
        "aggregate",
    ),
    ("transform(n, y -> transform(a, x -> transform(a, z -> x)))[0][0]", "transform"),
    ("zip_with(a, t, (x, y) -> concat(s, s, s))", "zip_with"),
    ("transform_values(map_from_arrays(t, a), (k, v) -> concat(s, s, s))", "transform_values"),
    ("transform_keys(map_from_arrays(t, a), (k, v) -> concat(k, s, s, s))", "transform_keys"),
    (
        "map_zip_with(map_from_arrays(t, a), map('a', 1), (k, v, w) -> concat(s, s, s))",
        "map_zip_with",
    ),
]


@pytest.mark.parametrize(("text", "function"), REPEATING)
def test_values_made_in_a_lambda_count_together_for_a_row(text: str, function: str) -> None:
    small = {"t": ["a", "b"], "i": 10, "n": [[1]], "a": [1, 2], "s": "abc"}
    large = small | {"t": [chr(97 + at) for at in range(20)], "a": [1] * 20}
    values, failed, _ = limit(text, [small, large, small], 150)
    assert list(failed) == [1]
    assert failed[1].startswith(f"{function} would make a value of ")
    assert values[0] == values[2] == evaluate(text, [small])[0]
    with pytest.raises(ValueTooLarge):
        typed = ExpressionResolver(SCHEMA, max_value=150).resolve(parse_expression(text))
        pl.DataFrame([large], schema=TYPES).select(to_expr(typed))


def test_outer_values_are_not_repeated_for_all_elements_at_once() -> None:
    rows: list[dict[str, Any]] = [
        {"a": list(range(50)), "s": "x" * 1_000_000, "i": 2},
        {"a": [7, None], "s": "y", "i": 3},
    ]
    text = "filter(a, (x, k) -> length(concat(s, s)) - 1999990 > x + k)"
    assert evaluate(text, rows) == [list(range(5)), []]
    text = "transform(a, x -> substring(concat(s, s), x, 1))"
    assert limit(text, rows, 40) == (
        [None, ["", None]],
        {0: "transform would make a value of 48 bytes, more than max_value, 40"},
        1,
    )


@pytest.mark.parametrize(
    ("start", "merge"), [("i", "b + x * i"), ("7L", "x + b"), ("1Y", "tinyint(x) + b")]
)
def test_a_sum_wraps_as_the_fold_does(start: str, merge: str) -> None:
    rows: list[dict[str, Any]] = [
        {"a": [2**31 - 1, 5, -3], "i": 2**30},
        {"a": [1, None], "i": 1},
        {"a": [], "i": None},
        {"a": None, "i": 1},
        {"a": [127, 127, 1], "i": -1},
    ]
    added = evaluate(f"aggregate(a, {start}, (b, x) -> {merge}, b -> b * 3)", rows)
    folded = evaluate(
        f"aggregate(a, {start}, (b, x) -> greatest({merge}, {merge}), b -> b * 3)", rows
    )
    assert added == folded


def test_rows_whose_lambdas_make_much_together_are_computed_in_slices() -> None:
    rows = [{"t": ["a", "b"], "i": 40}] * 9
    values, failed, slices = limit("transform(t, x -> repeat(x, i))", rows, 100)
    assert (failed, slices) == ({}, 9)
    assert values == [["a" * 40, "b" * 40]] * 9


def test_a_lambda_of_a_branch_that_is_not_taken_is_not_computed() -> None:
    text = "case when i < 100 then transform(t, x -> repeat(x, i)) else t end"
    rows = [{"t": ["a"], "i": 3}, {"t": ["b"], "i": 1_000_000}]
    assert limit(text, rows, 100)[:2] == ([["aaa"], ["b"]], {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exists(a, x -> if(x = 0, raise_error('zero'), x = 1))", {0: True, 2: False, 3: None}),
        ("exists(a, x -> element_at(array(1), x) = 1)", {0: True, 2: False, 3: None}),
        ("forall(a, x -> if(x = 0, raise_error('zero'), x = 2))", {0: False, 2: True, 3: False}),
        ("forall(a, x -> assert_true(x > 0) is null)", {2: True}),
        (
            "exists(a, x -> exists(a, y -> if(y = 0, raise_error('zero'), y = x)))",
            {0: True, 1: True, 2: False, 3: True},
        ),
    ],
)
def test_no_element_fails_after_the_one_that_decides(
    text: str, expected: dict[int, bool | None]
) -> None:
    rows: list[dict[str, Any]] = [{"a": [1, 0]}, {"a": [2, 0, 1]}, {"a": []}, {"a": [None, 3]}]
    values, failed, _ = limit(text, rows, 1000)
    assert {row: value for row, value in enumerate(values) if row not in failed} == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("transform(a, x -> if(x > 2, raise_error(concat('got ', s, x)), x))", "got b3"),
        ("transform(n, y -> transform(y, x -> element_at(a, x)))[0]", "position"),
        ("filter(a, x -> assert_true(x < 3, s) is null)", "b"),
        ("aggregate(a, 0, (b, x) -> if(x > 2, raise_error(s), b + x))", "b"),
        ("aggregate(a, 0, (b, x) -> b + x, b -> if(b > 9, raise_error(s), b))", "b"),
        ("array_sort(a, (l, r) -> if(l > 2, raise_error(s), l - r))", "b"),
    ],
)
def test_an_element_that_fails_fails_its_row(text: str, reason: str) -> None:
    rows: list[dict[str, Any]] = [
        {"a": [1, 2], "s": "a", "n": [[1, 2]]},
        {"a": [1, 3, 4, 5], "s": "b", "n": [[1], [0]]},
        {"a": None, "s": "c", "n": None},
    ]
    values, failed, _ = limit(text, rows, 1000)
    assert list(failed) == [1]
    assert reason in failed[1]
    assert values[0] == evaluate(text, rows[:1])[0]
    assert values[2] is None


@pytest.mark.parametrize(
    "text",
    [
        "transform(a, x -> x + i)",
        "filter(a, (x, k) -> x > k and exists(t, y -> y = s))",
        "zip_with(a, a, (x, y) -> x + y)",
        "aggregate(a, 0, (b, x) -> b + x, b -> b * 2)",
        "map_filter(transform_values(w, (k, v) -> v + i), (k, v) -> v > i)",
        "map_zip_with(w, w, (k, x, y) -> x - y)",
    ],
)
def test_spark_runs_the_text_as_written(text: str) -> None:
    assert translate_expression(text, type_expression(text, SCHEMA)) == text


@pytest.mark.parametrize(
    "text",
    [
        "transform(d, x -> exp(x))",
        "transform(n, y -> filter(y, x -> pow(x, 2) > 1))",
        "aggregate(t, '', (b, x) -> b || x)",
        "array_sort(a, (l, r) -> l - r)",
        "transform(t, x -> repeat(x, i))",
        "transform(a, x -> current_timestamp())",
        "transform_keys(w, (k, v) -> upper(k))",
    ],
)
def test_spark_runs_no_lambda_that_would_differ(text: str) -> None:
    assert translate_expression(text, type_expression(text, SCHEMA)) is None


def test_calls_in_a_lambda_have_their_spark_form() -> None:
    text = "transform(a, x -> x >> 1)"
    said = translate_expression(text, type_expression(text, SCHEMA))
    assert said == "transform(a, x -> shiftright(x, 1))"
