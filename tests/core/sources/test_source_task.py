"""A source waits for more rows for its linger time, and no longer. On virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.sources import Chunk, SourceEvent
from headrace.core.api.splits import Position, Progress, Split
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.dataflow.operator_task import OperatorTask, TaskOutput
from headrace.core.plan import nodes
from headrace.core.sources.source_task import SourceTask
from headrace.core.sources.watermarks import build_watermark_generator
from headrace.core.testing.simulated_loop import SimulatedLoop
from headrace.core.types.elements import ControlElement
from tests.support.runtime.memory_pipelines import plan_of

TEXT = """
sources: {numbers: {memory: {data: d}, schema: {x: bigint}}}
sinks: {out: {from: numbers, memory: {data: d}}}
"""


SPLIT = Split("numbers", "all")


class Timed:
    """A split reader with a chunk at each of these times, and the end at the last of them."""

    def __init__(self, times: Sequence[float], rows: int = 1) -> None:
        self._times, self._rows = list(times), rows
        self._start = asyncio.get_running_loop().time()

    def assign(self, splits: Sequence[tuple[Split, Position]], *, last: bool) -> None:
        """Ignore splits: the rows are given."""

    def pause(self, splits: Collection[Split]) -> None:
        """Ignore the call: there are no other splits."""

    def list_exhausted(self) -> Mapping[Split, float]:
        """Return nothing."""
        return {}

    def measure_lags(self) -> Mapping[Split, int]:
        """Return nothing."""
        return {}

    def measure_busy_s(self) -> float:
        """Ignore splits: the rows are given."""
        return 0.0

    async def fetch(self) -> SourceEvent | None:
        """Return the row of the next time, once it has come."""
        at = self._times[0]
        wait_s = self._start + at - asyncio.get_running_loop().time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        del self._times[0]
        frame = pl.DataFrame({"x": [int(at * 1000)] * self._rows})
        return Chunk(SPLIT, frame, None) if self._times else None

    async def close(self) -> None:
        """Do nothing."""


class Seen(TaskOutput):
    """Collects the output of the source task: the times and the rows."""

    def __init__(self) -> None:
        super().__init__({}, None)
        self.start = asyncio.get_running_loop().time()
        self.batches: list[tuple[float, list[int]]] = []

    async def send_rows(self, stream: str, frame: pl.DataFrame) -> None:
        """Record a batch."""
        at = asyncio.get_running_loop().time() - self.start
        self.batches.append((round(at, 6), frame["x"].to_list()))

    async def send_control(
        self, mark: ControlElement, streams: Collection[str] | None = None
    ) -> None:
        """Ignore control elements."""


def batches(
    folder: Path,
    times: Sequence[float],
    bounds: ChannelBounds,
    stop_at: float | None = None,
    rows: int = 1,
) -> list[tuple[float, list[int]]]:
    source = plan_of(folder, TEXT, {"memory": InMemoryData({"d": {}}).build_connector()}).part(
        "numbers"
    )
    assert isinstance(source, nodes.Source)

    async def main() -> list[tuple[float, list[int]]]:
        seen = Seen()
        reading, flow = Timed(times, rows), OperatorTask(None, seen, KernelExecutor())
        times_of = build_watermark_generator(
            source, reading, folder, lambda at_us: None, ordered=False
        )
        intake = SourceTask(source, reading, flow, lambda: 0, times_of, bounds)
        intake.assign([(SPLIT, Progress())], last=True)
        if stop_at is not None:
            asyncio.get_running_loop().call_later(stop_at, intake.stop)
        await intake.run()
        return seen.batches

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        return runner.run(main())


def test_without_linger_each_chunk_is_sent_at_once(tmp_path: Path) -> None:
    assert batches(tmp_path, [0.001, 0.002, 9], ChannelBounds()) == [(0.001, [1]), (0.002, [2])]


def test_chunks_ready_at_once_are_sent_as_one_batch(tmp_path: Path) -> None:
    times = [0.001, 0.001, 0.001, 0.002, 9]
    assert batches(tmp_path, times, ChannelBounds()) == [(0.001, [1, 1, 1]), (0.002, [2])]
    assert batches(tmp_path, times, ChannelBounds(rows=2)) == [
        (0.001, [1, 1]),
        (0.001, [1]),
        (0.002, [2]),
    ]


def test_rows_within_the_linger_are_sent_as_one_batch(tmp_path: Path) -> None:
    bounds = ChannelBounds(linger_s=0.01)
    assert batches(tmp_path, [0.001, 0.005, 0.02, 9], bounds) == [
        (0.011, [1, 5]),
        (0.03, [20]),
    ]


def test_a_full_batch_does_not_wait(tmp_path: Path) -> None:
    bounds = ChannelBounds(rows=2, linger_s=1)
    assert batches(tmp_path, [0.001, 0.005, 0.02, 9], bounds) == [
        (0.005, [1, 5]),
        (1.02, [20]),
    ]


def test_a_batch_of_many_bytes_does_not_wait(tmp_path: Path) -> None:
    bounds = ChannelBounds(bytes=16, linger_s=1)
    assert batches(tmp_path, [0.001, 0.005, 0.02, 9], bounds) == [
        (0.005, [1, 5]),
        (1.02, [20]),
    ]


def test_a_chunk_beyond_the_bounds_is_sent_in_batches_within_them(tmp_path: Path) -> None:
    sent = batches(tmp_path, [0.001, 9], ChannelBounds(rows=2), rows=5)
    assert sent == [(0.001, [1, 1]), (0.001, [1, 1]), (0.001, [1])]
    sent = batches(tmp_path, [0.001, 9], ChannelBounds(bytes=16), rows=3)
    assert sent == [(0.001, [1, 1]), (0.001, [1])]


@pytest.mark.parametrize(("end", "stop_at"), [(0.002, None), (9.0, 0.002)])
def test_the_end_and_a_stop_send_buffered_rows(
    tmp_path: Path, end: float, stop_at: float | None
) -> None:
    assert batches(tmp_path, [0.001, end], ChannelBounds(linger_s=1), stop_at) == [(0.002, [1])]


class Passing(Timed):
    """A split reader with a chunk without rows: its records were skipped."""

    def __init__(self, after: Callable[[], None]) -> None:
        super().__init__([0.0])
        self._after = after

    async def fetch(self) -> SourceEvent | None:
        """Return the chunk, then the end, after a call of the given function."""
        if not self._times:
            self._after()
            return None
        del self._times[0]
        return Chunk(SPLIT, pl.DataFrame({"x": pl.Series([], dtype=pl.Int64)}), 7)


def test_a_chunk_without_rows_moves_the_position_and_ends_no_idleness(tmp_path: Path) -> None:
    source = plan_of(tmp_path, TEXT, {"memory": InMemoryData({"d": {}}).build_connector()}).part(
        "numbers"
    )
    assert isinstance(source, nodes.Source)

    async def main() -> list[tuple[Position, set[Split]]]:
        seen: list[tuple[Position, set[Split]]] = []

        def look() -> None:
            idle = set(intake.watermark_generator.split_watermarks.idle_splits)
            seen.append((intake.progress[SPLIT].position, idle))

        reading, flow = Passing(look), OperatorTask(None, Seen(), KernelExecutor())
        times_of = build_watermark_generator(
            source, reading, tmp_path, lambda at_us: None, ordered=False
        )
        intake = SourceTask(source, reading, flow, lambda: 0, times_of, ChannelBounds())
        intake.assign([(SPLIT, Progress())], last=True)
        times_of.split_watermarks.set_idle([SPLIT])
        await intake.run()
        return seen

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        assert runner.run(main()) == [(7, {SPLIT})]
