"""Decimal arithmetic compared with Python's, whose decimals have any number of digits."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Context
from decimal import Decimal as D

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.expressions import ExpressionErrors, to_expr, type_expression
from headrace.core.types.data_types import BIGINT, DOUBLE, INT, Decimal, Field, Schema, to_polars
from tests.support.expression_errors import assert_refused

MANY = Context(prec=200)
ZERO = D(0)


@st.composite
def types(draw: st.DrawFn) -> Decimal:
    precision = draw(st.one_of(st.just(38), st.integers(1, 38)))
    return Decimal(precision, draw(st.integers(0, precision)))


def numbers(type: Decimal) -> st.SearchStrategy[D | None]:
    """Draw decimals of the type: many with few digits, many near its limits, some null."""
    most = 10**type.precision - 1
    whole = st.one_of(
        st.integers(-most, most),
        st.integers(0, type.precision).flatmap(lambda d: st.integers(-(10**d), 10**d)),
        st.sampled_from([0, 1, -1, most, -most, 5 * 10 ** (type.precision - 1)]),
    ).map(lambda n: max(min(n, most), -most))
    return st.none() | whole.map(lambda n: D(n).scaleb(-type.scale, context=MANY))


def exact(operator: str, a: D, b: D) -> D | None:
    """Return the exact result, to two hundred digits; quotients are truncated there."""
    if operator == "+":
        return MANY.add(a, b)
    if operator == "-":
        return MANY.subtract(a, b)
    if operator == "*":
        return MANY.multiply(a, b)
    if b == 0:
        return None
    if operator == "/":
        return Context(prec=200, rounding=ROUND_DOWN).divide(a, b)
    rest = MANY.remainder(a, b)
    if operator == "pmod" and rest < 0:
        return MANY.remainder(MANY.add(rest, b), b)
    return MANY.divide_int(a, b) if operator == "div" else rest


def fitted(value: D | None, type: Decimal, rounding: str = ROUND_HALF_UP) -> D | None:
    """Return the value in the type, null where it has too many digits."""
    if value is None:
        return None
    unit = D(1).scaleb(-type.scale, context=MANY)
    rounded = value.quantize(unit, rounding=rounding, context=MANY)
    return None if rounded.copy_abs() >= D(10) ** (type.precision - type.scale) else rounded


def ours(text: str, schema: Schema, frame: pl.DataFrame) -> tuple[object, list[D | None]]:
    typed = type_expression(text, schema)
    result = frame.select(to_expr(typed).alias("r"))["r"]
    assert result.dtype == to_polars(typed.type)
    return typed.type, result.to_list()


@settings(max_examples=150, deadline=None)
@given(st.data(), types(), types(), st.sampled_from(["+", "-", "*", "/", "%", "pmod", "div"]))
def test_operators_are_exact_or_refused(
    data: st.DataObject, left: Decimal, right: Decimal, operator: str
) -> None:
    rows = data.draw(st.lists(st.tuples(numbers(left), numbers(right)), min_size=1, max_size=5))
    schema = Schema((Field("a", left), Field("b", right)))
    frame = pl.DataFrame(
        [
            pl.Series("a", [a for a, _ in rows], dtype=to_polars(left)),
            pl.Series("b", [b for _, b in rows], dtype=to_polars(right)),
        ]
    )
    text = "pmod(a, b)" if operator == "pmod" else f"a {operator} b"
    try:
        type, values = ours(text, schema, frame)
    except ExpressionErrors as error:
        assert "needs more than 38 digits" in str(error)
        assert operator not in ("+", "-", "*", "/")
        return
    for (a, b), value in zip(rows, values, strict=True):
        true = None if a is None or b is None else exact(operator, a, b)
        if operator == "div":
            wrapped = None if true is None else (int(true) + 2**63) % 2**64 - 2**63
            assert value == wrapped
        else:
            assert isinstance(type, Decimal)
            assert value == fitted(true, type), (a, operator, b)


@settings(max_examples=100, deadline=None)
@given(st.data(), types(), types())
def test_a_cast_rounds_half_up_and_is_null_where_it_does_not_fit(
    data: st.DataObject, source: Decimal, target: Decimal
) -> None:
    given_ = data.draw(st.lists(numbers(source), min_size=1, max_size=5))
    frame = pl.DataFrame([pl.Series("a", given_, dtype=to_polars(source))])
    _, values = ours(f"cast(a as {target})", Schema((Field("a", source),)), frame)
    assert values == [fitted(value, target) for value in given_]


ROUNDINGS = {
    "round": ROUND_HALF_UP,
    "bround": ROUND_HALF_EVEN,
    "ceil": ROUND_CEILING,
    "floor": ROUND_FLOOR,
}


@settings(max_examples=100, deadline=None)
@given(st.data(), types(), st.integers(-38, 40), st.sampled_from(list(ROUNDINGS)))
def test_rounding_functions_round_at_any_digit(
    data: st.DataObject, source: Decimal, digits: int, name: str
) -> None:
    given_ = data.draw(st.lists(numbers(source), min_size=1, max_size=5))
    frame = pl.DataFrame([pl.Series("a", given_, dtype=to_polars(source))])
    type, values = ours(f"{name}(a, {digits})", Schema((Field("a", source),)), frame)
    assert isinstance(type, Decimal)
    unit = D(1).scaleb(-min(digits, source.scale), context=MANY)
    for before, after in zip(given_, values, strict=True):
        rounded = before and before.quantize(unit, rounding=ROUNDINGS[name], context=MANY)
        assert after == fitted(rounded, type)


SCHEMA = Schema(
    (
        Field("i", INT),
        Field("l", BIGINT),
        Field("x", DOUBLE),
        Field("d", Decimal(10, 2)),
        Field("e", Decimal(5, 4)),
        Field("w", Decimal(38, 18)),
        Field("k", Decimal(38, 0)),
    )
)


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("d + e", "decimal(13,4)"),
        ("d * e", "decimal(16,6)"),
        ("d / e", "decimal(20,8)"),
        ("d % e", "decimal(5,4)"),
        ("d div e", "bigint"),
        ("d + i", "decimal(13,2)"),
        ("d + l", "decimal(23,2)"),
        ("d + 1", "decimal(11,2)"),
        ("d * 100", "decimal(14,2)"),
        ("1L * 1.5", "decimal(4,1)"),
        ("1Y * 1.5", "decimal(6,1)"),
        ("-1 * 1.5", "decimal(4,1)"),
        ("d + x", "double"),
        ("w + w", "decimal(38,17)"),
        ("w * w", "decimal(38,6)"),
        ("w / 3", "decimal(38,18)"),
        ("w / w", "decimal(38,6)"),
        ("null + d", "decimal(11,2)"),
        ("null / d", "double"),
        ("-d", "decimal(10,2)"),
    ],
)
def test_results_have_the_types_that_spark_gives(text: str, type: str) -> None:
    assert str(type_expression(text, SCHEMA).type) == type


@pytest.mark.parametrize("text", ["k % d", "k div d", "pmod(k, d)", "mod(k, d)"])
def test_what_needs_more_digits_on_the_way_is_refused_with_what_to_do(text: str) -> None:
    digits, fewer = "needs more than 38 digits on the way", "cast the operands to fewer digits"
    assert_refused(text, SCHEMA, digits, text, fewer)
    narrower = re.sub(r"\b([kw])\b", r"cast(\1 as decimal(18,4))", text)
    assert isinstance(type_expression(narrower, SCHEMA).type, Decimal) or " div " in text


@pytest.mark.parametrize("text", ["d > i", "d = 1", "d < 1.005", "w >= l", "d <=> e", "l < 2.5"])
def test_comparisons_with_integers_and_other_decimals_are_exact(text: str) -> None:
    left, operator, right = text.split()
    columns: dict[str, list[D]] = {
        "i": [D(2**31 - 1), D(-(2**31)), D(1), D(0)],
        "l": [D(2**63 - 1), D(-(2**63)), D(2), D(3)],
        "d": [D("99999999.99"), D("-1.00"), D("1.01"), D("0.00")],
        "e": [D("9.9999"), D("-1.0000"), D("1.0100"), D("0.0001")],
        "w": [D("9223372036854775806.999999999999999999"), D("-9223372036854775808"), D(2), D(0)],
    }
    types = {field.name: to_polars(field.type) for field in SCHEMA}
    frame = pl.DataFrame(
        {name: map(int, column) if name in "il" else column for name, column in columns.items()},
        schema={name: types[name] for name in columns},
    )
    _, values = ours(text, SCHEMA, frame)
    compare = {
        ">": D.__gt__,
        "<": D.__lt__,
        ">=": D.__ge__,
        "=": D.__eq__,
        "<=>": D.__eq__,
    }[operator]
    constants = [[D(right)] * 4 if right not in columns else columns[right]]
    assert values == [compare(a, b) for a, b in zip(columns[left], *constants, strict=True)]
