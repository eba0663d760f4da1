"""The graph algorithms of configs/loops, on random graphs."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from docs.snippets import ROOT
from headrace.connectors.memory import InMemoryData
from headrace.core.dataflow.channel import ChannelBounds
from tests.support.runtime.memory_pipelines import rows, simulated

Edges = list[tuple[int, int]]
SOURCES = """\
sources:
  nodes: {memory: {data: nodes}, schema: {id: bigint, value: bigint}}
  edges: {memory: {data: edges}, schema: {one: bigint, other: bigint}}
"""
HEADS = {
    "minimum": ("minimum", "minimum"),
    "components": ("parents", "parents"),
    "contraction": ("contracted", "members"),
}
"""The head of each file, and the step that has the result."""


def find_components(count: int, edges: Edges) -> dict[int, int]:
    """Return the least node of the component of each node, as scipy finds them."""
    ends = np.array(edges, np.int64).reshape(-1, 2)
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(count, count))
    _, labels = connected_components(graph, directed=False)
    _, least = np.unique(labels, return_index=True)
    return dict(enumerate(least[labels].tolist()))


def run(folder: Path, name: str, count: int, edges: Edges, seed: int) -> tuple[int, int]:
    """Run a file of configs/loops over a graph, and compare; return the rounds, and the rows of
    all work sets."""
    text = (ROOT / "configs" / "loops" / f"{name}.yaml").read_text("utf-8")
    steps = re.split("sources:|steps:|  sizes:|sinks:", text)[2].replace("vertices", "nodes")
    head, result = HEADS[name]
    pipeline = (
        f"settings: {{parallelism: {1 + seed % 2}}}\n{SOURCES}steps:{steps}"
        f"sinks: {{out: {{from: {result}, memory: {{data: out}}}}}}\n"
    )
    nodes = pl.DataFrame({"id": range(count), "value": range(count)})
    ends = pl.DataFrame(edges, {"one": pl.Int64(), "other": pl.Int64()}, orient="row")
    memory = InMemoryData({"nodes": {"0": [nodes]}, "edges": {"0": [ends]}})
    outcome = simulated(folder, pipeline, memory, seed, ChannelBounds(rows=30))
    assert outcome.failure is None, outcome.failure
    found = rows(memory, "out")
    if name == "contraction":  # a component is a hash
        least = dict[object, object]()
        for node, component in sorted(found):
            least.setdefault(component, node)
        found = Counter((node, least[component]) for node, component in found.elements())
    assert found == Counter(find_components(count, edges).items())
    counters = outcome.part_counts[head].metrics.counters
    return counters["rounds"], count + counters["rows_changed"] // 2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", HEADS)
def test_connected_nodes_have_the_least_one_of_them(tmp_path: Path, name: str, seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randrange(1, 60)
    edges = [
        (chance.randrange(count), chance.randrange(count)) for _ in range(chance.randrange(60))
    ]
    run(tmp_path, name, count, edges, seed)


@pytest.mark.parametrize("name", ["components", "contraction"])
def test_a_path_takes_a_logarithmic_number_of_rounds(tmp_path: Path, name: str) -> None:
    order = [*range(50)]
    random.Random(7).shuffle(order)
    rounds, _ = run(tmp_path, name, 50, [*pairwise(order)], 2)
    assert rounds <= 9


def test_the_work_sets_have_few_of_the_rows_that_all_tables_of_rounds_have(tmp_path: Path) -> None:
    chance = random.Random(1)
    edges = [(chance.randrange(80), chance.randrange(80)) for _ in range(64)]
    rounds, changed = run(tmp_path, "minimum", 80, edges, 2)
    assert 3 * changed <= rounds * 80
