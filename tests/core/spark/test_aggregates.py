"""Aggregates that are rewritten for Spark: the rewritten text has the value of the original.

Spark's answers to the others are recorded; tests/core/aggregates compares with them.
"""

from __future__ import annotations

from decimal import Decimal as PythonDecimal
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from headrace.core.aggregates import type_aggregate_text
from headrace.core.plan.nodes import AggregatedColumn
from headrace.core.spark.columns import format_ddl
from headrace.core.spark.expressions import translate_aggregate, types_match
from headrace.core.types.data_types import BIGINT, DOUBLE, Decimal, Field, Schema, to_polars
from headrace.core.types.elements import ORDER
from headrace.core.types.row_order import ORDER_TYPE
from tests.core.aggregates.test_spark_answers import answered
from tests.support.aggregation import FAMILIES, at_once, cases, input_of, same
from tests.support.spark.random_windows import physical, said
from tests.support.spark.sql_values import encode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.core.aggregates import AggregateExpression

AT_ONCE = 60


@pytest.mark.parametrize("family", FAMILIES)
def test_what_goes_by_order_is_what_a_stream_has(quick: SparkSession, family: str) -> None:
    _, expressions, _ = answered(family)
    rows, schema = input_of(cases(family)[0])
    columns = {text: each for text, each in expressions.items() if "void" not in str(each.type)}
    texts = {text: _sql(text, each) for text, each in columns.items()}
    rewritten = [text for text, given in texts.items() if given not in (None, text)]
    assert len(rewritten) > 100
    frame = _frame(quick, rows, schema)
    for start in range(0, len(rewritten), AT_ONCE):
        some = {text: expressions[text] for text in rewritten[start : start + AT_ONCE]}
        _held(frame, rows, some, {text: str(texts[text]) for text in some})


def test_averages_of_decimals_are_rounded_once(quick: SparkSession) -> None:
    money = Decimal(11, 2)
    schema = Schema((Field("d", money), Field("x", DOUBLE), Field("l", BIGINT)))
    values = ["99999999999", "99999999998", "99999999999", "3", "-7", "99999999990", "12345678905"]
    numbers = [0.0, -0.0, float("nan"), None, 0.0, -0.0, float("nan")]
    rows = pl.DataFrame(
        {
            "d": pl.Series([PythonDecimal(value).scaleb(-2) for value in values]),
            "x": numbers,
            "l": range(7),
            ORDER: range(7),
        },
        schema_overrides={"d": to_polars(money)},
    )
    texts = ["avg(d)", "avg(distinct d)", "avg(d) filter (where l > 3)", "collect_set(x)"]
    texts += ["count(distinct x)", "count(distinct x, l % 2)", "sum(d)", "max_by(l, x)"]
    expressions = {text: type_aggregate_text(text, schema, Schema(())) for text in texts}
    given = {text: str(_sql(text, each)) for text, each in expressions.items()}
    assert "12,2" in given["avg(d)"]
    _held(_frame(quick, rows, schema), rows, expressions, given)


def _sql(text: str, expression: AggregateExpression) -> str | None:
    return translate_aggregate(AggregatedColumn("a", expression, text), {})


def _frame(spark: SparkSession, rows: pl.DataFrame, schema: Schema) -> DataFrame:
    """The rows, with their place as a stream has it."""
    place = pl.struct(
        pl.lit(0, pl.Int64).alias("time"),
        pl.col(ORDER).alias("at"),
        pl.lit(0, pl.Int64).alias("part"),
    )
    columns = {**{field.name: field.type for field in schema}, ORDER: ORDER_TYPE}
    placed = rows.with_columns(place.cast(to_polars(ORDER_TYPE)).alias(ORDER)).select(*columns)
    return spark.createDataFrame(placed.to_arrow(), format_ddl(columns))


def _held(
    frame: DataFrame,
    rows: pl.DataFrame,
    expressions: dict[str, AggregateExpression],
    given: dict[str, str],
) -> None:
    """Spark gives what we give, of the same types."""
    from pyspark.sql import functions as f

    names = {f"a{at}": text for at, text in enumerate(expressions)}
    native = frame.groupBy().agg(*(f.expr(given[text]).alias(n) for n, text in names.items()))
    types = {name: expressions[text].type for name, text in names.items()}
    assert types_match(native, types)
    theirs = pl.from_arrow(native.toArrow())
    assert isinstance(theirs, pl.DataFrame)
    ours = at_once(rows, expressions)
    wrong = []
    for name, text in names.items():
        one, other = (_coded(each, types[name]) for each in (theirs[name], ours[text]))
        if not same(one, other):
            wrong.append(f"{text}: spark {one}, ours {other}")
    assert not wrong, "\n".join(wrong)


def _coded(value: pl.Series, type: Any) -> Any:
    return encode(value.cast(physical(type)).to_list()[0], said(type))
