"""Generators in `explode` make the same rows in a batch as in a stream, in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.spark.batches import batch, read_columns, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """
name: generators
sources:
  rows:
    generate:
      rows: 5
      columns:
        id: id
        items: "case when id = 1 then null when id = 2 then slice(array(id), 1, 0)
          else array(id, null, 7) end"
steps:
  step: {from: rows, explode: "CLAUSE", select: {id: id, value: "to_json(struct(COLUMNS))"}}
sinks:
  out: {from: step, files: {path: out, mode: overwrite}}
"""


@pytest.mark.parametrize(
    ("clause", "columns"),
    [
        ("explode_outer(items)", "col"),
        ("posexplode( slice(items, 1, 2) ) as (`a b`, c)", "`a b`, c"),
        ("posexplode_outer(items)", "pos, col"),
        ("inline(array(named_struct('p', id, 'q', items), null))", "p, q"),
        ("inline_outer(if(id > 2, array(named_struct('p', id + 1)), null))", "p"),
        ("stack(2, id, 'x', 5L)", "col0, col1"),
        ("posexplode_outer(if(id < 3, map('a', id), null))", "pos, key, value"),
        ("json_tuple(to_json(struct(id, items)), 'items', 'id')", "c0, c1"),
        ("explode(array(hour(current_timestamp()) < 24)) as now", "now"),
    ],
)
def test_a_generator_makes_the_same_rows(
    spark: SparkSession, tmp_path: Path, clause: str, columns: str
) -> None:
    config = tmp_path / "generators.yaml"
    config.write_text(PIPELINE.replace("CLAUSE", clause).replace("COLUMNS", columns))
    found = []
    for run in (lambda: stream(config), lambda: batch(spark, config)):
        run()
        found.append(read_columns(tmp_path / "out", "id", "value"))
    assert found[0] == found[1]
    assert len(found[0]) > 2
