"""Edges per second of CPU of which the connected components are found, from Parquet to Parquet.

The graph is random, with five edges for each vertex. The figure is that of
`configs/loops/contraction.yaml`; on stderr also that of `scipy.sparse.csgraph`, if scipy is
installed, with the same reading and writing. Then follow, for a tenth of the edges, the delta
iteration of `configs/loops/minimum.yaml` and the same rounds as `bulk`, with the rows that their
heads send: for such a graph, in which each round changes most vertices, and for a grid of roads, in
which it changes few; and a ranking whose head sends whole tables or differences.
`python -m benchmarks.components [THOUSANDS OF EDGES]`
"""

from __future__ import annotations

import json
import math
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

from benchmarks import spark_loops
from docs.snippets import ROOT

SOURCES = """\
name: components
sources:
  VERTICES: {files: {path: vertices.parquet}, format: parquet, schema: {id: bigint, value: bigint}}
  edges: {files: {path: edges.parquet}, format: parquet, schema: {one: bigint, other: bigint}}
"""
SINKS = "sinks: {out: {from: RESULT, files: {path: out, mode: overwrite}, format: parquet}}\n"
BULK = """\
  minimum:
    iterate: {bulk: vertices, body: smaller, rounds: 10000}
  back: {from: edges, select: {one: other, other: one}}
  ways: {from: [edges, back]}
  sent:
    join: {left: {from: minimum.loop, as: changed}, right: ways, on: changed.id = ways.one}
    select: {id: ways.other, value: changed.value}
  both: {from: [sent, minimum.loop]}
  smaller: {from: both, key: id, aggregate: {value: min(value)}}
"""
UNION = "shares: {from: [given, bases]}"
UNION_OF_CHANGES = "shares: {from: [given, bases], where: share >= 0, on_error: skip}"
"""A step that does the same and cannot compute whole tables."""
SCIPY = """\
import numpy, polars
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
ids, edges = polars.read_parquet("vertices.parquet")["id"], polars.read_parquet("edges.parquet")
ends = edges["one"].to_numpy(), edges["other"].to_numpy()
graph = coo_matrix((numpy.ones(edges.height, dtype="i1"), ends), shape=(len(ids), len(ids)))
labels = connected_components(graph, directed=False)[1]
polars.DataFrame({"id": ids, "value": labels}).write_parquet("labels.parquet")
"""


def write_random_graph(folder: Path, edges: int) -> None:
    """Write a graph of which each edge has two random ends."""
    chance, vertices = random.Random(1), edges // 5
    one, other = ([chance.randrange(vertices) for _ in range(edges)] for _ in range(2))
    write_graph(folder, vertices, one, other)


def write_grid(folder: Path, edges: int) -> None:
    """Write a square grid whose crossings are numbered at random."""
    side = math.isqrt(edges // 2)
    crossings = [*range(side * side)]
    random.Random(1).shuffle(crossings)
    right = [(at, at + 1) for at in range(side * side) if (at + 1) % side]
    down = [(at, at + side) for at in range(side * (side - 1))]
    one, other = ([crossings[pair[end]] for pair in (*right, *down)] for end in (0, 1))
    write_graph(folder, side * side, one, other)


def write_graph(folder: Path, vertices: int, one: list[int], other: list[int]) -> None:
    """Write a graph, given the two ends of its edges."""
    ids = pl.Series(range(vertices))
    pl.DataFrame({"id": ids, "value": ids}).write_parquet(folder / "vertices.parquet")
    pl.DataFrame({"one": one, "other": other}).write_parquet(folder / "edges.parquet")


def run_timed(folder: Path, *words: str) -> tuple[float, str]:
    """Run a command; return its CPU seconds, and what it writes to stderr."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(words, cwd=folder, stderr=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return spent, ran.stderr


def read_steps(name: str, end: str) -> str:
    """Return the steps of a pipeline that ships, up to a line."""
    text = (ROOT / "configs" / "loops" / f"{name}.yaml").read_text("utf-8")
    return text.partition("steps:\n")[2].partition(end)[0]


def run_pipeline(
    folder: Path, steps: str, vertices: str, head: str, result: str
) -> tuple[float, int, pl.DataFrame]:
    """Run steps; return their CPU seconds, the rows that their head emits, and the result."""
    sources, sinks = SOURCES.replace("VERTICES", vertices), SINKS.replace("RESULT", result)
    return run_text(folder, f"{sources}steps:\n{steps}{sinks}", head)


def run_text(folder: Path, text: str, head: str) -> tuple[float, int, pl.DataFrame]:
    """Run a pipeline; return its CPU seconds, the rows that its head emits, and the result."""
    (folder / "p.yaml").write_text(text)
    headrace = str(Path(sys.executable).with_name("headrace"))
    spent, log = run_timed(folder, headrace, "run", "p.yaml", "--fresh", "--log", "json")
    events = [json.loads(line) for line in log.splitlines()]
    rows = next(e["parts"][head]["rows_out"] for e in reversed(events) if "parts" in e)
    return spent, rows, pl.read_parquet(folder / "out" / "*.parquet").sort("id")


def compare_with_scipy(folder: Path, found: pl.DataFrame, spent: float) -> None:
    """Print the time of scipy if it is installed, and check that it finds the same components."""
    try:
        scipy_s, _ = run_timed(folder, sys.executable, "-c", SCIPY)
    except RuntimeError as error:
        print(f"no scipy: {str(error).splitlines()[-1]}", file=sys.stderr)
        return
    labels = pl.read_parquet(folder / "labels.parquet")
    pairs = labels.join(found, on="id").select("value", "component").unique()
    assert pairs.height == labels["value"].n_unique() == found["component"].n_unique()
    print(
        f"scipy: {scipy_s:.1f} s, of which the loop takes {spent / scipy_s:.1f} x", file=sys.stderr
    )


def compare_kinds(folder: Path, graph: str) -> None:
    """Print the times of a delta iteration, and of the same rounds as `bulk`."""
    steps = read_steps("minimum", "sinks:").replace("max_rounds: 100", "max_rounds: 10000")
    delta_s, delta_rows, found = run_pipeline(folder, steps, "vertices", "minimum", "minimum")
    bulk_s, bulk_rows, same = run_pipeline(folder, BULK, "vertices", "minimum", "minimum")
    assert same.equals(found)
    print(f"{graph}, delta: {delta_s:.1f} s, {delta_rows} rows from the head", file=sys.stderr)
    print(f"{graph}, bulk: {bulk_s:.1f} s, {bulk_rows} rows from the head", file=sys.stderr)


def compare_rankings(folder: Path, links: int) -> None:
    """Print the times of a ranking of which each round sends the table, or what has changed."""
    spark_loops.write_graph(folder, links)
    text = spark_loops.SOURCES + spark_loops.RANKING
    whole_s, _, ranks = run_text(folder, text, "ranks")
    changes_s, _, same = run_text(folder, text.replace(UNION, UNION_OF_CHANGES), "ranks")
    assert ranks["rank"].is_close(same["rank"]).all()
    print(f"ranking: {whole_s:.1f} s, as differences {changes_s:.1f} s", file=sys.stderr)


def main(thousands: str = "5000") -> None:
    """Print the figures."""
    edges = int(thousands) * 1000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_random_graph(folder, edges)
        steps = read_steps("contraction", "  sizes:")
        spent, _, found = run_pipeline(folder, steps, "nodes", "contracted", "members")
        print(f"components {edges / spent / 1000:.1f} K edges per CPU second", flush=True)
        print(f"contraction: {spent:.1f} s", file=sys.stderr)
        compare_with_scipy(folder, found, spent)
        write_random_graph(folder, edges // 10)
        compare_kinds(folder, "random graph")
        write_grid(folder, edges // 10)
        compare_kinds(folder, "grid")
        compare_rankings(folder, edges // 10)


if __name__ == "__main__":
    main(*sys.argv[1:])
