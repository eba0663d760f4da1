"""Loops on Spark, compared with the same loops written for PySpark by hand: ratios of their times.

Both run in one session on two cores, from Parquet to Parquet, in turn. A ranking of pages runs as
`bulk`, and the connected components of a random graph as `delta`. The programs by hand cut the
lineage in each round, and ask whether a round was the last one. On stderr, the seconds of both.
All loops run once before, since Java compiles what it runs for the first time.
`python -m benchmarks.spark_loops [THOUSANDS OF LINKS] [ROUNDS]`
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from headrace.core.spark.session import open_session
from tests.support.spark.batches import batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCES = """\
name: loops
sources:
  nodes: {files: {path: nodes.parquet}, format: parquet, schema: {id: bigint}}
  links: {files: {path: links.parquet}, format: parquet, schema: {one: bigint, other: bigint}}
"""
RANKING = """\
steps:
  start: {from: nodes, select: {id: id, rank: 1D}}
  ranks:
    iterate:
      {bulk: start, body: next, rounds: 10, key: id, until: max(abs(rank - before.rank)) < 1e-9}
  counts: {from: links, key: one, aggregate: {links: count(*)}}
  weighed:
    join: {left: {from: links, as: link}, right: counts, on: link.one = counts.one}
    select: {one: link.one, other: link.other, links: counts.links}
  given:
    join: {left: {from: ranks.loop, as: node}, right: weighed, on: node.id = weighed.one}
    select: {id: weighed.other, share: node.rank * 0.85D / weighed.links}
  bases: {from: nodes, select: {id: id, share: 0.15D}}
  shares: {from: [given, bases]}
  next: {from: shares, key: id, aggregate: {rank: sum(share)}}
sinks: {out: {from: ranks, files: {path: out, mode: overwrite}, format: parquet}}
"""
COMPONENTS = """\
steps:
  start: {from: nodes, select: {id: id, least: id}}
  found:
    iterate: {delta: {solution: start, workset: start, key: id}, body: smaller, max_rounds: 100}
  back: {from: links, select: {one: other, other: one}}
  ways: {from: [links, back]}
  sent:
    join: {left: {from: found.workset, as: node}, right: ways, on: node.id = ways.one}
    select: {id: ways.other, least: node.least}
  offers: {from: sent, key: id, aggregate: {least: min(least)}}
  smaller:
    join: {left: offers, right: {from: found.solution, as: old}, on: offers.id = old.id}
    where: offers.least < old.least
    select: {id: offers.id, least: offers.least}
sinks: {out: {from: found, files: {path: out, mode: overwrite}, format: parquet}}
"""


def rank(nodes: DataFrame, links: DataFrame) -> DataFrame:
    """Compute what RANKING does."""
    from pyspark.sql import functions as f

    shares = links.join(links.groupBy("one").agg(f.count("*").alias("links")), "one").persist()
    bases = nodes.select("id", f.lit(0.15).alias("share")).persist()
    ranks = nodes.withColumn("rank", f.lit(1.0)).localCheckpoint()
    for _ in range(10):
        given = ranks.join(shares, ranks.id == shares.one).select(
            f.col("other").alias("id"), (f.col("rank") * 0.85 / f.col("links")).alias("share")
        )
        after = given.union(bases).groupBy("id").agg(f.sum("share").alias("rank"))
        before, ranks = ranks.withColumnRenamed("rank", "was"), after.localCheckpoint()
        largest = ranks.join(before, "id", "left").agg(f.max(f.abs(f.col("rank") - f.col("was"))))
        found = largest.first()
        if found is None or found[0] < 1e-9:
            break
    return ranks


def connect(nodes: DataFrame, links: DataFrame) -> DataFrame:
    """Compute what COMPONENTS does."""
    from pyspark.sql import functions as f

    ways = links.union(links.select("other", "one")).persist()
    solution = workset = nodes.select("id", f.col("id").alias("least")).localCheckpoint()
    while True:
        sent = workset.join(ways, workset.id == ways.one)
        offers = sent.groupBy(f.col("other").alias("key")).agg(f.min("least").alias("offer"))
        known = solution.join(offers, solution.id == offers.key)
        smaller = known.where("offer < least").select("id", f.col("offer").alias("least"))
        workset = smaller.localCheckpoint()
        if workset.isEmpty():
            return solution
        others = solution.join(workset.select("id"), "id", "left_anti")
        solution = others.union(workset).localCheckpoint()


def write_graph(folder: Path, links: int) -> None:
    """Write a random graph with five links for each node."""
    chance, nodes = random.Random(1), max(links // 5, 1)
    pl.DataFrame({"id": range(nodes)}).write_parquet(folder / "nodes.parquet")
    ends = {n: [chance.randrange(nodes) for _ in range(links)] for n in ("one", "other")}
    pl.DataFrame(ends).write_parquet(folder / "links.parquet")


def run_by_hand(
    spark: SparkSession, folder: Path, compute: Callable[[DataFrame, DataFrame], DataFrame]
) -> None:
    """Run a program by hand, from Parquet to Parquet."""
    nodes, links = (spark.read.parquet(f"{folder}/{n}.parquet") for n in ("nodes", "links"))
    compute(nodes, links).write.mode("overwrite").parquet(f"{folder}/by_hand")
    spark.catalog.clearCache()


def get_cpu_s(spark: SparkSession) -> float:
    """Return the CPU seconds of this process and of Java so far."""
    java = spark.sparkContext._gateway
    assert java is not None
    fields = Path(f"/proc/{java.proc.pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def measure(
    spark: SparkSession, folder: Path, steps: str, by_hand: Callable[..., None]
) -> tuple[float, float]:
    """Return the ratios of the times by the clock and of CPU, and print the times."""
    config = folder / "p.yaml"
    config.write_text(SOURCES + steps)
    began = time.perf_counter(), get_cpu_s(spark)
    batch(spark, config)
    between = time.perf_counter(), get_cpu_s(spark)
    by_hand()
    ended = time.perf_counter(), get_cpu_s(spark)
    found = pl.read_parquet(folder / "out" / "*.parquet").sort("id")
    same = pl.read_parquet(folder / "by_hand" / "*.parquet").sort("id")
    assert found.height == same.height
    assert ((found.to_series(1) - same.to_series(1)).abs() < 1e-9).all()
    times = [(b - a, d - c) for (a, c), (b, d) in pairwise((began, between, ended))]
    shown = (f"{seconds:.1f} s, {cpu_s:.1f} s of CPU" for seconds, cpu_s in times)
    print("headrace {}; by hand {}".format(*shown), file=sys.stderr, flush=True)
    return times[0][0] / times[1][0], times[0][1] / times[1][1]


def main(thousands: str = "500", rounds: str = "3") -> None:
    """Print the median ratios of each loop."""
    with tempfile.TemporaryDirectory() as name, open_session("loops", "local[2]") as spark:
        folder = Path(name)
        ratios: dict[str, list[tuple[float, float]]] = {"bulk": [], "delta": []}
        write_graph(folder, int(thousands) * 1000)
        for number in range(int(rounds) + 1):
            for loop, steps, compute in (("bulk", RANKING, rank), ("delta", COMPONENTS, connect)):
                ratio = measure(spark, folder, steps, partial(run_by_hand, spark, folder, compute))
                if number:
                    ratios[loop].append(ratio)
    for loop, found in ratios.items():
        clock, cpu = (statistics.median(each) for each in zip(*found, strict=True))
        print(f"spark_loops {loop} {clock:.2f} x by hand by the clock, {cpu:.2f} x in CPU")


if __name__ == "__main__":
    main(*sys.argv[1:])
