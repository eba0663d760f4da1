"""Pipelines with two inputs, over rows generated in memory: the cost of joins without JSON."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import process_time

import polars as pl

from benchmarks.arriving import run
from benchmarks.windowed import Counting, Making, Ran
from headrace.connectors.memory import MemoryOptions
from headrace.core.api.run_context import RunContext
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, SinkSide, SourceSide


def ran(pipeline: str, chunks: Mapping[str, Sequence[pl.DataFrame]]) -> Ran:
    """Run a pipeline whose `memory` sources give these chunks, and whose sinks count their rows."""
    out = Counting()

    def source(node: nodes.Source, around: RunContext) -> Making:
        given = chunks[node.name]
        return Making(given.__getitem__, len(given), around)

    ends = Connector(
        "memory",
        "Generated rows, and a sink that counts rows.",
        source=SourceSide(
            MemoryOptions, open=source, open_readers=lambda node, around, _: source(node, around)
        ),
        sink=SinkSide(MemoryOptions, open=lambda *_: out, open_writers=lambda *_: out),
    )
    with tempfile.TemporaryDirectory() as folder:
        start = process_time()
        outcome = run(Path(folder), pipeline, ends)
        took = process_time() - start
    if outcome.failure:
        raise SystemExit(outcome.failure.message)
    return Ran(took, out.rows)


def cut(frame: pl.DataFrame, rows: int) -> list[pl.DataFrame]:
    """Cut the frame into chunks of that many rows."""
    return [frame.slice(at, rows) for at in range(0, frame.height, rows)]
