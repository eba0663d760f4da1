"""Scrapes of a job, read by prometheus_client's own parser. On virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.cli.control.http_messages import Request, Response
from headrace.cli.metrics.exposition import JobCollector
from headrace.cli.metrics.metric_table import METRICS
from headrace.cli.metrics.monitoring_server import build_monitoring_routes
from headrace.cli.metrics.samples import JobSample
from headrace.connectors.memory import InMemoryData, MemoryEvent
from headrace.connectors.memory_lookup import LookupTableData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.checkpoint.history import CheckpointHistory
from headrace.core.checkpoint.storage import CheckpointStorage
from headrace.core.coordination.messages import CheckpointCompleted, CheckpointFailed
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.job.job import Job
from headrace.core.pipeline.settings import FixedRestart
from headrace.core.testing.simulated_loop import SimulatedLoop
from headrace.state.storage.local_store import LocalSnapshotStore
from headrace.state.storage.memory_disk import MemoryDisk
from tests.core.dataflow.test_backpressure import TEXT as SLOW
from tests.core.dataflow.test_backpressure import SlowMemory
from tests.core.job.test_statistics import PAUSING
from tests.support.runtime.memory_pipelines import cut, job_of
from tests.support.runtime.source_subtasks import at

Labels = frozenset[tuple[str, str]]
Samples = Mapping[str, Mapping[Labels, float]]
JOB: Labels = frozenset()
"""The labels of what is of the job as a whole."""


def labelled(**labels: str) -> Labels:
    """Labels but for the job's name."""
    return frozenset(labels.items())


def read(text: bytes) -> Samples:
    """The samples by name and labels."""
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = labelled(**{n: value for n, value in sample.labels.items() if n != "job"})
            assert labels not in found.setdefault(sample.name, {})
            found[sample.name][labels] = sample.value
    return found


def scraped(job: Job, *at_s: float) -> list[Samples]:
    """Scrape at these times."""

    async def main() -> list[Samples]:
        scrapes, found = JobCollector(lambda: JobSample.take(job, "1.0")), []
        start = asyncio.get_running_loop().time()
        running = asyncio.create_task(job.run())
        for time in at_s:
            await asyncio.sleep(start + time - asyncio.get_running_loop().time())
            found.append(read(scrapes.render_text()))
        await running
        return found

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        return runner.run(main())


def task(name: str, subtask: int) -> Labels:
    """The labels of a subtask."""
    return labelled(task=name, subtask=str(subtask))


def part(name: str, subtask: int) -> Labels:
    """The labels of a part of a subtask."""
    return labelled(part=name, subtask=str(subtask))


def test_time_goes_to_what_a_subtask_does(tmp_path: Path) -> None:
    memory = SlowMemory({"in": {"a": cut(pl.DataFrame({"id": range(24)}), 3)}}, write_s=1.0)
    job = job_of(
        tmp_path, SLOW.format(parallelism=2), memory, KernelExecutor(), ChannelBounds(rows=3)
    )
    (then,) = scraped(job, 0.5)
    assert then["headrace_backpressured_seconds_total"][task("s > step", 0)] == 0.5
    assert then["headrace_busy_seconds_total"][task("out", 0)] == 0.5
    assert then["headrace_idle_seconds_total"][task("out", 1)] == 0
    assert then["headrace_rows_in_total"][part("step", 0)] == 15
    assert then["headrace_rows_in_total"][part("out", 1)] == 3
    assert then["headrace_queue_rows"] == {task("out", 0): 3, task("out", 1): 3}
    assert then["headrace_worker_info"] == {
        part(name, at) | labelled(task=task_name, worker="0"): 1
        for name, task_name, subtasks in (
            ("s", "s > step", 1),
            ("step", "s > step", 1),
            ("out", "out", 2),
        )
        for at in range(subtasks)
    }
    assert then["headrace_up"] == {JOB: 1}
    assert then["headrace_status"][labelled(status="running")] == 1
    assert sum(then["headrace_status"].values()) == 1


def test_time_and_state_and_splits_are_there_where_they_mean_something(tmp_path: Path) -> None:
    happenings: list[MemoryEvent] = [at(1, 2), 10.0, at(3, 4), 10.0]
    memory = InMemoryData({"in": {"a": happenings}})
    then, later = scraped(
        job_of(tmp_path, PAUSING, memory, KernelExecutor(), ChannelBounds()), 5.0, 7.0
    )
    source = task("s", 0)
    lag = "headrace_watermark_lag_seconds"
    assert later[lag][source] - then[lag][source] == pytest.approx(2.0)
    assert set(then[lag]) == {source, task("n", 0), task("n", 1), task("out", 0)}
    assert sum(then["headrace_state_rows"].values()) == 2
    assert then["headrace_splits"] == {
        part("s", 0) | labelled(status="reading"): 0,
        part("s", 0) | labelled(status="idle"): 1,
        part("s", 0) | labelled(status="ended"): 0,
    }
    assert then["headrace_late_rows_total"] == {labelled(part="n"): 0}


def samples_of(figures: JobSample) -> Samples:
    return read(JobCollector(lambda: figures).render_text())


@pytest.fixture
def figures(tmp_path: Path) -> JobSample:
    """The metrics of a job that has not started."""
    return JobSample.take(
        job_of(tmp_path, PAUSING, InMemoryData({"in": {}}), KernelExecutor(), ChannelBounds()),
        "1.0",
    )


def test_checkpoints_are_counted_and_the_newest_is_reported(figures: JobSample) -> None:
    history = CheckpointHistory(restart_count=3)
    for number, seconds in ((1, 0.5), (2, 1.5)):
        history.record_size(number, {})
        history.record_outcome(CheckpointCompleted(number, seconds, 100), 10_000_000)
    history.record_outcome(CheckpointFailed(3, "full", 1.0), 20_000_000)
    said = samples_of(replace(figures, history=history))
    assert said["headrace_checkpoints_total"] == {
        labelled(outcome="completed"): 2,
        labelled(outcome="failed"): 1,
    }
    assert said["headrace_checkpoint_duration_seconds_count"] == {JOB: 2}
    assert said["headrace_checkpoint_duration_seconds_sum"] == {JOB: 2.0}
    assert said["headrace_last_checkpoint_timestamp_seconds"] == {JOB: 8.5}
    assert said["headrace_last_checkpoint_number"] == {JOB: 2}
    assert said["headrace_checkpoint_written_bytes_total"] == {JOB: 200}
    assert said["headrace_restarts_total"] == {JOB: 3}


def test_before_there_is_a_checkpoint_there_is_none_that_is_the_newest(figures: JobSample) -> None:
    said = samples_of(figures)
    assert not [name for name in said if name.startswith("headrace_last_checkpoint")]
    assert said["headrace_up"] == {JOB: 0}


def test_what_stands_in_a_name_is_escaped(figures: JobSample) -> None:
    odd = 'a"b\\c\nd'
    text = JobCollector(
        lambda: replace(figures, plan=replace(figures.plan, name=odd))
    ).render_text()
    families = text_string_to_metric_families(text.decode())
    assert {s.labels.get("job", odd) for family in families for s in family.samples} == {odd}


FAILING = """
sources: {s: {memory: {data: in}, schema: {id: bigint}}}
steps: {m: {from: s, map: {python: "f.py:f", returns: {id: bigint}}}}
sinks: {out: {from: m, memory: {data: out}}}
"""


@pytest.fixture
def failing(tmp_path: Path) -> Job:
    """A job that fails at its first row."""
    (tmp_path / "f.py").write_text("def f(rows):\n    return 1 / 0\n")
    memory = InMemoryData({"in": {"a": [pl.DataFrame({"id": [1]}), 100.0]}})
    return job_of(tmp_path, FAILING, memory, KernelExecutor(), ChannelBounds())


def health(job: Job, at_s: float) -> dict[str, tuple[int, bytes]]:
    """Return a job's health at a time."""

    async def main() -> dict[str, tuple[int, bytes]]:
        answers = {route.path: route.handler for route in build_monitoring_routes(job, "1.0")}
        running = asyncio.create_task(job.run())
        await asyncio.sleep(at_s)
        said = {}
        for path in ("/ready", "/live"):
            response = await answers[path](Request("GET", path))
            assert isinstance(response, Response)
            said[path] = response.status, response.body
        job.stop()
        await running
        return said

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        return runner.run(main())


def test_a_job_that_waits_to_begin_again_is_live_and_not_ready(failing: Job) -> None:
    store = LocalSnapshotStore(MemoryDisk(), "/checkpoints", "0" * 32)
    store.prepare()
    storage = CheckpointStorage(store, RestartPolicy(FixedRestart()))
    failing.spec = replace(failing.spec, storage=storage)
    said = health(failing, 5.0)
    assert said["/ready"] == (503, b'{"status":"restarting"}\n')
    assert said["/live"][0] == 200
    assert storage.history.restart_count == 1


def test_a_job_that_has_failed_for_good_is_not_live(failing: Job) -> None:
    said = health(failing, 5.0)
    assert said["/ready"] == (503, b'{"status":"over"}\n')
    assert said["/live"][0] == 503


COUNTED = """
from headrace import Process

class Counted(Process):
    def on_row(self, row, state, out):
        self.metrics.counter("rows").add(2)
        self.metrics.gauge("newest").set(row.at.hour)
        out(n=1)
"""


def test_a_scrape_has_what_the_table_says_and_nothing_else_of_ours(tmp_path: Path) -> None:
    memory = InMemoryData({"in": {"a": [at(1, 2), 10.0]}}, tables={"t": LookupTableData(at(1))})
    lookup = "{memory: {data: t}, on: {at: window_end}, add: {day: {column: at, type: timestamp}}}"
    (tmp_path / "counted.py").write_text(COUNTED)
    counted = "process: {python: counted.py:Counted, returns: {n: bigint}, order: arrival}"
    looking = f"  l: {{from: n, lookup: {lookup}}}\n  c: {{from: s, key: at, {counted}}}\n"
    looking += "sinks: {more: {from: c, memory: {data: more}}, out: {from: l,"
    text = PAUSING.replace("sinks: {out: {from: n,", looking)
    bounds = ChannelBounds(marker_interval_s=1.0)
    job = job_of(tmp_path, text, memory, KernelExecutor(), bounds)
    seen: dict[str, set[frozenset[str]]] = {}

    def look() -> JobSample:
        history = CheckpointHistory()
        history.record_size(1, {})
        history.record_outcome(CheckpointCompleted(1, 0.5), 1)
        return replace(JobSample.take(job, "1.0"), history=history)

    async def main() -> None:
        running = asyncio.create_task(job.run())
        await asyncio.sleep(5)
        for family in text_string_to_metric_families(JobCollector(look).render_text().decode()):
            for sample in family.samples:
                seen.setdefault(sample.name, set()).add(frozenset(sample.labels))
        await running

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        runner.run(main())
    ours = {name: labels for name, labels in seen.items() if not name.startswith("process_")}
    assert ours == {
        name: {frozenset(metric.labels)} for metric in METRICS for name in metric.sample_names
    }
