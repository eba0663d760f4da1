"""Columns over the rows of a key have the values of Spark's window functions."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl

from headrace.core.aggregates.over_calls import type_over
from headrace.core.expressions.parsing.frame_parser import parse_framed_expression
from headrace.core.operators.over import OverOperator
from headrace.core.plan.nodes import Over, OverColumn
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import MAX_WATERMARK_US
from tests.support.runtime.changelogs import computed, place, schema_of, timed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = schema_of(k="int", n="int", v="bigint", x="double", d="decimal(10,2)", s="string")
BY_ROW = (
    *("row_number()", "lag(v)", "lag(s, 2, 'none')", "lead(x)", "lead(v, 3, n)", "lag(v, -1)"),
    "sum(d) over (rows 2 preceding)",
    "avg(x) over (rows between 1 preceding and 1 following)",
    "min(s) over (rows between unbounded preceding and 1 preceding)",
    "count(v) over (rows between 1 following and 2 following)",
    "first_value(s) over (rows 1 preceding)",
    "nth_value(v, 2) over (rows between unbounded preceding and current row)",
    "last_value(v, true) over (rows between unbounded preceding and current row)",
)
"""Functions for which rows of the same time have an order."""
BY_TIME = (
    *("rank()", "dense_rank()", "sum(v)", "count(*)", "avg(d)", "max(x)"),
    "sum(v) over (range interval 3 seconds preceding)",
    "avg(v) over (range between interval 3 seconds preceding and interval 1 second preceding)",
    "min(x) over (range between current row and interval 2 seconds following)",
    "count(s) over (range between unbounded preceding and interval 1 second following)",
)


def test_values_are_those_of_window_functions(quick: SparkSession) -> None:
    chance = random.Random(5)
    rows = [
        (
            chance.choice([1, 2, None]),
            number,
            chance.choice([None, *range(-9, 9), 2**62]),
            chance.choice([None, 0.5, -2.25, float("nan"), float("inf")]),
            chance.choice([None, Decimal("1.25"), Decimal("-99999999.99")]),
            chance.choice([None, "", "a", "ä"]),
        )
        for number in range(60)
    ]
    seconds = sorted(chance.randrange(25) for _ in rows)
    frame = pl.DataFrame(rows, {f.name: to_polars(f.type) for f in SCHEMA}, orient="row")
    columns = tuple(
        OverColumn(f"c{at}", type_over(parse_framed_expression(text), SCHEMA), text)
        for at, text in enumerate((*BY_ROW, *BY_TIME))
    )
    over = OverOperator(Over(computed(SCHEMA, "k"), columns, SCHEMA), place())
    outs = []
    for start in range(0, 60, 7):
        piece = timed(frame, seconds, ordered=True)[start : start + 7]
        outs += [*over.process(piece), *over.advance(seconds[start] * 1_000_000)]
    outs += over.advance(MAX_WATERMARK_US)
    found = pl.concat(out for _, out in outs).sort("n").select(column.name for column in columns)

    begin = datetime(1970, 1, 1, tzinfo=UTC)
    table = [(*r, begin + timedelta(seconds=at)) for r, at in zip(rows, seconds, strict=True)]
    types = ", ".join(f"{field.name} {field.type}" for field in SCHEMA)
    quick.createDataFrame(table, f"{types}, at timestamp").createOrReplaceTempView("ordered_rows")
    written = (_to_spark(text, "at, n") for text in BY_ROW)
    texts = (*written, *(_to_spark(text, "at") for text in BY_TIME))
    wanted = quick.sql(f"select n, {', '.join(texts)} from ordered_rows").collect()
    for mine, (number, *theirs) in zip(found.rows(), sorted(wanted), strict=True):
        assert list(map(repr, mine)) == list(map(repr, theirs)), number


def _to_spark(text: str, order: str) -> str:
    """Return the call with its groups and order."""
    call, _, frame = text.partition(" over (")
    return f"{call} over (partition by k order by {order} {frame.removesuffix(')')})"
