"""Expressions that fail, fail the same rows in a batch as in a stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.spark.batches import batch, read_columns, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """
name: bounded
settings: {max_value: 1000B}
sources:
  rows: {generate: {rows: 9, columns: {n: "cast(if(id = 3, 1000000000, id) as int)"}}}
steps:
  step: {from: rows, CLAUSES, on_error: {to: bad}}
sinks:
  out: {from: step, files: {path: out, mode: overwrite}}
  letters: {from: bad, files: {path: letters, mode: overwrite}}
"""


@pytest.mark.parametrize(
    "clauses",
    [
        "select: {n: n, value: \"repeat('ab', n)\"}",
        "key: n, aggregate: {value: \"max(repeat('ab', n))\"}",
        "key: {value: \"repeat('ab', n)\"}, aggregate: {n: max(n)}",
        "select: {n: n, value: \"if(n > 99, raise_error('large'), n)\"}",
        'where: "n = 0 or assert_true(n < 99) is null", select: {n: n, value: n}',
        "key: n, aggregate: {value: \"sum(if(n > 99, raise_error('large'), n))\"}",
        "key: {value: \"if(n > 99, raise_error('large'), n)\"}, aggregate: {n: max(n)}",
        *(
            f"key: n, window: global, aggregate: {results}"
            for results in (
                '{value: sum(n)}, having: "assert_true(value < 99) is null"',
                "{value: \"if(max(n) > 99, raise_error('large'), max(n))\"}",
            )
        ),
        'with: {a: "array(n, 5)"}, select: {n: n, value: "element_at(a, if(n > 9, 0, 1))"}',
    ],
)
def test_the_same_rows_fail(spark: SparkSession, tmp_path: Path, clauses: str) -> None:
    config = tmp_path / "bounded.yaml"
    config.write_text(PIPELINE.replace("CLAUSES", clauses))

    found = []
    for runs in (lambda: stream(config), lambda: batch(spark, config)):
        runs()
        found.append(
            (
                read_columns(tmp_path / "out", "n", "value"),
                read_columns(tmp_path / "letters", "error", "raw"),
            )
        )
    assert found[0] == found[1]
    assert [json.loads(str(raw))["n"] for _, raw in found[0][1]] == [1000000000]


def test_a_failure_of_a_batch_names_the_step_the_expression_and_the_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = tmp_path / "bounded.yaml"
    clauses = "select: {n: n, value: \"if(n > 99, raise_error('large'), n)\"}"
    text = PIPELINE.replace("CLAUSES", clauses).replace(", on_error: {to: bad}", "")
    config.write_text(text[: text.index("  letters:")])
    message = r"raise_error: large \(in column .{1,3}value.{1,3}, in the row {'n': 1000000000}\)"
    with pytest.raises(Exception, match=message):
        batch(spark, config)


JOIN = """
name: joined
sources:
  rows: {generate: {rows: 9, columns: {n: "cast(id as int)"}}}
  others: {generate: {rows: 9, columns: {m: "cast(id + 2 as int)"}}}
steps:
  step:
    join: {left: rows, right: others, on: "ON"}
    select: {n: n, value: m}
    on_error: {to: bad}
sinks:
  out: {from: step, files: {path: out, mode: overwrite}}
  letters: {from: bad, files: {path: letters, mode: overwrite}}
"""


@pytest.mark.parametrize(
    "on",
    [
        "if(rows.n = 5, raise_error('n'), rows.n) = if(others.m = 4, raise_error('m'), others.m)",
        "rows.n = others.m and (rows.n <> 6 or raise_error('six'))",
    ],
)
def test_the_same_rows_and_pairs_of_a_join_fail(
    spark: SparkSession, tmp_path: Path, on: str
) -> None:
    config = tmp_path / "joined.yaml"
    config.write_text(JOIN.replace("ON", on))
    found = []
    for runs in (lambda: stream(config), lambda: batch(spark, config)):
        runs()
        letters = read_columns(tmp_path / "letters", "error", "raw")
        found.append((read_columns(tmp_path / "out", "n", "value"), letters))
    assert found[0] == found[1]
    assert len(found[0][0]) >= 5 and found[0][1]
