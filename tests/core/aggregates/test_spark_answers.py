"""Every aggregate has the value that Spark computed, in one batch or several in any order."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.aggregates import AggregateExpression
from headrace.core.expressions import ExpressionErrors
from headrace.core.types.data_types import Type, to_polars
from tests.support.aggregation import FAMILIES, at_once, cases, in_pieces, input_of, same, typed
from tests.support.spark.shown_values import is_shown_as_text, to_spark_text
from tests.support.spark.sql_values import encode

UNORDERED = ("collect_set", "collect_union", "collect_list(distinct")
"""Calls whose result has no order in Spark."""


@cache
def answered(family: str) -> tuple[pl.DataFrame, dict[str, AggregateExpression], dict[str, Any]]:
    """Return the rows, the expressions that headrace and Spark both compute, and Spark's values."""
    case, answers = cases(family)
    rows, schema = input_of(case)
    refused = case["refused"]
    computed = [
        text for text in case["exprs"] if text not in refused and "error" not in answers[text]
    ]
    expressions = {text: typed(text, schema) for text in computed}
    return rows, expressions, {text: answers[text]["values"][0] for text in computed}


def wrong(
    result: pl.DataFrame, expressions: dict[str, AggregateExpression], values: dict[str, Any]
) -> list[str]:
    """Return the expressions whose value differs from Spark's."""
    found = []
    for text, expression in expressions.items():
        column = result[text]
        assert column.dtype == to_polars(expression.type), text
        ours, theirs = show(column, expression.type), values[text]
        if text.startswith(UNORDERED):
            ours, theirs = sorted(ours, key=repr), sorted(theirs, key=repr)
        if not same(ours, theirs):
            found.append(f"{text}: {ours!r}, spark {theirs!r}")
    return found


def show(column: pl.Series, type: Type) -> Any:
    """Return the first value of a column as Spark's record has it."""
    if is_shown_as_text(str(type)):
        return to_spark_text(column, type)[0]
    value = column[0]
    return encode(value.to_list() if isinstance(value, pl.Series) else value, str(type))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_aggregate_has_the_type_that_spark_gives(family: str) -> None:
    _, expressions, _ = answered(family)
    _, answers = cases(family)
    for text, expression in expressions.items():
        assert str(expression.type) == answers[text]["type"], text


@pytest.mark.parametrize("family", FAMILIES)
def test_every_aggregate_has_the_value_that_spark_gives(family: str) -> None:
    rows, expressions, values = answered(family)
    assert not (found := wrong(at_once(rows, expressions), expressions, values)), "\n".join(found)


@pytest.mark.parametrize("family", ["aggregates", "aggregates_few"])
@settings(max_examples=1, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_pieces_merged_in_any_order_give_the_same(family: str, seed: int) -> None:
    rows, expressions, values = answered(family)
    result = in_pieces(rows, expressions, random.Random(seed))
    assert not (found := wrong(result, expressions, values)), "\n".join(found)


def test_what_spark_refuses_is_refused_and_what_a_file_says_so() -> None:
    case, answers = cases("aggregates")
    _, schema = input_of(case)
    for text in case["exprs"]:
        if "error" in answers[text] or text in case["refused"]:
            with pytest.raises(ExpressionErrors) as error:
                typed(text, schema)
            assert case["refused"].get(text, "") in str(error.value), text
