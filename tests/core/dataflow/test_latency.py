"""Latency markers, from sources to sinks, on virtual time: only waiting takes time there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData, MemoryEvent
from headrace.connectors.memory_lookup import LookupTableData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.dataflow.channel import Channel, ChannelBounds
from headrace.core.dataflow.latency import MAX_LATENCIES, LatencyRecorder, MarkerTimer
from headrace.core.dataflow.output_edges import OutputEdge
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.plan.nodes import Exchange
from headrace.core.testing.simulated_loop import SimulatedLoop
from headrace.core.types.elements import LatencyMarker
from tests.core.dataflow.test_backpressure import TEXT, SlowMemory
from tests.support.runtime.memory_pipelines import job_of

JOINED = """
sources:
  a: {memory: {data: a}, schema: {id: bigint}}
  b: {memory: {data: b}, schema: {id: bigint}}
steps:
  both: {from: [a, b]}
  counted: {from: both, key: id, aggregate: {n: count(*)}, parallelism: 3}
sinks:
  all: {from: both, memory: {data: all}}
  out: {from: counted, memory: {data: out}, parallelism: 2}
"""
LOOKUP = """
sources: {{s: {{memory: {{data: in}}, schema: {{id: bigint}}}}}}
steps:
  named:
    from: s
    lookup: {{memory: {{data: names}}, on: {{id: id}}, add: {{name: string}}, ordered: {ordered}}}
sinks: {{out: {{from: named, memory: {{data: out}}}}}}
"""


def measured(
    folder: Path, text: str, memory: InMemoryData, interval_s: float | None, rows: int = 65536
) -> Mapping[str, Mapping[str, tuple[float, ...]]]:
    """Return the latencies from each source to each sink, rounded, of a whole run."""
    bounds = ChannelBounds(rows, marker_interval_s=interval_s)
    job = job_of(folder, text, memory, KernelExecutor(), bounds)
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        outcome = runner.run(job.run())
    assert outcome.failure is None
    return {
        name: {
            source: tuple(round(each, 3) for each in found)
            for source, found in counts.latencies.items()
        }
        for name, counts in outcome.part_counts.items()
        if counts.latencies
    }


def every_second(count: int) -> list[MemoryEvent]:
    events: list[MemoryEvent] = []
    for number in range(count):
        events += [pl.DataFrame({"id": [number]}), 1.0]
    return events


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_marker_waits_for_the_writer_of_the_rows_before_it(
    tmp_path: Path, parallelism: int
) -> None:
    """With one subtask the sink is in the task of its source, with two behind a channel."""
    memory = SlowMemory({"in": {"a": every_second(10)}}, write_s=0.25)
    found = measured(tmp_path, TEXT.format(parallelism=parallelism), memory, 0.5)
    assert set(found) == {"out"}
    latencies = found["out"]["s"]
    assert 10 <= len(latencies) <= 20
    assert max(latencies) == 0.25
    assert min(latencies) == 0.0  # one that left while there was no row
    assert set(latencies) <= {0.0, 0.25}


def test_a_marker_waits_behind_the_rows_of_its_channel(tmp_path: Path) -> None:
    chunks: list[MemoryEvent] = [pl.DataFrame({"id": range(at, at + 3)}) for at in range(0, 60, 3)]
    memory = SlowMemory({"in": {"a": chunks}}, write_s=1.0)
    found = measured(tmp_path, TEXT.format(parallelism=2), memory, 0.5, rows=3)
    # A batch is being written, and one is in the channel.
    assert max(found["out"]["s"]) == 2.0


def test_without_the_setting_there_are_none(tmp_path: Path) -> None:
    memory = SlowMemory({"in": {"a": every_second(10)}}, write_s=0.25)
    assert measured(tmp_path, TEXT.format(parallelism=2), memory, None) == {}


def test_each_source_is_measured_at_each_sink_behind_it(tmp_path: Path) -> None:
    memory = InMemoryData({"a": {"a": every_second(9)}, "b": {"a": every_second(5)}})
    found = measured(tmp_path, JOINED, memory, 1.0)
    counts = {
        sink: {source: len(each) for source, each in sources.items()}
        for sink, sources in found.items()
    }
    assert counts == {"all": {"a": 9, "b": 5}, "out": {"a": 9, "b": 5}}


@pytest.mark.parametrize("ordered", ["true", "false"])
def test_a_marker_passes_a_lookup_after_the_answers_before_it(tmp_path: Path, ordered: str) -> None:
    names = pl.DataFrame({"id": [0, 1], "name": ["a", "b"]})
    memory = InMemoryData(
        {"in": {"a": every_second(2)}},
        tables={
            "names": LookupTableData(names, lambda number, keys: 5.0 if keys[0][0] == 0 else 0.25)
        },
    )
    found = measured(tmp_path, LOOKUP.format(ordered=ordered), memory, 0.9)
    assert found["out"]["s"][0] > 4.0


def test_rows_without_order_pass_a_marker_that_waits(tmp_path: Path) -> None:
    names = pl.DataFrame({"id": [*range(4)], "name": [*"abcd"]})
    memory = InMemoryData(
        {"in": {"a": every_second(4)}},
        tables={"names": LookupTableData(names, lambda number, keys: 9.0 * (keys[0][0] == 0))},
    )
    measured(tmp_path, LOOKUP.format(ordered="false"), memory, 0.9)
    written = [id for frame in memory.outputs["out"] for id in frame["id"].to_list()]
    assert written == [1, 2, 3, 0]


def sent(exchange: Exchange, index: int) -> list[int]:
    """Return how many of four markers each of three readers gets."""
    channels = [Channel(ChannelBounds()) for _ in range(3)]
    edge = OutputEdge(exchange, channels[:1] if exchange == "forward" else channels, index)

    async def send() -> None:
        for at_us in range(4):
            await edge.send_marker(LatencyMarker(0, at_us))

    asyncio.run(send())
    return [len(channel.take()) for channel in channels]


def test_one_reader_of_an_edge_gets_a_marker() -> None:
    assert sent("hash", 0) == [2, 1, 1]
    assert sent("hash", 2) == [1, 1, 2]
    assert sent("broadcast", 1) == [1, 2, 1]
    assert sent("forward", 0) == [4, 0, 0]


def test_a_source_that_was_blocked_sends_one_marker() -> None:
    times = iter((100, 200))
    timer = MarkerTimer(3, 1.0, lambda: next(times))
    timer.update(10.0)
    assert (timer.take(), timer.next_at) == (None, 11.0)
    timer.update(15.5)
    assert timer.next_at == 16.5
    timer.update(16.0)
    timer.update(16.5)  # rows are still buffered: the older time counts
    assert timer.take() == LatencyMarker(3, 100)
    assert timer.take() is None


def test_the_newest_latencies_are_kept_and_none_is_negative() -> None:
    recorder = LatencyRecorder(lambda: 1_000_000)
    for at_us in range(0, 2 * MAX_LATENCIES + 1):
        recorder.record(LatencyMarker(1, 1_000_000 - at_us * 1000))
    recorder.record(LatencyMarker(1, 9_000_000))
    (kept,) = recorder.by_source.values()
    assert len(kept) == MAX_LATENCIES
    assert kept[-1] == 0.0
    assert kept[-2] == 2 * MAX_LATENCIES / 1000


@pytest.mark.parametrize(("text", "interval_s"), [("1s", 1.0), ("50ms", 0.05), ("never", None)])
def test_the_setting_is_the_interval_of_sources(
    tmp_path: Path, text: str, interval_s: float | None
) -> None:
    file = tmp_path / "p.yaml"
    settings = f"settings: {{latency_markers: {text}}}"
    file.write_text(f"name: test\n{TEXT.format(parallelism=1)}\n{settings}")
    pipeline = load_pipeline(file, {"memory": InMemoryData({}).build_connector()}, env={}).pipeline
    assert pipeline is not None
    assert ChannelBounds.from_settings(pipeline.settings).marker_interval_s == interval_s
