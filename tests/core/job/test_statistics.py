"""The statistics of a running job.

On virtual time, where kernels take none: only waiting takes time.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData, MemoryEvent
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.checkpoint.storage import CheckpointStorage
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.dataflow.channel import Channel, ChannelBounds
from headrace.core.dataflow.input_gate import InputGate
from headrace.core.job.job import Job
from headrace.core.job.statistics import collect_checkpoint_history, collect_job_statistics
from headrace.core.pipeline.settings import NoRestart
from headrace.core.testing.simulated_loop import SimulatedLoop
from headrace.core.types.elements import Barrier, EndOfStream
from headrace.state.storage.local_store import LocalSnapshotStore
from headrace.state.storage.memory_disk import MemoryDisk
from tests.core.dataflow.test_backpressure import TEXT, SlowMemory
from tests.support.runtime.memory_pipelines import cut, job_of
from tests.support.runtime.source_subtasks import at


def looked(job: Job, at_s: Sequence[float]) -> list[dict[str, Any]]:
    """Return the statistics of a job at these times, and at its end."""

    async def main() -> list[dict[str, Any]]:
        looks: list[dict[str, Any]] = []
        running = asyncio.create_task(job.run())
        for time in at_s:
            await asyncio.sleep(time - asyncio.get_running_loop().time())
            looks.append(collect_job_statistics(job))
        assert (await running).failure is None
        looks.append(collect_job_statistics(job))
        return looks

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        start = runner.get_loop().time()
        at_s = [start + time for time in at_s]
        return runner.run(main())


def slow(folder: Path, parallelism: int) -> Job:
    """Return a job of eight batches, each a channel full, whose sink takes a second per batch."""
    memory = SlowMemory({"in": {"a": cut(pl.DataFrame({"id": range(24)}), 3)}}, write_s=1.0)
    return job_of(
        folder,
        TEXT.format(parallelism=parallelism),
        memory,
        KernelExecutor(),
        ChannelBounds(rows=3),
    )


def test_who_stands_before_a_slow_writer_is_backpressured_and_the_writer_is_busy(
    tmp_path: Path,
) -> None:
    then, end = looked(slow(tmp_path, 2), [0.5])
    source, *sinks = then["subtasks"]
    assert list(source["parts"]) == ["s", "step"]
    assert {(each["worker"], each["pid"]) for each in then["subtasks"]} == {(0, os.getpid())}
    assert (source["busy"], source["idle"], source["backpressured"]) == (0, 0, 1)
    assert source["backpressure"] == "high"
    assert [(each["busy"], each["backpressure"]) for each in sinks] == [(1, "ok"), (1, "ok")]
    assert [each["queue"]["rows"] for each in sinks] == [3, 3]
    assert all(each["ended"] and each["idle"] == 1 for each in end["subtasks"])
    assert sum(each["parts"]["out"]["rows_in"] for each in end["subtasks"][1:]) == 24


def test_in_one_task_all_wait_for_the_writer(tmp_path: Path) -> None:
    then, _ = looked(slow(tmp_path, 1), [2.5])
    (only,) = then["subtasks"]
    assert list(only["parts"]) == ["s", "step", "out"]
    assert (only["busy"], only["idle"], only["backpressured"]) == (0, 0, 1)
    assert only["queue"] is None


PAUSING = """
sources:
  s:
    memory: {data: in}
    schema: {at: timestamp}
    event_time: at
    watermark: {idle: 1s}
steps:
  n: {from: s, key: at, window: {tumble: 1h}, aggregate: {n: count(*)}, parallelism: 2}
sinks: {out: {from: n, memory: {data: out}}}
"""


@pytest.fixture
def pausing(tmp_path: Path) -> Job:
    """Return a job that reads two rows, two more after 10 s, and ends after another 10 s."""
    happenings: list[MemoryEvent] = [at(1, 2), 10.0, at(3, 4), 10.0]
    return job_of(
        tmp_path,
        PAUSING,
        InMemoryData({"in": {"a": happenings}}),
        KernelExecutor(),
        ChannelBounds(),
    )


def test_where_nothing_comes_all_are_idle(pausing: Job) -> None:
    then, later, _ = looked(pausing, [5.0, 7.0])
    for subtask in (*then["subtasks"], *later["subtasks"]):
        assert (subtask["busy"], subtask["idle"], subtask["backpressured"]) == (0, 1, 0)
        assert not subtask["ended"]


def test_a_source_says_where_its_splits_are(pausing: Job) -> None:
    then, end = looked(pausing, [5.0])
    splits = then["subtasks"][0]["splits"]
    watermark = splits["splits"][0]["watermark"]
    assert watermark.endswith("Z")
    assert splits == {
        "count": 1,
        "idle": 1,
        "ended": 0,
        "splits": [
            {
                "split": "a",
                "position": 1,
                "watermark": watermark,
                "idle": True,
                "ended": False,
                "behind": 2,
            }
        ],
    }
    assert end["subtasks"][0]["splits"]["ended"] == 1
    assert [subtask["watermark"] for subtask in end["subtasks"]] == ["end"] * 4


def test_state_is_measured_until_it_is_emitted(pausing: Job) -> None:
    then, end = looked(pausing, [5.0])
    kept = [subtask["states"]["n"] for subtask in then["subtasks"] if subtask["states"]]
    assert sum(states["windows"]["rows"] for states in kept) == 2
    assert then["state"]["rows"] == 2
    assert then["state"]["bytes"] > 0
    assert end["state"] == {"rows": 0, "bytes": 0, "bytes_on_disk": 0}


COUNTED = """
from headrace import Process

class Counted(Process):
    def on_row(self, row, state, out):
        self.metrics.counter("seen").add()
        self.metrics.gauge("newest").set(row.at.second)
        out(n=1)
"""
COUNTING = PAUSING.replace(
    "window: {tumble: 1h}, aggregate: {n: count(*)}",
    "process: {python: counted.py:Counted, returns: {n: bigint}, order: arrival}",
)


def test_metrics_of_user_code_and_latencies_are_listed_by_part(tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text(COUNTED)
    happenings: list[MemoryEvent] = [at(1, 2), 10.0, at(3, 4), 10.0]
    memory = InMemoryData({"in": {"a": happenings}})
    bounds = ChannelBounds(marker_interval_s=1.0)
    then, end = looked(job_of(tmp_path, COUNTING, memory, KernelExecutor(), bounds), [5.5])
    assert then["parts"]["n"]["metrics"] == {"seen": 2, "newest": 2}
    assert end["parts"]["n"]["metrics"]["seen"] == 4
    assert then["parts"]["out"]["latency"] == {"s": {"markers": 5, "p50_s": 0, "p99_s": 0}}
    assert then["parts"]["out"]["metrics"] == then["parts"]["s"]["latency"] == {}


def test_the_lag_is_the_wall_clock_less_the_watermark(pausing: Job) -> None:
    then, later, end = looked(pausing, [5.0, 7.0])
    assert later["subtasks"][0]["lag_s"] - then["subtasks"][0]["lag_s"] == pytest.approx(2.0)
    assert end["subtasks"][0]["lag_s"] is None
    assert then["parts"]["s"]["lag_s"] == then["subtasks"][0]["lag_s"]


def test_checkpoints_are_remembered_with_what_they_took_and_wrote(pausing: Job) -> None:
    store = LocalSnapshotStore(MemoryDisk(), "/checkpoints", "0" * 32)
    store.prepare()
    storage = CheckpointStorage(
        store, RestartPolicy(NoRestart()), CheckpointSchedule(4.0), now_us=lambda: 5_000_000
    )
    pausing.spec = replace(pausing.spec, storage=storage)
    then, end = looked(pausing, [5.0])
    assert then["checkpoints"]["completed"] == 1
    newest = then["checkpoints"]["newest"]
    assert (newest["number"], newest["status"], newest["why"]) == (1, "completed", None)
    assert newest["triggered"] == "1970-01-01T00:00:05.000Z"
    assert newest["bytes_new"] == newest["bytes"] > 0  # the first has written everything
    assert (newest["seconds"], newest["aligned_s"], newest["stood_still_s"]) == (0, 0, 0)
    numbers = [each["number"] for each in _history(pausing)]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == end["checkpoints"]["completed"] == 6  # the last after the end
    assert all(each["bytes_new"] == 0 for each in _history(pausing)[1:3])  # there was no input


def _history(job: Job) -> list[dict[str, Any]]:
    history: Any = collect_checkpoint_history(job)["history"]
    return list(history)


def test_how_long_inputs_wait_for_the_barriers_of_others_is_measured() -> None:
    async def main() -> None:
        left, right = Channel(ChannelBounds()), Channel(ChannelBounds())
        gate = InputGate([left, right])
        await left.put(Barrier(1))
        getting = asyncio.create_task(gate.get())
        await asyncio.sleep(2.0)
        await right.put(Barrier(1))
        assert (await getting)[1] == Barrier(1)
        assert gate.alignment_time.last_s == 2.0
        assert gate.idle_time.seconds == 2.0
        await left.put(EndOfStream())
        await right.put(Barrier(2))  # an ended channel is not waited for
        assert (await gate.get())[1] == Barrier(2)
        assert (gate.alignment_time.last_s, gate.alignment_time.seconds) == (0.0, 2.0)

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        runner.run(main())


def test_all_of_it_is_json_at_any_time(pausing: Job) -> None:
    assert job_statistics_of_nothing(pausing)["subtasks"] == []
    for look in looked(pausing, [5.0]):
        assert json.loads(json.dumps(look)) == look
    assert collect_checkpoint_history(pausing) == {
        "completed": 0,
        "failed": 0,
        "newest": None,
        "history": [],
    }


def job_statistics_of_nothing(job: Job) -> dict[str, Any]:
    """Return the statistics of a job before it begins."""

    async def main() -> dict[str, Any]:
        return collect_job_statistics(job)

    return asyncio.run(main())
