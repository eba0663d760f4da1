"""Spark's plan of a pipeline is shown in addition to headrace's."""

from __future__ import annotations

import json
import re
from pathlib import Path

from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from headrace.cli.main import headrace

PIPELINE = """
name: few
sources:
  numbers:
    generate: {rows: 10, columns: {n: id, half: id / 2}}
steps:
  sums: {from: numbers, where: n > 2, key: {even: n % 2}, aggregate: {total: sum(n)}}
sinks:
  out: {from: sums, files: {path: out}}
"""


def explained(tmp_path: Path, *options: str, text: str = PIPELINE) -> Result:
    file = tmp_path / "few.yaml"
    file.write_text(text, "utf-8")
    return CliRunner().invoke(headrace, ["explain", str(file), *options])


def test_spark_shows_what_is_its_own_and_what_is_ours(spark: SparkSession, tmp_path: Path) -> None:
    result = explained(tmp_path, "--batch")
    assert result.exit_code == 0, result.output
    said = result.output.partition("on Spark, for the sink out:\n")[2]
    assert "HashAggregate" in said
    assert "MapInArrow numbers(" in said
    assert not (tmp_path / "out").exists()


JOINED = """
name: few
sources:
  rows: {generate: {rows: 9, columns: {k: id, n: id}}}
  more: {generate: {rows: 9, columns: {k: id, add: id}}}
steps:
  joined:
    join: {left: {from: rows, as: one}, right: more, on: one.k = more.k}
    select: {k: more.k, add: more.add, n: one.n + more.add}
    where: one.n < more.add
sinks:
  out: {from: joined, files: {path: out}}
"""


def test_what_follows_a_join_runs_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    """There the columns have no name of a side before them, as they have in the file."""
    result = explained(tmp_path, "--batch", text=JOINED)
    said = result.output.partition("on Spark, for the sink out:\n")[2]
    assert re.findall(r"MapInArrow (\w+)", said) == ["rows", "more"]


def test_what_has_no_effect_on_spark_is_told(spark: SparkSession, tmp_path: Path) -> None:
    text = PIPELINE.replace("{from: sums,", "{from: sums, slot: files, chain: false,")
    result = explained(tmp_path, "--batch", text=f"{text}settings: {{workers: 2}}\n")
    assert (
        "    workers, slot and chain have no effect with --batch: Spark divides the work\n"
        in result.output
    )


def test_programs_find_spark_s_plans_by_sink(spark: SparkSession, tmp_path: Path) -> None:
    result = explained(tmp_path, "--batch", "--format", "json")
    assert list(json.loads(result.output)["spark"]) == ["out"]


def test_spark_has_no_plan_to_be_drawn(tmp_path: Path) -> None:
    result = explained(tmp_path, "--batch", "--format", "dot")
    assert result.exit_code == 2
    assert "Spark's plan is text: --batch has no --format dot" in result.output


def test_what_a_batch_refuses_is_not_explained(tmp_path: Path) -> None:
    result = explained(tmp_path, "--batch", text=PIPELINE.replace("rows: 10, ", ""))
    assert result.exit_code == 2
    assert "rows: 1000" in result.output
