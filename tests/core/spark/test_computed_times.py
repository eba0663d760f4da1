"""Event times as expressions are the same in a batch as in a stream, in sources and in steps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.spark.batches import batch, read_columns, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """
name: times
sources:
  rows:
    generate: {rows: 30, columns: {n: id, ms: "nullif(id * 1500 % 60000, 3000)"}}
    on_error: {to: bad}
    SOURCE
steps:
  picked: {from: rows, where: n <> 4, select: [n, ms], STEP}
  counts:
    from: picked
    window: {tumble: 10s}
    aggregate: {n: count(*), top: max(n)}
    extend: {both: "to_json(named_struct('at', window_start, 'twice', n * 2))"}
sinks:
  out: {from: counts, files: {path: out, mode: overwrite}}
  letters: {from: bad, files: {path: letters, mode: overwrite}}
"""


@pytest.mark.parametrize(
    ("source", "step"),
    [
        ("event_time: timestamp_millis(ms)", "trace: false"),
        ("", "event_time: timestamp_millis(ms), watermark: {delay: 1m}"),
    ],
)
def test_the_windows_and_bad_records_are_the_same(
    spark: SparkSession, tmp_path: Path, source: str, step: str
) -> None:
    config = tmp_path / "times.yaml"
    delay = f"{source}\n    watermark: {{delay: 1m}}" if source else "# none"
    config.write_text(PIPELINE.replace("SOURCE", delay).replace("STEP", step))
    found = []
    for run in (lambda: stream(config), lambda: batch(spark, config)):
        run()
        found.append(
            (
                read_columns(tmp_path / "out", "n", "top", "both"),
                read_columns(tmp_path / "letters", "error", "raw"),
            )
        )
    assert found[0] == found[1]
    assert sum(int(str(row[0])) for row in found[0][0]) == 28
    assert found[0][1] == [("the event time timestamp_millis(ms) is null", '{"n":2,"ms":null}')]
