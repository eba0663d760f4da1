"""Values above `settings.max_value` fail the same rows in a batch as in a stream."""

from __future__ import annotations

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
    assert [raw for _, raw in found[0][1]] == ['{"n":1000000000}']
