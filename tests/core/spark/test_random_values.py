"""Random values in a batch: the same at each run, and the same as in a stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from tests.support.spark.batches import batch, read_columns, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """
name: random
settings: {parallelism: 2}
sources:
  rows: {files: {path: in}, format: parquet, schema: {n: bigint}}
steps:
  some: {from: rows, where: n % 3 > 0}
  step:
    from: some
    where: rand() < 0.7
    select: {n: n, value: rand(), id: uuid(), text: "randstr(3)", three: "uniform(1, 4)"}
sinks:
  out: {from: step, files: {path: out, mode: overwrite}}
"""


def test_rows_have_the_same_values_in_batches_and_streams(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = tmp_path / "random.yaml"
    config.write_text(PIPELINE)
    (tmp_path / "in").mkdir()
    for at in range(3):
        numbers = pl.DataFrame({"n": range(at * 50, at * 50 + 50)})
        numbers.write_parquet(tmp_path / "in" / f"{at}.parquet")
    found = []
    for runs in (
        lambda: stream(config),
        lambda: batch(spark, config),
        lambda: batch(spark, config),
    ):
        runs()
        found.append(read_columns(tmp_path / "out", "n", "value", "id", "text", "three"))
    assert found[0] == found[1] == found[2]
    assert 50 < len(found[0]) < 90
