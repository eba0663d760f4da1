"""The 366 expressions that defined the semantics: each has the result that Spark has.

`semantics/not_reached.json` lists those that are refused so far, each with words of the message; an
expression that becomes reachable must leave the list. Every expression is evaluated over several
rows, because a literal that works alone may fail with columns.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from headrace.core.expressions import ExpressionErrors, to_expr, type_expression
from headrace.core.types.data_types import Schema
from tests.support.spark_text import spark_text

HERE = Path(__file__).parent / "semantics"
CASES = json.loads((HERE / "spark_expressions.json").read_text())
NOT_REACHED = json.loads((HERE / "not_reached.json").read_text())
FRAME = pl.DataFrame({"__row": [1, 2, 3]})

# Aggregates and orders are held against Spark where they are defined, not as expressions.
EXPRESSIONS = [text for text in CASES if not text.startswith(("AGG ", "ORDER ", "GROUP "))]

# By decision: a zone's name and a time of day alone are NULL until the issue that brings every
# function.
DECIDED = {
    "cast('12:30' as timestamp) is null": "true",
}


@pytest.mark.parametrize("text", [text for text in EXPRESSIONS if text not in NOT_REACHED])
def test_an_expression_means_what_spark_measured(text: str) -> None:
    value, type = CASES[text]["false"]
    if value.startswith("ERR"):
        with pytest.raises(ExpressionErrors):
            type_expression(text, Schema(()))
        return
    typed = type_expression(text, Schema(()))
    results = FRAME.with_columns(to_expr(typed).alias("r"))["r"].to_list()
    shown = {spark_text(result, typed.type) for result in results}
    assert shown == {DECIDED.get(text, value)}
    assert str(typed.type) == type


@pytest.mark.parametrize("text", NOT_REACHED)
def test_what_is_not_reached_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ExpressionErrors) as raised:
        type_expression(text, Schema(()))
    assert NOT_REACHED[text] in str(raised.value)


def test_the_list_holds_only_measured_expressions() -> None:
    assert set(NOT_REACHED) <= set(EXPRESSIONS)
