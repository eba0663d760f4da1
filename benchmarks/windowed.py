"""Pipelines with windows over rows generated in memory: the cost of windows without JSON.

The source is named `memory`, and so is the sink, which counts its rows and drops them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import polars as pl

from benchmarks.arriving import run
from benchmarks.bids import SCHEMA, bids
from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.memory import MemoryOptions
from headrace.connectors.thread_adapters import ThreadedSplitReader
from headrace.core.api.coordinator_link import StandaloneCoordinator
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import Chunk, SplitReader
from headrace.core.api.splits import Handle, Position, Progress, Split
from headrace.core.api.state import Document
from headrace.core.job.launch import Watcher
from headrace.core.plan.connector import Connector, SinkSide, SourceSide

PIPELINE = """
name: windowed
sources:
  bids:
    memory: {{data: bids}}
    schema: {{auction: bigint, bidder: bigint, price: bigint, ts: timestamp}}
    event_time: ts
    watermark: {{delay: 2s}}
steps:
  step:
    from: bids
    {step}
sinks:
  out: {{from: step, memory: {{data: out}}}}
"""
AGGREGATE = "aggregate: {n: count(*), total: sum(price), maxp: max(price)}"
TOGETHER = 50_000
MILLION = 1_000_000


@dataclass(slots=True)
class Ran:
    """The CPU time of a pipeline, and the number of emitted rows."""

    cpu_s: float
    rows: int


def window(key: str, shape: str) -> str:
    """Return the clauses of a step: W3's aggregates in that window."""
    return f"key: {key}\n    window: {{{shape}}}\n    {AGGREGATE}"


def ran(
    step: str,
    made: Callable[[int], pl.DataFrame],
    many: int,
    watch: Watcher | None = None,
    pipeline: str = PIPELINE,
) -> Ran:
    """Run that step over that many chunks, in this process."""
    out = Counting()
    ends = Connector(
        "memory",
        "Generated rows, and a sink that counts rows.",
        source=SourceSide(
            MemoryOptions,
            open=lambda _, around: Making(made, many, around),
            open_readers=lambda _, around, link: Making(made, many, around),
        ),
        sink=SinkSide(MemoryOptions, open=lambda *_: out, open_writers=lambda *_: out),
    )
    with tempfile.TemporaryDirectory() as folder:
        start = process_time()
        outcome = run(Path(folder), pipeline.format(step=step), ends, watch=watch)
        took = process_time() - start
    if outcome.failure:
        raise SystemExit(outcome.failure.message)
    return Ran(took, out.rows)


def again_and_again() -> Callable[[int], pl.DataFrame]:
    """Return a source of the decoded million bids of W3, repeated with later times."""
    rows, _ = JsonDecoder(SCHEMA, "ms").decode(bids(MILLION), 0)
    rows = rows.select("auction", "bidder", "price", "ts")
    chunks = [rows.slice(at, TOGETHER) for at in range(0, MILLION, TOGETHER)]

    def made(number: int) -> pl.DataFrame:
        turn, at = divmod(number, len(chunks))
        return chunks[at].with_columns(pl.col("ts") + pl.duration(seconds=100 * turn))

    return made


@dataclass(slots=True)
class Making(StandaloneCoordinator):
    """A source of chunks, each generated when it is read."""

    made: Callable[[int], pl.DataFrame]
    many: int
    surroundings: RunContext
    discovery_interval_s: float | None = None
    is_ordered: bool = False

    async def discover_splits(self, first: bool) -> Sequence[Split]:
        return [Split("bids", "0")]

    def create_reader(self) -> SplitReader:
        return ThreadedSplitReader(self, self.surroundings)

    async def restore(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """Resume where the splits were left."""
        return splits

    async def on_checkpoint_complete(self, splits: Mapping[Split, Progress]) -> None:
        """There are no offsets to report."""

    async def close(self) -> None:
        """Nothing is open."""

    def read(self, split: Split, position: Position) -> Iterator[Chunk]:
        for number in range(self.many):
            yield Chunk(split, self.made(number), number + 1)


@dataclass(slots=True)
class Counting(StandaloneCoordinator):
    """A sink that counts rows, and its writers."""

    rows: int = 0

    async def check(self) -> None:
        """Accept everything."""

    def create_writer(self, subtask: int, begun: Sequence[Document] = ()) -> Counting:
        return self

    async def write(self, frame: pl.DataFrame) -> None:
        self.rows += frame.height

    async def prepare(self) -> Handle | None:
        return None

    def snapshot_state(self) -> Document | None:
        return None

    async def close(self) -> None:
        """Nothing is open."""

    async def commit(self, handle: Handle) -> None:
        """There is nothing to commit."""

    def on_commits_recorded(self) -> None:
        """Nothing is to be freed."""

    async def abort(self, handle: Handle) -> None:
        """There is nothing to remove."""

    async def end_lost_writers(self, subtasks: Collection[int]) -> None:
        """Do nothing: no writer is lost here."""
