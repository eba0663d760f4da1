"""Waiting for a slow sink is measured, through a channel and within a task. On virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData, MemorySink, MemoryWriter
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkWriter
from headrace.core.api.state import Document
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.plan import nodes
from headrace.core.testing.simulated_loop import SimulatedLoop
from headrace.core.types.data_types import Schema
from tests.support.runtime.memory_pipelines import cut, job_of

TEXT = """
sources: {{s: {{memory: {{data: in}}, schema: {{id: bigint}}}}}}
steps: {{step: {{from: s, where: id >= 0}}}}
sinks: {{out: {{from: step, memory: {{data: out}}, parallelism: {parallelism}}}}}
"""


@dataclass(slots=True)
class SlowMemory(InMemoryData):
    """A sink whose writers take this time for a batch."""

    write_s: float = 1.0

    def _open_sink(self, sink: nodes.Sink, schema: Schema, surroundings: RunContext) -> MemorySink:
        return _SlowSink(self, sink.name)


class _SlowSink(MemorySink):
    def create_writer(self, subtask: int, begun: Sequence[Document] = ()) -> SinkWriter:
        return _SlowWriter(self, subtask)


class _SlowWriter(MemoryWriter):
    async def write(self, frame: pl.DataFrame) -> None:
        assert isinstance(self.sink.memory, SlowMemory)
        await asyncio.sleep(self.sink.memory.write_s)
        await MemoryWriter.write(self, frame)


def blocked_s(
    folder: Path, parallelism: int, write_s: float, at_s: float
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """The longest and the total wait of each part, for eight batches of a full channel."""
    memory = SlowMemory({"in": {"a": cut(pl.DataFrame({"id": range(24)}), 3)}}, write_s=write_s)
    text = TEXT.format(parallelism=parallelism)
    job = job_of(folder, text, memory, KernelExecutor(), ChannelBounds(rows=3))

    def seen() -> Mapping[str, float]:
        return {
            name: round(counts.backpressured_s, 6) for name, counts in job.collect_counts().items()
        }

    async def main() -> tuple[Mapping[str, float], Mapping[str, float]]:
        running = asyncio.create_task(job.run())
        await asyncio.sleep(at_s)
        then = seen()
        assert (await running).failure is None
        return then, seen()

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        return runner.run(main())


def test_within_a_task_all_wait_for_the_writer_but_the_sink(tmp_path: Path) -> None:
    then, at_last = blocked_s(tmp_path, 1, 1.0, 2.5)
    assert then == {"s": 2.5, "step": 2.5, "out": 0}
    assert at_last == {"s": 8, "step": 8, "out": 0}


def test_through_channels_their_sender_waits_when_they_are_full(tmp_path: Path) -> None:
    then, at_last = blocked_s(tmp_path, 2, 1.0, 0.5)
    assert then == {"s": 0.5, "step": 0.5, "out": 0}
    assert at_last == {"s": 2, "step": 2, "out": 0}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_nobody_waits_for_a_sink_that_is_fast(tmp_path: Path, parallelism: int) -> None:
    _, at_last = blocked_s(tmp_path, parallelism, 0.0, 0.0)
    assert at_last == {"s": 0, "step": 0, "out": 0}
