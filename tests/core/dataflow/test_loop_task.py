"""The task at the head of a loop, between its channels."""

from __future__ import annotations

import asyncio
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.splits import SubtaskId
from headrace.core.coordination.messages import (
    CoordinatorEvent,
    Deploy,
    HeldTime,
    LoopTimeHeld,
    ReleaseLoopTime,
    RestoredState,
    SnapshotAcknowledged,
)
from headrace.core.dataflow.channel import Channel, ChannelBounds
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.errors.attribution import get_failed_part
from headrace.core.operators.loop_head import LoopHead
from headrace.core.types.elements import (
    MAX_WATERMARK_US,
    Barrier,
    Batch,
    Element,
    EndOfStream,
    LatencyMarker,
    WatermarkElement,
)
from headrace.core.worker.channels import build_channels
from headrace.core.worker.connectors import WorkerConnectors
from headrace.core.worker.subtask_builder import Subtask, SubtaskBuilder
from headrace.state.memory.backend import MemoryBackend
from headrace.state.storage.local_store import LocalSnapshotStore
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.runtime.memory_pipelines import plan_of

PIPELINE = """\
sources:
  rows: {memory: {data: in}, schema: {n: bigint}}
steps:
  tries: {iterate: {from: rows, until: n > 9, feedback: once, max_in_loop: 1KB}}
  once: {from: tries.loop, select: {n: n + 1}}
sinks: {out: {from: tries, memory: {data: out}}}
"""
HEAD = SubtaskId(1, 0)


class HeadOfLoop:
    """The subtask at the head of a loop, and its channels."""

    def __init__(self, folder: Path) -> None:
        memory = InMemoryData({})
        plan = plan_of(folder, PIPELINE, {"memory": memory.build_connector()})
        channels = build_channels(plan, ChannelBounds())
        by_stream = {plan.edges[at].stream: each for (at, *_), each in channels.inputs.items()}
        self.forward, self.back = by_stream["rows"], by_stream["once"]
        self.inside, self.left = by_stream["tries.loop"], by_stream["tries"]
        self.events = list[CoordinatorEvent]()
        store = LocalSnapshotStore(MemoryDisk(), "/checkpoints", "0" * 32)
        store.prepare()
        builder = SubtaskBuilder(
            plan,
            WorkerConnectors(),
            RunContext(folder, "0" * 32, KernelExecutor()),
            ChannelBounds(),
            OperatorContext(lambda: 0, folder, frozenset(plan.streams), MemoryBackend()),
            channels=channels,
            store=store,
        )
        deploy = Deploy(1, (HEAD,), RestoredState())
        (self.subtask,) = builder.build_subtasks(self.events.append, deploy)


async def settle() -> None:
    """Let the head take all that is there."""
    for _ in range(20):
        await asyncio.sleep(0)


def take_all(channel: Channel) -> list[Element | list[int]]:
    """Return what is in a channel, rows as their numbers."""
    taken = []
    while channel.has_elements:
        taken += channel.take()
    return [each.frame["n"].to_list() if isinstance(each, Batch) else each for each in taken]


def rows_of(*numbers: int) -> Batch:
    return Batch(pl.DataFrame({"n": numbers}))


async def run_until(head: HeadOfLoop, *steps: tuple[Channel, Element]) -> asyncio.Task[object]:
    """Run the head while these elements come, one after the other."""
    task: asyncio.Task[object] = asyncio.create_task(run(head.subtask))
    for channel, element in steps:
        await channel.put(element)
        await settle()
    return task


async def run(subtask: Subtask) -> object:
    return await subtask.run()


def test_the_end_goes_round_before_it_leaves(tmp_path: Path) -> None:
    head = HeadOfLoop(tmp_path)

    async def live() -> None:
        steps = (head.forward, rows_of(3, 12)), (head.forward, EndOfStream())
        task = await run_until(head, *steps)
        assert take_all(head.left) == [[12]]
        assert take_all(head.inside) == [[3]]
        held = HeldTime(MAX_WATERMARK_US, has_ended=True)
        assert head.events[-1] == LoopTimeHeld(HEAD, held)
        assert head.subtask.loop_task is not None
        head.subtask.loop_task.release_time(
            ReleaseLoopTime("tries", (HEAD,), MAX_WATERMARK_US, is_end=True)
        )
        await settle()
        maximum = WatermarkElement(MAX_WATERMARK_US)
        assert take_all(head.inside) == [maximum, EndOfStream()]
        assert take_all(head.left) == [maximum]
        await head.back.put(EndOfStream())
        await task
        assert take_all(head.left) == [EndOfStream()]

    asyncio.run(live())


def test_a_row_after_the_end_of_the_loop_fails_by_name(tmp_path: Path) -> None:
    head = HeadOfLoop(tmp_path)

    async def live() -> None:
        task = await run_until(head, (head.forward, EndOfStream()))
        assert head.subtask.loop_task is not None
        head.subtask.loop_task.release_time(
            ReleaseLoopTime("tries", (HEAD,), MAX_WATERMARK_US, is_end=True)
        )
        await settle()
        await head.back.put(rows_of(4))
        await task

    with pytest.raises(ConnectorError, match="1 rows came back after the loop") as failed:
        asyncio.run(live())
    assert get_failed_part(failed.value) == "tries"


def test_rows_held_for_a_checkpoint_count_into_max_in_loop(tmp_path: Path) -> None:
    many = rows_of(*range(-80, 0))
    assert 512 < many.bytes < 1024

    async def bring_back_twice(head: HeadOfLoop, *before: tuple[Channel, Element]) -> None:
        task = await run_until(head, *before, (head.back, many), (head.back, many))
        if task.done():
            await task
        task.cancel()

    head = HeadOfLoop(tmp_path)
    asyncio.run(bring_back_twice(head))
    assert take_all(head.inside) == [many.frame["n"].to_list() * 2]
    head = HeadOfLoop(tmp_path)
    with pytest.raises(ConnectorError, match=r"160 rows \(1\.2 KB\) that came back"):
        asyncio.run(bring_back_twice(head, (head.forward, Barrier(1))))
    assert take_all(head.inside) == [Barrier(1), many.frame["n"].to_list()]


def test_a_latency_marker_passes_a_loop_once(tmp_path: Path) -> None:
    head = HeadOfLoop(tmp_path)
    marker = LatencyMarker(0, 5)

    async def live() -> None:
        task = await run_until(head, (head.forward, marker))
        task.cancel()

    asyncio.run(live())
    assert take_all(head.left) == [marker]
    assert take_all(head.inside) == []


def test_a_snapshot_counts_the_rows_before_its_barrier(tmp_path: Path) -> None:
    head = HeadOfLoop(tmp_path)

    async def live() -> SnapshotAcknowledged:
        task = await run_until(
            head,
            (head.forward, rows_of(3, 12)),
            (head.forward, Barrier(1)),
            (head.forward, rows_of(13, 14)),
            (head.back, rows_of(10)),
            (head.back, Barrier(1)),
        )
        assert head.subtask.loop_task is not None
        snapshotter = head.subtask.loop_task.operator_task.snapshotter
        assert snapshotter is not None
        await snapshotter.wait_for_previous()
        task.cancel()
        (taken,) = (each for each in head.events if isinstance(each, SnapshotAcknowledged))
        return taken

    (document,) = asyncio.run(live()).snapshot.states["tries"]
    assert document["metrics"] == {"counters": {"rows_back": 0, "rows_left": 1}, "gauges": {}}
    counted = {"rows_back": 1, "rows_left": 4}
    assert head.subtask.loop_task is not None
    assert isinstance(head.subtask.loop_task.head, LoopHead)
    assert head.subtask.loop_task.head.copy_counts() == counted
