"""Values that functions make of their arguments are bounded, before memory is taken for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors.value_errors import ExpressionFailure, ValueTooLarge
from headrace.core.expressions import ExpressionErrors, to_expr, type_expression
from headrace.core.expressions.checked_expressions import CheckedExpressions
from headrace.core.expressions.compilation import (
    LambdaArgument,
    compile_checked,
    compile_node,
)
from headrace.core.expressions.functions import FUNCTIONS
from headrace.core.expressions.parsing.parser import parse_expression
from headrace.core.expressions.parsing.syntax_tree import CallNode, Literal, SyntaxNode
from headrace.core.expressions.parsing.syntax_tree import walk as walk_tree
from headrace.core.expressions.resolver import ExpressionResolver
from headrace.core.expressions.typed import (
    PROCESSING_TIME,
    Constant,
    ExpressionError,
    FunctionCall,
    LambdaFunction,
    TypedExpression,
    is_fallible,
    walk,
    with_null_on_failure,
)
from headrace.core.types.data_types import INT, STRING, Array, Field, Schema, to_polars
from headrace.core.types.type_parser import parse_type
from tests.support.paths import SPARK_CASES

SCHEMA = Schema(
    (Field("s", STRING), Field("n", INT), Field("t", STRING), Field("a", Array(STRING)))
)
ROWS = pl.DataFrame(
    {
        "s": ["ab", None, "é", "x", ""],
        "n": [3, 4, 2_000_000_000, 2, -1],
        "t": [",", ";", "b", "yy", ""],
        "a": [["a", "b"], [None], None, ["c"] * 5, []],
    },
    schema={field.name: to_polars(field.type) for field in SCHEMA},
)


def evaluate(
    text: str, frame: pl.DataFrame = ROWS, max_value: int = 1000
) -> tuple[list[Any], Mapping[int, str], int]:
    """Evaluate an expression with a limit: values, failed rows, and the number of slices."""
    typed = ExpressionResolver(SCHEMA, max_value=max_value).resolve(parse_expression(text))
    pieces = list(CheckedExpressions({"r": typed}).evaluate(frame))
    values: list[Any] = []
    failed: dict[int, str] = {}
    at = 0
    for piece in pieces:
        values += piece.values["r"].to_list()
        failures = piece.failures.get("r", {}).items()
        failed |= {at + row: failure.message for row, failure in failures}
        at += piece.rows.height
    return values, failed, len(pieces)


@pytest.mark.parametrize(
    ("text", "values", "failed"),
    [
        ("repeat(s, n)", ["ababab", None, None, "xx", ""], [2]),
        ("repeat(repeat(s, 2), n)", ["ab" * 6, None, None, "xxxx", ""], [2]),
        ("lpad(s, n, t)", [",ab", None, None, "yx", ""], [2]),
        ("rpad(s, n)", ["ab ", None, None, "x ", ""], [2]),
        ("lpad(s, 1001)", [None] * 5, [0, 2, 3, 4]),
        ("replace(s, t, repeat('z', n))", ["ab", None, None, "x", ""], [2]),
        ("concat_ws(repeat(t, n), a)", ["a,,,b", "", None, "c" + "yyyyc" * 4, ""], [2]),
        ("concat_ws(lpad(t, 400), a)", ["a" + " " * 399 + ",b", "", "", None, ""], [3]),
        ("length(space(n))", [3, 4, None, 2, 0], [2]),
        ("array_size(array_repeat(s, n))", [3, 4, None, 2, 0], [2]),
        ("array_join(a, repeat(t, n))", ["a,,,b", "", None, "c" + "yyyyc" * 4, ""], [2]),
        ("length(repeat(s, n)) > 4", [True, None, None, False, False], [2]),
    ],
)
def test_a_value_above_the_limit_fails_its_row(
    text: str, values: list[object], failed: list[int]
) -> None:
    found = evaluate(text)
    assert found[0] == values
    assert list(found[1]) == failed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("case when n < 10 then repeat(s, n) else 'no' end", "no"),
        ("case when n > 10 then 'no' when n > 0 then repeat(s, n) else lpad(s, n) end", "no"),
        ("case n + 1 when 4 then repeat(s, n) when 2000000001 then 'no' else lpad(s, n) end", "no"),
        ("case n when 4 then repeat(s, n) else 'no' end", "no"),
        ("if(n > 10, 'no', repeat(s, n))", "no"),
        ("coalesce(s, repeat(t, n))", "é"),
        ("nvl2(s, 'no', repeat(t, n))", "no"),
        ("if(n < 10 and length(repeat(s, n)) > 2, 'yes', 'no')", "no"),
        ("if(n > 10 or length(repeat(s, n)) > 2, 'no', 'yes')", "no"),
        ("if(n > 10, 'no', upper(concat(repeat(s, n), 'x')))", "no"),
    ],
)
def test_a_value_that_is_not_used_fails_no_row(text: str, value: str) -> None:
    values, failed, _ = evaluate(text)
    assert values[2] == value
    assert not failed
    assert ROWS.select(to_expr(type_expression(text, SCHEMA))).to_series()[2] == value


CHAINS: dict[str, Callable[[Sequence[str]], str]] = {
    "coalesce": lambda terms: f"coalesce({', '.join(f'nullif({t}, s)' for t in terms)})",
    "case": lambda terms: (
        f"case {' '.join(f'when length({t}) = 99 then {t}' for t in terms)} else s end"
    ),
    "case of a subject": lambda terms: (
        f"case concat(s, t) {' '.join(f'when {t} then {t}' for t in terms)} end"
    ),
    "and": lambda terms: " and ".join(f"{t} <> 'b'" for t in terms),
    "or": lambda terms: " or ".join(f"{t} = 'b'" for t in terms),
    "if": lambda terms: "".join(f"if({t} = 'b', 'x', " for t in terms) + "s" + ")" * len(terms),
    "nvl2": lambda terms: "".join(f"nvl2({t}, " for t in terms) + "s" + ", t)" * len(terms),
}
"""Expressions of terms of which each is used where those before it do not decide."""


class CountingCheck:
    """A check that counts the computations of growing calls."""

    count = 0

    def reject(self, call: FunctionCall, reasons: pl.Series) -> None:
        raise AssertionError(call)

    def admit(self, call: FunctionCall, sizes: pl.Series) -> None:
        self.count += 1


@pytest.mark.parametrize("chain", CHAINS)
def test_each_growing_call_is_computed_once(chain: str) -> None:
    text = CHAINS[chain]([f"lpad(s, n, '{at}')" for at in range(9)])
    typed = type_expression(text, SCHEMA)
    calls = [node for node in walk(typed) if isinstance(node, FunctionCall) and node.growth]
    assert len(calls) >= 9
    check = CountingCheck()
    rows = ROWS.filter(pl.col("n") < 10)
    limited = rows.select(compile_checked(typed, check).alias("r"))
    assert check.count == len(calls)
    assert limited.equals(rows.select(compile_plain(typed).alias("r")))


@pytest.mark.parametrize(
    ("text", "values", "failed"),
    [
        ("if(n > 9, raise_error(concat('large ', s)), n)", [3, 4, None, 2, -1], {2: "large é"}),
        ("n < 9 or raise_error(null)", [True, True, None, True, True], {2: "NULL"}),
        ("coalesce(s, raise_error('no s'))", ["ab", None, "é", "x", ""], {1: "no s"}),
        ("raise_error(raise_error('inner'))", [None] * 5, dict.fromkeys(range(5), "inner")),
        (
            "assert_true(n > 0) is null",
            [True] * 5,
            {4: "the condition is not true"},
        ),
        ("assert_true(length(s) > 0, t) is null", [True] * 5, {1: ";", 4: ""}),
        (
            "element_at(a, if(n = 3, 0, -n % 3))",
            [None, None, None, "c", None],
            {0: "the position is 0, but the first element is at 1"},
        ),
        ("element_at(a, n % 3 - 3)", [None, None, None, "c", None], {}),
        ("nvl2(s, 1, cast(raise_error('no s') as int))", [1, None, 1, 1, 1], {1: "no s"}),
        (
            "make_dt_interval(1) > if(n is null or true, interval 1 day, raise_error(s))",
            [False] * 5,
            {},
        ),
    ],
)
def test_a_call_fails_in_the_rows_that_reach_it(
    text: str, values: list[Any], failed: dict[int, str]
) -> None:
    found, messages, _ = evaluate(text)
    assert {row: message.partition(": ")[2] for row, message in messages.items()} == failed
    assert found == values
    typed = type_expression(text, SCHEMA)
    plain = ROWS.with_columns(to_expr(with_null_on_failure(typed)).alias("r"))
    assert plain["r"].to_list() == values
    if failed:
        with pytest.raises(ExpressionFailure):
            ROWS.select(to_expr(typed))


def test_no_row_fails_where_there_is_none() -> None:
    typed = {"r": type_expression("if(n > 0, raise_error('x'), raise_error('y'))", SCHEMA)}
    for piece in CheckedExpressions(
        typed | {"q": type_expression("raise_error('z')", SCHEMA)}
    ).evaluate(ROWS.clear()):
        assert not piece.failures and not piece.values.height


def test_the_message_names_the_function_the_size_and_the_limit() -> None:
    _, failed, _ = evaluate("repeat(s, n)")
    assert failed[2] == (
        "repeat would make a value of 4,000,000,000 bytes, more than max_value, 1,000"
    )


def test_rows_pass_in_slices_whose_values_stay_within_the_limit() -> None:
    frame = pl.DataFrame({"s": ["x"] * 100, "n": [100] * 100}, schema_overrides={"n": pl.Int32})
    values, failed, slices = evaluate("repeat(s, n)", frame)
    assert values == ["x" * 100] * 100
    assert (len(failed), slices) == (0, 10)
    assert evaluate("repeat('y', 500)", frame)[2] == 50
    assert evaluate("concat(repeat(s, n), repeat('y', 500))", frame)[2] == 50


def test_a_failing_row_does_not_count_in_the_slices() -> None:
    frame = ROWS.select("s", "n", "t", "a")
    assert evaluate("repeat(s, n)", frame)[2] == 1


def test_without_slices_a_value_above_the_limit_raises() -> None:
    with pytest.raises(ValueTooLarge, match="4,000,000,000 bytes") as raised:
        ROWS.select(to_expr(type_expression("repeat(s, n)", SCHEMA)))
    assert raised.value.message.endswith("more than max_value, 67,108,864")


def test_a_constant_above_the_limit_is_an_error_of_the_expression() -> None:
    with pytest.raises(ExpressionErrors, match="repeat would make a value of 1,000,000,000 bytes"):
        type_expression("translate(s, repeat('a', 1000000000), 'b')", SCHEMA)


@pytest.mark.parametrize("text", ["repeat(s, 3)", "lpad(s, 20, '0')", "replace(s, 'a', 'bc')"])
def test_calls_with_small_constants_are_not_growing(text: str) -> None:
    assert not is_fallible(type_expression(text, SCHEMA))


# The sweep: every function, called with long texts and large numbers.


def make_large(node: SyntaxNode) -> SyntaxNode:
    """Return the expression with long texts and large numbers as literals."""
    changed: dict[str, Any] = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, tuple):
            changed[each.name] = tuple(make_large(v) if is_node(v) else v for v in value)
        elif is_node(value):
            changed[each.name] = make_large(value)
    if isinstance(node, Literal) and isinstance(node.value, str):
        changed["value"] = node.value * 100
    elif isinstance(node, Literal) and type(node.value) is int and 0 < node.value < 1000:
        changed["value"] = node.value * 5000
    return replace(node, **changed)


def is_node(value: object) -> bool:
    return is_dataclass(value) and "parsing.syntax_tree" in type(value).__module__


def make_value(type: pl.DataType) -> Any:
    match type:
        case pl.String():
            return "ab,c-1 xX" * 100
        case pl.List(inner=inner):
            return [make_value(inner)] * 10  # type: ignore[arg-type]
        case pl.Int32() | pl.Int64():
            return 50_000
    return None


def list_expressions() -> Iterator[tuple[SyntaxNode, Schema]]:
    """Yield an expression for each shape in the function table and in Spark's cases of texts."""
    texts = [(text, "{}") for row in FUNCTIONS.values() for text, _ in row.examples]
    for family in ("strings", "patterns", "collections"):
        cases = json.loads((SPARK_CASES / f"{family}.json").read_text())
        texts += [(text, json.dumps(cases["columns"])) for text in cases["exprs"]]
    shapes: dict[object, tuple[SyntaxNode, str]] = {}
    for text, columns in texts:
        try:
            tree = parse_expression(text)
        except ExpressionError:
            continue
        shapes.setdefault(tuple(map(get_shape, walk_tree(tree))), (tree, columns))
    for tree, columns in shapes.values():
        typed = json.loads(columns).items()
        yield tree, Schema(tuple(Field(name, *parse_type(ddl)) for name, ddl in typed))


def get_shape(node: SyntaxNode) -> object:
    """Return the function of a node, or its class."""
    return node.name if isinstance(node, CallNode) else type(node)


def evaluate_large(tree: SyntaxNode, schema: Schema) -> Iterator[tuple[TypedExpression, int, int]]:
    """Yield the typed expression, the bytes of its inputs, and those of its value.

    The expression is evaluated as written, and with long literals if those are valid.
    """
    types = {field.name: to_polars(field.type) for field in schema}
    values = {name: [make_value(type)] for name, type in types.items()} | {PROCESSING_TIME: [0]}
    frame = pl.DataFrame(values, schema=types | {PROCESSING_TIME: pl.Int64()})
    for written in (tree, make_large(tree)):
        try:
            typed = ExpressionResolver(schema).resolve(written)
        except (ExpressionError, ExpressionErrors):
            continue
        if typed.type != STRING and not isinstance(typed.type, Array):
            continue
        plain = compile_plain(typed)
        value = frame.select(plain.alias("r"))
        texts = (n.value for n in walk(typed) if isinstance(n, Constant))
        constants = sum(len(str(text).encode()) for text in texts)
        yield typed, int(frame.estimated_size()) + constants, int(value.estimated_size())


def compile_plain(typed: TypedExpression) -> pl.Expr:
    """Compile without limits."""
    if not isinstance(typed, FunctionCall):
        return compile_node(typed, ())
    arguments = (
        LambdaArgument(each, typed, AllAdmitted())
        if isinstance(each, LambdaFunction)
        else compile_plain(each)
        for each in typed.arguments
    )
    return compile_node(typed, [*arguments])


class AllAdmitted:
    """A check without a limit."""

    def reject(self, call: FunctionCall, reasons: pl.Series) -> None:
        """Let the call fail."""

    def admit(self, call: FunctionCall, sizes: pl.Series) -> None:
        """Admit every value."""


def test_no_function_makes_far_more_of_its_arguments_without_a_limit() -> None:
    growing, others = set(), 0
    for tree, schema in list_expressions():
        for typed, came, made in evaluate_large(tree, schema):
            calls = [n for n in walk(typed) if isinstance(n, FunctionCall) and n.growth]
            growing |= {call.function for call in calls}
            others += not calls
            text = f"{[get_shape(node) for node in walk_tree(tree)]}: {came} bytes became {made}"
            assert calls or made <= 40 * came + 4096, text
    joined = {"concat_ws", "array_join"}
    repeated = {"repeat", "space", "lpad", "rpad", "array_repeat", "format_number"}
    numbered = {"array_insert", "sequence"}
    assert growing == {*joined, *repeated, *numbered, "replace", "regexp_replace"}
    assert others > 300


SIZED = [
    "repeat(s, n)",
    "repeat(s, 100)",
    "lpad(s, n, t)",
    "rpad(s, n, t)",
    "lpad(s, n)",
    "replace(s, t, s)",
    "replace(s, 'x', repeat('y', 50))",
    "concat_ws(s, a)",
    "concat_ws(t, a, s, a)",
    "regexp_replace(s, '[a-c]', 'a text that is longer than the matches are')",
]
TEXT = st.text("abcxé😀,", max_size=6)


@settings(max_examples=80, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            TEXT | st.none(),
            st.integers(-2, 40) | st.none(),
            TEXT | st.none(),
            st.lists(TEXT | st.none(), max_size=4) | st.none(),
        ),
        min_size=1,
        max_size=8,
    ),
    text=st.sampled_from(SIZED),
    max_value=st.integers(1, 120),
)
def test_the_size_is_known_before_and_slices_change_no_value(
    rows: list[tuple[Any, ...]], text: str, max_value: int
) -> None:
    frame = pl.DataFrame(rows, schema=ROWS.schema, orient="row")
    plain = frame.select(compile_plain(type_expression(text, SCHEMA))).to_series().to_list()
    values, failed, _ = evaluate(text, frame, max_value)
    for row, whole in enumerate(plain):
        size = len((whole or "").encode())
        assert values[row] == (None if row in failed else whole)
        # The size of a value of regexp_replace is an upper bound.
        assert row in failed or size <= max_value
        assert row not in failed or size > max_value or text.startswith("regexp")
