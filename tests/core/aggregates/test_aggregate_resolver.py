"""Aggregate expressions are typed over rows and groups; errors have a position."""

from __future__ import annotations

import pytest

from headrace.core.aggregates import AGGREGATES, ORDER, type_aggregate_text
from headrace.core.expressions import ExpressionErrors, find_columns, type_expression
from headrace.core.expressions.functions.spark_functions import AGGREGATE_NAMES
from headrace.core.expressions.signature import ArrayPattern, Parameter, parse_signature
from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    Decimal,
    Field,
    Schema,
    Struct,
)

SCHEMA = Schema(
    (
        Field("shop", STRING),
        Field("price", DOUBLE),
        Field("n", INT),
        Field("ok", BOOLEAN),
        Field("cents", Decimal(29, 2)),
        Field("v", Struct((Field("x", INT),))),
    )
)
KEYS = Schema((Field("shop", STRING), Field("day", INT)))


def errors(text: str) -> list[tuple[str, str, str]]:
    """Return the error of a text: message, the characters, hint."""
    with pytest.raises(ExpressionErrors) as caught:
        type_aggregate_text(text, SCHEMA, KEYS)
    return [
        (error.message, text[error.span.start : error.span.end], error.hint)
        for error in caught.value.errors
    ]


@pytest.mark.parametrize(
    ("text", "message", "at", "hint"),
    [
        ("price", "neither a key nor inside an aggregate", "price", "first(price), or add it"),
        ("sum(price) + n", 'column "n" is neither a key', "n", "first(n), or add it to key"),
        ("sum(prise)", 'unknown column "prise"', "prise", 'did you mean "price"?'),
        ("sum(price) + dya", 'unknown column "dya"', "dya", 'did you mean "day"?'),
        ("sum(day)", 'unknown column "day"', "day", ""),
        ("qqqq", 'unknown column "qqqq"', "qqqq", "the columns are shop, day, price"),
        ("sum(max(price))", "max is inside another aggregate", "max", "and again"),
        ("count(*) filter (where sum(n) > 1)", "sum is inside another", "sum", ""),
        ("sum(n) filter (where n)", "filter wants a boolean condition, got int", "n", ""),
        ("sum(n) filter (where null)", "filter wants a boolean condition, got void", "null", ""),
        ("sum(v)", "an interval of months, got struct", "v", ""),
        ("max_by(distinct n, n, 2)", "distinct is not allowed in max_by", "max_by", ""),
        ("collect_list(distinct v)", "have no order to be listed in", "v", ""),
        ("max_by(n, n, 0)", "wanted 1 to 100000, got 0", "0", ""),
        ("max_by(n, n, null)", "wanted 1 to 100000, got NULL", "null", ""),
        ("sum(n) within group (order by n)", "within group is not allowed in sum", None, "a list"),
        ("percentile_cont(0.5)", "wants within group (order by ...)", None, "order by value: N"),
        ("percentile(n, 1.5)", "wanted a share from 0 to 1, got 1.5", "1.5", ""),
        ("percentile(n, array(0.5, null))", "got NULL", "array(0.5, null)", ""),
        ("percentile(n, price)", "percentile wants a constant double", "price", ""),
        ("percentile_approx(n, 0.5, 0)", "an accuracy from 1 to 2147483647, got 0", "0", ""),
        ("mode(n, null)", "wanted true or false, got NULL", "null", ""),
        ("mode(distinct n)", "distinct is not allowed in mode", "mode", ""),
        ("listagg(distinct shop) within group (order by n)", "by themselves only", "n", "listed"),
        ("listagg(shop) within group (order by v)", "a type with an order, got struct", "v", ""),
        ("listagg(shop) within group (order shop)", 'wanted "by", got "shop"', "shop", ""),
        ("upper(shop) within group (order by n)", "within group is for aggregates", "upper", ""),
        ("approx_count_distinct(n, 0.5)", "from 0.005 to 0.39, got 0.5", "0.5", ""),
        ("approx_count_distinct(n, 0.001)", "from 0.005 to 0.39, got 0.001", "0.001", ""),
        ("approx_count_distinct(n, null)", "from 0.005 to 0.39, got NULL", "null", ""),
        ("histogram_numeric(n, 1)", "wanted at least 2 bins, got 1", "1", ""),
        ("count()", "count takes at least 1 argument, got 0", "count()", "count(*)"),
        ("count(distinct *)", "* is allowed only in count(*)", "*", ""),
        ("count(*, n)", "* is allowed only in count(*)", "*", ""),
        ("sum(*)", "* is allowed only in count(*)", "*", ""),
        ("summ(n)", 'unknown function "summ"', "summ", 'did you mean "sum"?'),
        ("sum()", "sum takes 1 argument, got 0", "sum()", "its signature is sum(value: N) -> N"),
        ("min_by(n)", "min_by takes 2 or 3 arguments, got 1", "min_by(n)", ""),
        ("first(n, ok)", "first wants a constant boolean, got boolean", "ok", ""),
        ("first(n, null)", "wanted true or false, got NULL", "null", ""),
        ("count_if(n)", "count_if wants boolean, got int", "n", ""),
        ("sum(n) over ()", "belong into over: of a step", "over", "over: {total"),
        ("upper(distinct shop)", "upper is not one", "upper", ""),
        ("sum(n", 'wanted ")"', "n", ""),
    ],
)
def test_what_does_not_fit_is_refused_where_it_stands(
    text: str, message: str, at: str | None, hint: str
) -> None:
    found = errors(text)
    assert len(found) == 1
    assert message in found[0][0]
    assert found[0][1] == (at or text)
    assert hint in found[0][2]


def test_all_errors_are_reported_at_once() -> None:
    found = errors("sum(prise) / max(m) filter (where okk)")
    assert [at for _, at, _ in found] == ["prise", "m", "okk"]


def test_an_aggregate_outside_of_aggregate_is_named_as_one() -> None:
    with pytest.raises(ExpressionErrors, match="sum is an aggregate"):
        type_expression("sum(n) + 1", SCHEMA)


@pytest.mark.parametrize(
    ("text", "type", "nullable"),
    [
        ("count(*)", "bigint", False),
        ("sum(n)", "bigint", True),
        ("sum(price) / count(*)", "double", True),
        ("sum(cast(n as decimal(5,2)))", "decimal(15,2)", True),
        ("avg(cast(n as decimal(5,2)))", "decimal(9,6)", True),
        ("sum(cents)", "decimal(38,2)", True),
        ("avg(cents)", "decimal(33,6)", True),
        ("coalesce(max(n), 0)", "int", False),
        ("collect_list(v)", "array<struct<x:int>>", False),
        ("count(distinct n, shop)", "bigint", False),
        ("first(v).x", "int", True),
        ("shop", "string", True),
        ("concat(shop, '!')", "string", True),
    ],
)
def test_results_have_their_types(text: str, type: str, nullable: bool) -> None:
    expression = type_aggregate_text(text, SCHEMA, KEYS)
    assert (str(expression.type), expression.finish.nullable) == (type, nullable)


def test_a_call_written_twice_is_one_call() -> None:
    expression = type_aggregate_text("sum( n)/count(*) + SUM(n) - count( * )", SCHEMA, KEYS)
    assert [call.name for call in expression.calls] == ["__sum(n)", "__count(*)"]
    assert find_columns(expression.finish) == {"__sum(n)", "__count(*)"}
    assert expression.input_columns == {"n"}


def test_an_alias_is_the_same_call() -> None:
    assert len(type_aggregate_text("mean(n) + avg(n)", SCHEMA, KEYS).calls) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sum(n)", "sum(distinct n)"),
        ("sum(n)", "sum(n) filter (where ok)"),
        ("max('1')", "max(1)"),
        ("max(1.0)", "max(1.0D)"),
        ("max(1)", "max(1L)"),
        ("max(date '2024-01-01')", "max('2024-01-01')"),
        ("sum(cast(n as bigint))", "sum(try_cast(n as bigint))"),
        ("sum(n + 1 * 2)", "sum((n + 1) * 2)"),
        ("first(n)", "first(n, true)"),
        ("max(null)", "max('null')"),
        ("bool_or(true)", "bool_or(false)"),
        ("listagg(shop)", "listagg(shop) within group (order by shop)"),
        *(
            (
                f"listagg(shop) within group (order by {one})",
                f"listagg(shop) within group ({other})",
            )
            for one, other in [
                ("n", "order by n desc"),
                ("n", "order by n nulls last"),
                ("n desc", "order by n desc nulls first"),
                ("n", "order by n, shop"),
            ]
        ),
    ],
)
def test_unlike_calls_are_not_taken_for_one(one: str, other: str) -> None:
    names = [type_aggregate_text(text, SCHEMA, KEYS).calls[0].name for text in (one, other)]
    assert names[0] != names[1]


def test_a_state_is_named_and_typed_after_what_was_written() -> None:
    (call,) = type_aggregate_text("max_by(shop, price * 2)", SCHEMA, KEYS).calls
    (name, type), *rest = call.state_types(BIGINT).items()
    assert name == "__max_by(shop, (price * 2)).best"
    assert str(type) == "struct<value:string,by:double,order:bigint>"
    assert not rest
    assert list(call.prepare()) == ["__(price * 2) double"]
    assert call.input_columns == {"shop", "price"}


def _argument(parameter: Parameter) -> str:
    """Return an argument for a parameter of a signature."""
    if parameter.is_constant:
        return "2" if parameter.name == "bins" else "1"
    if isinstance(parameter.pattern, ArrayPattern):
        return "array(n)"
    return {"boolean": "ok", "string": "shop"}.get(str(parameter.pattern), "n")


def test_only_what_goes_by_order_needs_it() -> None:
    needing = {"first", "last", "min_by", "max_by", "collect_list", "listagg"}
    for row in AGGREGATES.values():
        first = parse_signature(row.signatures[0])
        arguments = [_argument(each) for each in first.parameters if not each.is_optional]
        within = f" within group (order by {arguments.pop()})" if first.is_ordered else ""
        text = f"{row.name}({', '.join(arguments) or '*'}){within}"
        expression = type_aggregate_text(text, SCHEMA, KEYS)
        assert expression.needs_order is (row.name in needing), row.name
    assert ORDER.startswith("__")


def test_the_names_of_aggregates_are_known_with_their_aliases() -> None:
    assert AGGREGATES.keys() == AGGREGATE_NAMES
