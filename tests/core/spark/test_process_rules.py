"""A process class with broadcast rules that fail: the failures reported do not depend on rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.spark.batches import batch, read_columns, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASS = """
from headrace import Process, list_of, shared


class Heard(Process):
    heard = shared(list_of("bigint"))

    def on_rule(self, rule, state) -> None:
        state.heard.append(rule.n)
        if rule.n == 1:
            raise ValueError("not that")

    def on_row(self, row, state, out) -> None:
        out(row.n, str(list(state.heard)))
"""
PIPELINE = """
name: rules
sources:
  rows: {generate: {rows: 9, columns: {n: id, at: timestamp_seconds(id)}}, event_time: at}
  rules: {generate: {rows: 3, columns: {n: id, at: timestamp_seconds(id)}}, event_time: at}
steps:
  few: {from: rows, where: n > LEAST}
  step:
    from: few
    key: n
    broadcast: {rules: rules}
    process: {python: "heard.py:Heard", returns: {n: bigint, heard: string}}
    on_error: {to: bad}
sinks:
  out: {from: step, files: {path: out, mode: overwrite}}
  letters: {from: bad, files: {path: letters, mode: overwrite}}
"""


@pytest.mark.parametrize("least", [6, 100])
def test_a_failing_rule_is_reported_once_without_rows(
    spark: SparkSession, tmp_path: Path, least: int
) -> None:
    (tmp_path / "heard.py").write_text(CLASS)
    config = tmp_path / "rules.yaml"
    config.write_text(PIPELINE.replace("LEAST", str(least)))

    found = []
    for runs in (lambda: stream(config), lambda: batch(spark, config)):
        runs()
        found.append(
            (
                read_columns(tmp_path / "out", "n", "heard"),
                read_columns(tmp_path / "letters", "error", "raw"),
            )
        )
    assert found[0] == found[1]
    assert [len(each) for each in found[0]] == [2 if least == 6 else 0, 1]
