"""Columns may be called anything, also what means something else to Spark or to pyspark."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.cli.main import run_command_line

PIPELINE = """
name: names
sources:
  rows: {files: {path: in.jsonl}, schema: {id: bigint, NAME: string}}
steps:
  logs: {from: rows, with: {l: ln(id)}}
  counts: {from: rows, key: NAME, window: {count: 2}, aggregate: {n: count(*)}}
sinks:
  out: {from: logs, files: {path: out}}
  counted: {from: counts, files: {path: counted}}
"""


@pytest.mark.parametrize("name", ["a.b", "a`b", "a b", "_metadata", "é"])
def test_a_column_of_any_name_goes_through(spark: SparkSession, tmp_path: Path, name: str) -> None:
    (tmp_path / "in.jsonl").write_text(
        "".join(json.dumps({"id": 1, name: "x"}) + "\n" for _ in range(2)), "utf-8"
    )
    file = tmp_path / "names.yaml"
    file.write_text(PIPELINE.replace("NAME", json.dumps(name, ensure_ascii=False)), "utf-8")
    home = ["--home", str(tmp_path / "home")]
    with ExitStack() as lasting:
        assert run_command_line(["run", str(file), "--batch", "--quiet", *home], lasting) == 0
    assert rows(tmp_path / "out") == [{"id": 1, name: "x", "l": 0.0}] * 2
    assert rows(tmp_path / "counted") == [{name: "x", "n": 2}]


def rows(folder: Path) -> list[dict[str, object]]:
    lines = (line for part in folder.glob("part-*") for line in part.read_text().splitlines())
    return [json.loads(line) for line in lines]
