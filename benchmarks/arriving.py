"""Rows that arrive in memory over time, and their latency to a sink.

The column `arrival` is the number of the frame of a row. Under load, a frame arrives when it is
due, not when a late runtime takes it: the time it waits before that counts too. Otherwise it
arrives when the source has it, because timers of an event loop are late by up to two
milliseconds.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from headrace.connectors.memory import InMemoryData, MemoryOptions
from headrace.core.api.coordinator_link import StandaloneCoordinator
from headrace.core.api.sources import Chunk, SourceEvent, SplitReader
from headrace.core.api.splits import Position, Progress, Split
from headrace.core.job.job import JobOutcome
from headrace.core.job.launch import LaunchOptions, Watcher, launch_job
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, SourceSide
from headrace.core.plan.plan_assembly import build_plan
from headrace.state.memory.backend import MemoryBackend

FIVE_STEPS = """
name: arriving
settings: {{parallelism: {parallelism}}}
sources:
  bids:
    memory: {{data: bids}}
    schema: {{arrival: int, auction: bigint, price: bigint, channel: string, tags: array<string>}}
steps:
  dear: {{from: bids, where: price > 10}}
  euros: {{from: dear, with: {{euros: price * 0.908D}}, parallelism: {other}}}
  told:
    from: euros
    select: {{arrival: arrival, item: auction, channel: upper(channel), euros: euros, tags: tags}}
  tagged: {{from: told, explode: {{tag: tags}}, parallelism: {other}}}
  parted: {{from: tagged, route: {{much: euros > 500}}}}
sinks:
  much: {{from: parted.much, memory: {{data: much}}}}
  rest: {{from: parted.else, memory: {{data: rest}}}}
"""
"""Five steps. If `other` differs from `parallelism`, there is an exchange between every two."""


def bids(rows: int, arrival: int) -> pl.DataFrame:
    """Generate rows for `FIVE_STEPS` that arrive together; each row leaves the pipeline once."""
    number = pl.int_range(rows, dtype=pl.Int64)
    return pl.select(
        pl.repeat(arrival, rows, dtype=pl.Int32).alias("arrival"),
        (1000 + number).alias("auction"),
        (100 + number * 37 % 1000).alias("price"),
        pl.repeat("channel-77", rows).alias("channel"),
        pl.concat_list(pl.repeat("new", rows)).alias("tags"),
    )


@dataclass(slots=True)
class Arriving:
    """A source that gives each frame at its time, and the memory that the rows go to."""

    frames: Sequence[pl.DataFrame]
    every_s: float
    alone: bool
    """Whether the event loop is idle when a frame arrives."""
    memory: InMemoryData = field(default_factory=InMemoryData)
    _arrived: list[float] = field(default_factory=list)

    def connector(self) -> Connector:
        """Return the connector of the memory, with this source."""
        source = SourceSide(
            MemoryOptions,
            open=lambda source, _: _Source(self, source),
            open_readers=lambda source, *_: _Source(self, source),
        )
        return replace(self.memory.build_connector(), source=source)

    def latencies(self) -> pl.DataFrame:
        """Return the time from the arrival to the sink of each row: `arrival`, `ms`."""
        arrived = pl.DataFrame({"arrival": range(len(self._arrived)), "came": self._arrived})
        written = [batch for batches in self.memory.write_times.values() for batch in batches]
        rows = [frame.select("arrival", at=pl.lit(at)) for at, frame in written]
        both = pl.concat(rows).join(arrived.cast({"arrival": pl.Int32}), on="arrival")
        return both.select("arrival", ms=(pl.col("at") - pl.col("came")) * 1000)

    async def give(self, number: int) -> pl.DataFrame:
        """Return the frame of that number when it has arrived."""
        loop = asyncio.get_running_loop()
        due = self._arrived[0] + number * self.every_s if number else loop.time()
        if due > loop.time():
            await asyncio.sleep(due - loop.time())
        self._arrived.append(loop.time() if self.alone else due)
        return self.frames[number]


@dataclass(slots=True)
class _Source(StandaloneCoordinator):
    arriving: Arriving
    source: nodes.Source
    discovery_interval_s: float | None = None
    is_ordered: bool = False

    async def discover_splits(self, first: bool) -> Sequence[Split]:
        return [Split(self.source.name, "0")]

    def create_reader(self) -> SplitReader:
        return _Reading(self.arriving)

    async def restore(self, splits: Mapping[Split, Progress]) -> Mapping[Split, Progress]:
        """Resume where the splits were left."""
        return splits

    async def on_checkpoint_complete(self, splits: Mapping[Split, Progress]) -> None:
        """There are no offsets to report."""

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class _Reading:
    arriving: Arriving
    splits: list[Split] = field(default_factory=list)
    given: int = 0

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        self.splits += [split for split, _ in splits]

    def pause(self, splits: Collection[Split]) -> None:
        """There is only one split."""

    def list_exhausted(self) -> Mapping[Split, float]:
        return {}

    def measure_lags(self) -> Mapping[Split, int]:
        return {}

    def measure_busy_s(self) -> float:
        return 0.0

    async def fetch(self) -> SourceEvent | None:
        if not self.splits or self.given == len(self.arriving.frames):
            return None
        frame = await self.arriving.give(self.given)
        self.given += 1
        return Chunk(self.splits[0], frame, self.given)

    async def close(self) -> None:
        self.splits = []


def run(
    folder: Path, pipeline: str, *connectors: Connector, watch: Watcher | None = None
) -> JobOutcome:
    """Run a pipeline in a folder, as the command would."""
    file = folder / "p.yaml"
    file.write_text(pipeline, "utf-8")
    named = {connector.name: connector for connector in connectors}
    plan, problems = build_plan(load_pipeline(file, named, env={}))
    if plan is None:
        raise SystemExit(f"not a pipeline: {problems}")
    return launch_job(
        plan, named, MemoryBackend(), LaunchOptions(folder, watchers=(watch,) if watch else ())
    )


def latencies(arriving: Arriving, parallelism: int, other: int) -> pl.DataFrame:
    """Return the latency of each row through five steps: `arrival`, `ms`. No row may be lost."""
    text = FIVE_STEPS.format(parallelism=parallelism, other=other)
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(Path(folder), text, arriving.connector())
    found = arriving.latencies()
    rows = sum(frame.height for frame in arriving.frames)
    if outcome.failure or found.height != rows:
        raise SystemExit(f"wanted {rows} rows, got {found.height}: {outcome.failure}")
    return found
