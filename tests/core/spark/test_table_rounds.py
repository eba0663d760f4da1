"""A table that is computed in rounds is the same in a batch as in a stream."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.core.api.failures import ConnectorError
from tests.support.cli.command_line import Headrace
from tests.support.spark.batches import batch, read_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RANKING = """
name: ranking
sources:
  pages: {generate: {rows: 7, columns: {page: id}}}
  links: {generate: {rows: 17, columns: {page: id % 7, target: (id * id + 1) % 5}}}
steps:
  start: {from: pages, select: {page: page, rank: 1000L}}
  ranks: {iterate: {bulk: start, body: next, ROUNDS}}
  shares:
    join: {left: {from: ranks.loop, as: one}, right: links, on: one.page = links.page}
    select: {page: links.target, rank: one.rank div 4}
  next: {from: shares, key: page, aggregate: {rank: 10 + sum(rank)}}
sinks:
  out: {from: ranks, files: {path: out, mode: overwrite}}
"""


def run_stream(headrace: Headrace, config: Path) -> Mapping[str, object]:
    """Run a pipeline as a stream; return the figures of its loops, without times."""
    ran = headrace("run", str(config), "--fresh", "--log", "json")
    assert ran.status == 0, ran.err
    summary = json.loads(ran.err.splitlines()[-1])
    rounds, parts = summary["rounds"], summary["parts"]
    return {name: list_figures(parts[name]["metrics"], rounds[name]) for name in rounds}


def run_batch(spark: SparkSession, config: Path) -> Mapping[str, object]:
    """Run a pipeline as a batch; return the figures of its loops, without times."""
    metrics = batch(spark, config).metrics.items()
    return {name: list_figures(each.list_all(), each.list_rounds()) for name, each in metrics}


def list_figures(
    metrics: Mapping[str, float], rounds: Sequence[Mapping[str, float]]
) -> list[tuple[str, float]]:
    """Return the names and values of all figures but times."""
    figures = ((name, value) for each in (metrics, *rounds) for name, value in each.items())
    return [(name, value) for name, value in figures if not name.endswith("seconds")]


def compute(rounds: int, below: int) -> list[tuple[int, int]]:
    """Compute the ranks by a loop in Python."""
    ranks = dict.fromkeys(range(7), 1000)
    for _ in range(rounds):
        before, ranks = ranks, {}
        for link in range(17):
            if link % 7 in before:
                target = (link * link + 1) % 5
                ranks[target] = ranks.get(target, 10) + before[link % 7] // 4
        if before == ranks:
            break
        changes = [abs(ranks[page] - before[page]) for page in ranks if page in before]
        if max(changes, default=below) < below:
            break
    return sorted(ranks.items())


UNTIL = "rounds: 100, key: page, until: max(abs(rank - before.rank)) < 60"


@pytest.mark.parametrize(
    ("keys", "rounds", "below", "page"),
    [
        ("rounds: 1", 1, 0, "page"),
        ("rounds: 3", 3, 0, "key"),
        ("rounds: 100", 100, 0, "page"),
        (UNTIL, 100, 60, "round"),
    ],
)
def test_the_ranks_are_those_of_a_loop_in_python(
    spark: SparkSession,
    headrace: Headrace,
    tmp_path: Path,
    keys: str,
    rounds: int,
    below: int,
    page: str,
) -> None:
    """Their column has the name `page`, which may be that of a function or a key."""
    config = tmp_path / "p.yaml"
    config.write_text(re.sub(r"\bpage\b", page, RANKING.replace("ROUNDS", keys)))
    wanted = compute(rounds, below)
    metrics = run_stream(headrace, config)
    assert sorted(read_columns(tmp_path / "out", page, "rank")) == wanted
    assert run_batch(spark, config) == metrics
    assert sorted(read_columns(tmp_path / "out", page, "rank")) == wanted


HOPS = """
name: hops
sources:
  starts: {generate: {rows: 2, columns: {node: id * 40, hops: 0L, seen: "map('at', id)"}}}
  links: {generate: {rows: 60, columns: {node: id % 30, target: (id * id + 7) % 41}}}
steps:
  first: {from: starts, where: node = 0}
  hops: {iterate: {delta: {solution: starts, workset: first, key: node}, body: nearer, ENDS}}
  moved:
    join: {left: {from: hops.workset, as: one}, right: links, on: one.node = links.node}
    select: {node: links.target, hops: one.hops + 1}
  least: {from: moved, key: node, aggregate: {hops: min(hops)}}
  nearer:
    join:
      left: {from: least, as: one}
      right: {from: hops.solution, as: old}
      on: one.node = old.node
      type: left
    where: old.hops is null or one.hops < old.hops
    select: {node: one.node, hops: one.hops, seen: old.seen}
sinks:
  out: {from: hops, files: {path: out, mode: overwrite}}
"""


def count_hops(rounds: int) -> list[tuple[int, int]]:
    """Compute the least numbers of links from node 0 by a loop in Python."""
    hops, workset = {0: 0, 40: 0}, {0}
    for number in range(1, rounds + 1):
        moved = {(link * link + 7) % 41 for link in range(60) if link % 30 in workset}
        workset = {node for node in moved if hops.get(node, number + 1) > number}
        hops.update(dict.fromkeys(workset, number))
    return sorted(hops.items())


@pytest.mark.parametrize(
    ("ends", "rounds", "node", "partitions"),
    [
        ("max_rounds: 3", 3, "node", 2),
        ("max_rounds: 100, until: 'max(hops - coalesce(before.hops, 0)) = 4'", 4, "count", 3),
    ],
)
def test_the_hops_are_those_of_a_loop_in_python(
    spark: SparkSession,
    headrace: Headrace,
    tmp_path: Path,
    ends: str,
    rounds: int,
    node: str,
    partitions: int,
) -> None:
    """With more partitions than cores Spark plans adaptively, and shuffles in each round."""
    config = tmp_path / "p.yaml"
    config.write_text(HOPS.replace("ENDS", ends).replace("node", node))
    wanted = count_hops(rounds)
    metrics = run_stream(headrace, config)
    assert sorted(read_columns(tmp_path / "out", node, "hops")) == wanted
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    try:
        assert run_batch(spark, config) == metrics
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", 2)
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    assert sorted(read_columns(tmp_path / "out", node, "hops")) == wanted


NULL_KEYS = """
name: nulls
sources:
  rows: {generate: {rows: 4, columns: {k: "if(id = 3, null, id)", n: id}}}
steps:
  some: {iterate: {delta: {solution: rows, workset: rows, key: k}, body: more, max_rounds: 3}}
  more: {from: some.workset, where: k is null or k > 0, select: {k: k, n: n + 1}}
  all: {iterate: {bulk: rows, body: next, rounds: 3, key: k, until: count(before.n) < 4}}
  next: {from: all.loop, select: {k: k, n: n + 1}}
sinks:
  some_out: {from: some, files: {path: some, mode: overwrite}}
  all_out: {from: all, files: {path: all, mode: overwrite}}
"""


def test_a_key_may_be_null(spark: SparkSession, headrace: Headrace, tmp_path: Path) -> None:
    config = tmp_path / "p.yaml"
    config.write_text(NULL_KEYS)
    found = []
    for run in (partial(run_stream, headrace), partial(run_batch, spark)):
        found.append(run(config))
        assert read_columns(tmp_path / "some", "n") == [(0,), (4,), (5,), (6,)]
        assert read_columns(tmp_path / "all", "n") == [(3,), (4,), (5,), (6,)]
    assert found[0] == found[1]


BULK_OF_A_KEY = """\
name: t
sources:
  starts: {generate: {rows: 2, columns: {node: id * 0, hops: id}}}
steps:
  best: {iterate: {bulk: starts, body: next, rounds: 3, key: node, until: max(before.hops) > 1}}
  next: {from: best.loop, select: {node: node, hops: hops + 1}}
sinks:
  out: {from: best, files: {path: out}}
"""


def test_before_needs_one_row_of_each_key(spark: SparkSession, tmp_path: Path) -> None:
    config = tmp_path / "p.yaml"
    config.write_text(BULK_OF_A_KEY)
    message = 'in round 1, two rows of "starts" have the same key, node: 0'
    with pytest.raises(ConnectorError, match=message):
        batch(spark, config)


def test_two_rows_with_one_key_fail_by_name(spark: SparkSession, tmp_path: Path) -> None:
    config = tmp_path / "p.yaml"
    config.write_text(HOPS.replace("ENDS", "max_rounds: 3").replace("id * 40", "id * 0"))
    message = 'in round 1, two rows of "starts" have the same key, node: 0'
    with pytest.raises(ConnectorError, match=message):
        batch(spark, config)
