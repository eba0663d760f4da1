"""Which expressions Spark runs by itself, and what it is given for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from headrace.core.expressions import to_expr, type_expression
from headrace.core.expressions.typed import NO_SPARK_FORM
from headrace.core.plan.nodes import ComputedColumn
from headrace.core.spark.expressions import (
    translate_column,
    translate_expression,
    try_analysis,
    types_match,
)
from headrace.core.types.data_types import (
    BIGINT,
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
from tests.support.paths import ROOT
from tests.support.spark.batches import Output, batch, stream
from tests.support.spark.expression_generator import ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = (
    "i",
    "I",
    "a b",
    "a.b",
    "tick`s",
    "größe",
    "select",
    "from",
    "date",
    "current_date",
    "null",
)
SCHEMA = Schema(
    (
        *(Field(name, INT) for name in NAMES),
        *(Field("x", DOUBLE), Field("s", STRING), Field("d", DATE), Field("t", TIMESTAMP)),
        *(Field("m", Decimal(38, 2)), Field("b", Struct((Field("c d", INT),)))),
    )
)


def said(text: str) -> str | None:
    return translate_expression(text, type_expression(text, SCHEMA))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "i + 1",
            "`a b` * 2",
            "case when x > 1 then 'a' end",
            "i in (1, 2)",
            "upper(s) like 'A%'",
        ),
        *("year(d)", "date_add(d, i)", "round(x, 2)", "cast(x as int)", "cast(s as date)"),
        *("t > '2024-01-01 00:00:00'", "t > date '2024-01-01'", "extract(hour from t)"),
    ],
)
def test_what_means_the_same_stands_as_it_was_written(text: str) -> None:
    assert said(text) == text


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("t + interval 1 hour", "try_add(t, interval 1 hour)"),
        ("hour( t - interval 1 day ) + i", "hour( try_subtract(t, interval 1 day) ) + i"),
        ("(i >> 1)", "shiftright(i, 1)"),
        (
            "date_trunc('day', t)",
            "if(unix_micros(timestamp(t)) >= -9223372022400000000L, date_trunc('day', t), null)",
        ),
        (
            "t + interval 1 day > t - interval 1 day and i = 1",
            "try_add(t, interval 1 day) > try_subtract(t, interval 1 day) and i = 1",
        ),
    ],
)
def test_what_would_fail_a_job_has_a_form_that_does_not(text: str, form: str) -> None:
    assert said(text) == form


@pytest.mark.parametrize(
    "text",
    [
        *("exp(x)", "pow(x, 2) > 1", "ln(x)"),  # differ in the last place
        *("make_timestamp(i, 1, 1, 1, 1, 1)", "add_months(d, i)", "hour(d)", "d > t"),
        *("round(m, 1)", "cast(x as decimal(10,2))", "cast(s as timestamp)", "to_date(s, 'D')"),
        *("nullif(d, t)", "d between t and t", "case d when t then 1 when t then 2 end"),
        *("current_timestamp() > t", "unix_timestamp()", "lower(upper(s))"),
        "left(s, cast(round(cast(1 as decimal(38,0)), 1) as int))",
        *("cast(map(i, x'ff') as string)", "cast(map('a', x) as string)"),
    ],
)
def test_what_does_not_mean_the_same_is_left_to_our_operators(text: str) -> None:
    assert said(text) is None


def test_text_may_follow_a_comment() -> None:
    assert said("1 -- note") == "1 -- note\n"
    assert said("i + -- note\n 1") == "i + -- note\n 1\n"


def test_every_name_and_text_is_read_alike(spark: SparkSession) -> None:
    quoted = {name: f"`{name.replace('`', '``')}`" for name in NAMES}
    texts = [
        *quoted.values(),
        *("i + I", "date + 1", "current_date + 1", "`null` + 1", "`a.b` + 1 -- a note"),
        *("null + 1", "'it''s' || 'a' 'b'", r"'\'' || '\u00e9'", '"x"', r"r'\d'", "'${s}'"),
        *("/* a */ i", "-i", "- -i", "i+-1", "2-1", "not i > 1 or x > 1", "i = 1 = true"),
        *("1e3", "1.", ".5", "1D", "1.5BD", "i * 2 div 3", "i | 2 ^ 3 & 1", "b.`c d`"),
    ]
    frame = pl.DataFrame(
        {name: pl.Series([at, at + 1], dtype=pl.Int32) for at, name in enumerate(NAMES, 1)}
    ).with_columns(x=1.5, s=pl.lit("Straße"), b=pl.struct(pl.lit(7, pl.Int32).alias("c d")))
    schema = Schema(tuple(field for field in SCHEMA if field.name in frame.columns))
    typed = [(t, type_expression(t, schema)) for t in texts]
    rows = spark.createDataFrame(frame.to_arrow())
    from pyspark.sql.functions import expr

    shown = rows.select(
        *(
            expr(translate_expression(t, each) or "").alias(f"c{i}")
            for i, (t, each) in enumerate(typed)
        )
    )
    assert types_match(shown, {f"c{i}": each.type for i, (_, each) in enumerate(typed)})
    theirs = pl.from_arrow(shown.toArrow())
    ours = frame.select(to_expr(each).alias(f"c{i}") for i, (_, each) in enumerate(typed))
    assert isinstance(theirs, pl.DataFrame)
    assert theirs.rows() == ours.rows()


def test_a_column_as_it_is_goes_by_its_very_name() -> None:
    as_it_is = ComputedColumn("n", type_expression("`tick``s`", SCHEMA))
    assert translate_column(as_it_is) == "`tick``s`"


def test_an_expression_reads_the_columns_of_the_input_and_not_its_neighbours(
    spark: SparkSession,
) -> None:
    from pyspark.sql.functions import expr

    rows = spark.range(1).selectExpr("1 as a", "2 as b")
    shown = rows.select(expr("a + 10").alias("b"), expr("b + 100").alias("c"))
    assert [tuple(row) for row in shown.collect()] == [(11, 102)]


def test_rows_of_another_type_or_name_are_noticed(spark: SparkSession) -> None:
    rows = spark.sql("select 1 as a, array(named_struct('n', 1.50)) as b")
    struct = Array(Struct((Field("n", Decimal(3, 2), nullable=False),)))
    assert types_match(rows, {"a": INT, "b": struct})
    assert not types_match(rows, {"a": BIGINT, "b": struct})
    assert not types_match(rows, {"A": INT, "b": struct})
    assert not types_match(rows, {"b": struct, "a": INT})
    assert not types_match(spark.sql("select interval 1 day as a"), {"a": INT})


def test_what_spark_does_not_take_is_left_to_our_operators(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = spark.range(1)
    text = "/* a /* b */ id"  # to Spark a comment may stand inside of a comment
    assert said(text.replace("id", "i")) is not None
    assert try_analysis(lambda: rows.where(f"{text} = 1")) is None
    assert try_analysis(lambda: rows.where("id = 1")) is not None
    assert capfd.readouterr().err == ""


def test_rules_that_change_results_are_off_across_steps(spark: SparkSession) -> None:
    rows = spark.sql("select 'ß' as s, 2147483647 as i, 9223372036854775807L as l").persist()
    first = rows.selectExpr("upper(s) as s", "float(i) as f", "l + 1 as l")
    then = first.selectExpr("lower(s)", "double(f)", "try_add(9223372036854775807L, l)")
    assert [tuple(row) for row in then.collect()] == [("ss", 2147483648.0, -1)]


def test_the_docs_name_every_function_that_spark_never_runs() -> None:
    never = {
        row.name
        for row in ROWS
        if row.overloads and all(o.spark == NO_SPARK_FORM for o in row.overloads)
    }
    docs = ROOT / "docs" / "batch.md"
    section = docs.read_text().partition("## What is exact: expressions")[2].partition("\n## ")[0]
    assert never == {name for name in never if f"`{name}`" in section}


ODD = """
name: odd
sources:
  rows:
    files: {path: rows.jsonl}
    format: json
    schema: {i: int, s: string, x: double, at: timestamp}
    event_time: at
steps:
  kept: {from: rows, where: "/* a /* b */ i > 0"}
  made:
    from: kept
    with: {y: "/* a /* b */ i * 2", e: "exp(x)", u: upper(s)}
    select:
      {i: i, l: lower(u), h: "date_trunc('HOUR', at) -- hour", e: e, y: y, d: at + interval 1 day}
  summed:
    from: made
    key: {k: "/* a /* b */ i % 2"}
    aggregate: {n: count(*), top: "max(/* a /* b */ i)"}
  dealt: {from: made, route: {odd: "/* a /* b */ i % 2 = 1", even: "i % 2 = 0 -- even"}}
sinks:
  a: {from: made, files: {path: made}}
  b: {from: summed, files: {path: summed}}
  c: {from: dealt.odd, files: {path: odd}}
  d: {from: dealt.even, files: {path: even}}
"""


def test_a_pipeline_of_odd_texts_gives_the_same_rows_in_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "odd.yaml"
    config.write_text(ODD)
    lines = (
        f'{{"i": {i}, "s": "Straße {i}", "x": {i / 7}, "at": "2024-02-29T10:{i:02}:00Z"}}\n'
        for i in range(-3, 30)
    )
    (tmp_path / "rows.jsonl").write_text("".join(lines).replace(":-", ":0"))
    stream(config)
    wanted = Output.taken(tmp_path, {"summed": ("k",)})
    batch(spark, config)
    assert Output.taken(tmp_path, {"summed": ("k",)}) == wanted
    assert sum(wanted.rows["odd"].values()) == 15
