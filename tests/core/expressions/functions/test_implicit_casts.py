"""Implicit casts: what is warned of, what is cast once, and which signature is taken.

Values are compared with Spark's in implicit_casts.json and implicit_arguments.json of
tests/core/spark/cases.
"""

from __future__ import annotations

from datetime import date

import pytest

from headrace.core.expressions import ExpressionErrors, type_expression
from headrace.core.expressions.coercion import comparison_type, wider_type
from headrace.core.expressions.typed import Constant, FunctionCall, find_warnings
from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Schema,
    Struct,
)

SCHEMA = Schema(
    (
        *(Field("s", STRING), Field("n", INT), Field("d", DATE), Field("t", TIMESTAMP)),
        *(Field("p", BOOLEAN), Field("q", BOOLEAN), Field("x", DOUBLE), Field("a", Array(INT))),
    )
)


@pytest.mark.parametrize(
    ("text", "at", "message", "hint"),
    [
        ("s = null", "s = null", "= with null is null", "write s is null"),
        ("null == n", "null == n", "= with null is null", "write n is null"),
        ("s != null", "s != null", "<> with null is null", "write s is not null"),
        ("x < (null)", "x < (null)", "< with null is null", "write x is null"),
        ("n + 1 = null", "null", "= with null is null", "as in value is null"),
        ("null = null", "null", "= with null is null", "as in value is null"),
        ("case n when null then 1 end", "null", "= with null is null", "as in value is null"),
        ("d = 'soon'", "'soon'", "'soon' cannot be converted to date", "'2026-01-31'"),
        ("t > 'x' and p", "'x'", "'x' cannot be converted to timestamp", "'2026-01-31 08:00:00'"),
        ("n = 'one'", "'one'", "'one' cannot be converted to int", ""),
        ("'a' * n", "'a'", "'a' cannot be converted to double", ""),
        ("repeat(s, 'many')", "'many'", "'many' cannot be converted to int", ""),
        ("date_trunc(t, 'month')", "'month'", "converted to timestamp", "order: date_trunc(unit"),
        ("date_format('yy', t)", "'yy'", "converted to timestamp", "order: date_format(time"),
        ("d in ('2024-02-01', '2024-2-1')", "'2024-2-1'", "compared as text", "'2024-02-01'"),
        ("t in ('2024-02-01')", "'2024-02-01'", "timestamps are compared as text", "00:00:00'"),
        ("d in ('soon')", "'soon'", "dates are compared as text", ""),
        ("p || q", "p || q", "|| joins texts, got two booleans", "as in first or second"),
    ],
)
def test_what_is_probably_not_meant_is_warned_of(
    text: str, at: str, message: str, hint: str
) -> None:
    (warning,) = find_warnings(type_expression(text, SCHEMA))
    assert text[warning.span.start : warning.span.end] == at
    assert message in warning.message
    assert hint in warning.hint


@pytest.mark.parametrize(
    "text",
    [
        *("s = 1", "n = '1'", "n <=> null", "s is null", "d = '2024-2-1'", "d in ('2024-02-01')"),
        *("coalesce(n, null)", "n in (1, null)", "'1' + 1", "upper(1)", "concat(p, q)"),
    ],
)
def test_what_may_be_meant_is_not(text: str) -> None:
    assert not list(find_warnings(type_expression(text, SCHEMA)))


@pytest.mark.parametrize(
    ("text", "value"),
    [("d = '2024-2-1'", date(2024, 2, 1)), ("n = ' 7 '", 7), ("x < '1.5'", 1.5)],
)
def test_a_literal_is_cast_once(text: str, value: object) -> None:
    typed = type_expression(text, SCHEMA)
    assert isinstance(typed, FunctionCall)
    constant = typed.arguments[1]
    assert isinstance(constant, Constant)
    assert constant.value == value


def test_a_signature_that_takes_the_arguments_comes_first() -> None:
    assert type_expression("abs(n)", SCHEMA).type == INT
    assert type_expression("abs(s)", SCHEMA).type == DOUBLE
    assert type_expression("length(a[0])", SCHEMA).type == INT
    assert type_expression("md5(binary(s))", SCHEMA).type == STRING


@pytest.mark.parametrize("text", ["s div 2", "s & 1", "d + s", "if(s, 1, 2)", "n and p", "md5(n)"])
def test_what_spark_does_not_convert_is_refused(text: str) -> None:
    with pytest.raises(ExpressionErrors):
        type_expression(text, SCHEMA)


def test_only_an_equality_compares_a_boolean_with_a_number() -> None:
    assert comparison_type(BOOLEAN, BIGINT, equality=True) == BIGINT
    assert comparison_type(BOOLEAN, BIGINT, equality=False) is None


def test_a_text_is_a_double_next_to_a_decimal_with_digits_after_the_point() -> None:
    assert comparison_type(Decimal(10, 2), STRING, equality=True) == DOUBLE
    assert comparison_type(STRING, Decimal(10, 0), equality=False) == Decimal(10, 0)


def test_texts_inside_of_arrays_and_structs_are_compared_with_texts_only() -> None:
    assert comparison_type(Array(INT), Array(STRING), equality=True) is None
    numbers, texts = Struct((Field("k", INT),)), Struct((Field("k", STRING),))
    assert comparison_type(numbers, texts, equality=True) is None
    assert wider_type(numbers, texts) == texts


def test_decimals_that_do_not_fit_lose_digits_after_the_point() -> None:
    assert wider_type(Decimal(38, 0), Decimal(10, 2)) == Decimal(38, 0)
    assert wider_type(Decimal(38, 18), Decimal(30, 2)) == Decimal(38, 10)
