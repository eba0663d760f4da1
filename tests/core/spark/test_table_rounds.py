"""A table that is computed in rounds is the same in a batch as in a stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.spark.batches import batch, read_columns, stream

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


@pytest.mark.parametrize(
    ("keys", "rounds", "below"),
    [
        ("rounds: 1", 1, 0),
        ("rounds: 3", 3, 0),
        ("rounds: 100", 100, 0),
        ("rounds: 100, key: page, until: max(abs(rank - before.rank)) < 60", 100, 60),
    ],
)
def test_the_ranks_are_those_of_a_loop_in_python(
    spark: SparkSession, tmp_path: Path, keys: str, rounds: int, below: int
) -> None:
    config = tmp_path / "p.yaml"
    config.write_text(RANKING.replace("ROUNDS", keys))
    wanted = compute(rounds, below)
    stream(config)
    assert sorted(read_columns(tmp_path / "out", "page", "rank")) == wanted
    batch(spark, config)
    assert sorted(read_columns(tmp_path / "out", "page", "rank")) == wanted
