"""Peak memory of 10 M rows into a slow sink, relative to 2 M; above 1, something accumulates.

The sink takes a quarter of a million rows a second, a fraction of what the sources produce. On
stderr: both peaks, in megabytes of the whole process. `python -m benchmarks.slow_sink_memory
[SOURCE]`: `memory` generates rows as fast as possible, through five steps with an exchange between
every two; `files` reads JSON lines and `nexmark` generates bids, with a channel between the task of
the source and that of the sink.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from benchmarks.arriving import FIVE_STEPS, bids, run
from benchmarks.bids import bids as lines
from headrace.connectors.memory import MemoryOptions
from headrace.connectors.registry import REGISTRY
from headrace.connectors.thread_adapters import ThreadedSplitReader
from headrace.core.api.coordinator_link import StandaloneCoordinator
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import Chunk, SplitReader
from headrace.core.api.splits import Handle, Position, Progress, Split
from headrace.core.api.state import Document
from headrace.core.plan.connector import Connector, SinkSide, SourceSide

FEW, MANY = 2_000_000, 10_000_000
A_SECOND = 250_000
TOGETHER = 20_000
A_FILE = 100_000

PIPELINE = """
name: slow
sources: {{bids: {{{source}}}}}
steps: {{dear: {{from: bids, where: price > 0, with: {{euros: price * 0.908D}}}}}}
sinks: {{out: {{from: dear, memory: {{data: out}}, parallelism: 2}}}}
"""
NEXMARK = "nexmark: {{events: {rows}}}"
FILES = """files: {path: "*.jsonl"},
  schema: {auction: bigint, bidder: bigint, price: bigint, channel: string, url: string}"""


def main(source: str = "memory", rows: str = "") -> None:
    """Print the figure; with a number of rows, the megabytes of this process for them."""
    if rows:
        _fill(source, int(rows))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
        return
    few, many = (_peak_mb(source, count) for count in (FEW, MANY))
    print(f"slow_sink_memory {many / few:.2f}")
    print(f"{few} MB at {FEW:,} rows, {many} MB at {MANY:,}  from {source}", file=sys.stderr)


def _peak_mb(source: str, rows: int) -> int:
    command = [sys.executable, "-m", "benchmarks.slow_sink_memory", source, str(rows)]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def _fill(source: str, rows: int) -> None:
    """Write that many rows of a source to the slow sink."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = FIVE_STEPS.format(parallelism=1, other=2)
        if source == "nexmark":
            text = PIPELINE.format(source=NEXMARK.format(rows=rows))
        elif source == "files":
            text = PIPELINE.format(source=FILES)
            (folder / "0.jsonl").write_bytes(lines(A_FILE))
            for number in range(1, rows // A_FILE):
                os.link(folder / "0.jsonl", folder / f"{number}.jsonl")
        ends = Connector(
            "memory",
            "Generated rows, and a slow sink.",
            source=SourceSide(
                MemoryOptions,
                open=lambda _, around: Making(rows, around),
                open_readers=lambda _, around, link: Making(rows, around),
            ),
            sink=SinkSide(MemoryOptions, open=lambda *_: Slow(), open_writers=lambda *_: Slow()),
        )
        outcome = run(folder, text, ends, REGISTRY["files"], REGISTRY["nexmark"])
    if outcome.failure:
        raise SystemExit(outcome.failure.message)


@dataclass(slots=True)
class Making(StandaloneCoordinator):
    """A source of generated rows: each chunk has its own memory."""

    rows: int
    surroundings: RunContext
    discovery_interval_s: float | None = None
    is_ordered: bool = False

    async def discover_splits(self, first: bool) -> Sequence[Split]:
        """Return the only split."""
        return [Split("bids", "0")]

    def create_reader(self) -> SplitReader:
        """Read chunks in a thread, as files are read."""
        return ThreadedSplitReader(self, self.surroundings)

    async def restore(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """Resume where the splits were left."""
        return splits

    async def on_checkpoint_complete(self, splits: Mapping[Split, Progress]) -> None:
        """There are no offsets to report."""

    async def close(self) -> None:
        """Nothing is open."""

    def read(self, split: Split, position: Position) -> Iterator[Chunk]:
        """Yield the chunks, one after another."""
        for number in range(self.rows // TOGETHER):
            yield Chunk(split, bids(TOGETHER, number), number + 1)


class Slow(StandaloneCoordinator):
    """A slow sink, and its writer, that stores nothing."""

    async def check(self) -> None:
        """Accept everything."""

    def create_writer(self, subtask: int, begun: Sequence[Document] = ()) -> Slow:
        """Return the sink itself."""
        return self

    async def write(self, frame: pl.DataFrame) -> None:
        """Accept rows, slowly."""
        await asyncio.sleep(frame.height / A_SECOND)

    async def prepare(self) -> Handle | None:
        """There is nothing to commit."""
        return None

    def snapshot_state(self) -> Document | None:
        """Return no state."""
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


if __name__ == "__main__":
    main(*sys.argv[1:])
