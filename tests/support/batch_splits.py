"""A source as a batch reads it: its pieces, and what is in them."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from headrace.connectors.registry import REGISTRY
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import BadRecord, BatchSplit, BatchSplitReader, Chunk
from headrace.core.plan import nodes
from tests.support.file_pipelines import JOB
from tests.support.runtime.memory_pipelines import plan_of


def pieces_of(folder: Path, text: str) -> BatchSplitReader:
    """Build the batch reader of the source `s` of `sources:`."""
    whole = f"sources:\n  s: {text}\nsinks:\n  o: {{from: s, console: {{}}}}"
    node = plan_of(folder, whole, REGISTRY).part("s")
    assert isinstance(node, nodes.Source)
    side = REGISTRY[node.connector].source
    assert side is not None and side.open_batch is not None
    return side.open_batch(node, RunContext(folder, JOB, KernelExecutor()))


def divided(reader: BatchSplitReader, many: int = 1) -> Sequence[BatchSplit]:
    """The pieces, as an executor gets them."""
    pieces: Sequence[BatchSplit] = pickle.loads(pickle.dumps(asyncio.run(reader.plan_splits(many))))
    return pieces


def read(reader: BatchSplitReader, pieces: Sequence[BatchSplit]) -> list[Chunk]:
    """Read all chunks, each batch split separately; numbers are those of single records."""
    found = []
    numbers: dict[str, list[range]] = {}
    for piece in pieces:
        for first, chunk in reader.read(piece):
            records = range(first, first + max(chunk.frame.height, len(chunk.bad_records)))
            numbers.setdefault(chunk.split.name, []).append(records)
            found.append(chunk)
    for each in numbers.values():
        each.sort(key=lambda records: records.start)
        assert all(one.stop <= other.start for one, other in pairwise(each))
    return found


def rows(chunks: Sequence[Chunk]) -> list[tuple[object, ...]]:
    """The rows of chunks, in their order."""
    return [row for chunk in chunks for row in chunk.frame.rows()]


def bad(chunks: Sequence[Chunk]) -> list[BadRecord]:
    """The bad records of chunks, in their order."""
    return [record for chunk in chunks for record in chunk.bad_records]
