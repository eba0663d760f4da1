"""A loop gives the same rows in a batch, round by round, as in a stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.core.api.failures import ConnectorError
from tests.support.spark.batches import batch, read_columns, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BY_ROW = """
name: loops
sources:
  rows: {generate: {rows: 12, columns: {k: id, n: id % 4}}}
  more: {generate: {rows: 6, columns: {k: id % 3, add: id % 2 + 1}}}
steps:
  tries:
    iterate:
      {from: rows, until: n > 5 or k = 7, feedback: once.again, rounds: true, max_rounds: 3}
  joined:
    join: {left: {from: tries.loop, as: one}, right: more, on: one.k % 3 = more.k}
    select: {k: one.k, n: one.n + more.add, rounds: one.rounds}
  once: {from: joined, route: {again: n <> 4}}
  leaving: {from: [tries, tries.over], with: {all: k}}
  aside: {from: once.else, with: {all: k}}
sinks:
  out: {from: leaving, files: {path: out, mode: overwrite}}
  aside_out: {from: aside, files: {path: aside, mode: overwrite}}
"""
ALL_ROWS = """
name: loops
sources:
  starts: {generate: {rows: 1, columns: {node: id}}}
  edges: {generate: {rows: 40, columns: {tail: id % 20, head: (id % 20 * 3 + id DIV 20) % 20}}}
steps:
  found: {iterate: {from: starts, feedback: neighbours, rounds: true, max_rounds: 1000}}
  nodes: {from: found.loop, dedup: {key: node, order: arrival}}
  neighbours:
    join: {left: {from: nodes, as: one}, right: edges, on: one.node = edges.tail}
    select: {node: edges.head, rounds: one.rounds}
sinks:
  out: {from: nodes, files: {path: out, mode: overwrite}}
"""


def run_both(spark: SparkSession, config: Path, folder: str, *columns: str) -> float:
    """Run a pipeline as a stream and as a batch, and compare; return the rounds of its loop."""
    stream(config)
    streamed = read_columns(config.parent / folder, *columns)
    assert streamed
    ((_, metrics),) = batch(spark, config).metrics.items()
    assert read_columns(config.parent / folder, *columns) == streamed
    return metrics.counters["rounds"]


def test_rows_that_leave_or_go_round_too_often(spark: SparkSession, tmp_path: Path) -> None:
    config = tmp_path / "loops.yaml"
    config.write_text(BY_ROW)
    rounds = run_both(spark, config, "out", "k", "n", "rounds")
    # The round in which nothing goes round any more is none.
    assert (rounds,) == max(read_columns(tmp_path / "out", "rounds"))
    assert rounds == 3
    stream(config)
    streamed = read_columns(tmp_path / "aside", "k", "n", "rounds")
    batch(spark, config)
    assert read_columns(tmp_path / "aside", "k", "n", "rounds") == streamed != []


def test_steps_with_state_see_the_rows_of_all_rounds(spark: SparkSession, tmp_path: Path) -> None:
    config = tmp_path / "loops.yaml"
    config.write_text(ALL_ROWS)
    rounds = run_both(spark, config, "out", "node")
    assert rounds == count_rounds()
    assert len(read_columns(tmp_path / "out", "node")) == 20


def count_rounds() -> int:
    """Count the rounds of ALL_ROWS: in the last one all nodes come that are found already."""
    found, last, rounds = {0}, {0}, 0
    while last:
        came = {(node * 3 + more) % 20 for node in last for more in (0, 1)}
        last, rounds = came - found, rounds + 1
        found |= came
    return rounds + 1


def test_a_row_that_does_not_leave_fails_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    config = tmp_path / "loops.yaml"
    text = BY_ROW.replace("from: [tries, tries.over]", "from: tries")
    config.write_text(text)
    with pytest.raises(ConnectorError, match="a row has come back 3 times and does not leave"):
        batch(spark, config)
