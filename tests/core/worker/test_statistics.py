"""The counts of a job's parts, computed from the reports of its workers."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import replace
from pathlib import Path

from headrace.connectors.memory import InMemoryData, MemoryEvent
from headrace.connectors.memory_lookup import LookupTableData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.user_metrics import MetricValues
from headrace.core.checkpoint.counters import JobCounters, PartCounters
from headrace.core.checkpoint.history import CheckpointPauses
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.job.job import Job
from headrace.core.operators.lookup.client import LookupStatistics
from headrace.core.plan import nodes
from headrace.core.testing.simulated_loop import SimulatedLoop
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.worker.report import SubtaskStatistics, WorkerReport
from headrace.core.worker.statistics import measure_pauses, sum_part_counts
from headrace.core.worker.time_shares import TaskTime
from tests.support.runtime.memory_pipelines import job_of
from tests.support.runtime.source_subtasks import at

TEXT = """
settings: {parallelism: 2}
sources:
  s:
    memory: {data: in}
    schema: {at: timestamp}
    event_time: at
steps:
  named:
    from: s
    lookup: {memory: {data: names}, on: {at: at}, add: {day: {column: at, type: timestamp}}}
  n: {from: named, key: at, window: {tumble: 1h}, aggregate: {n: count(*)}}
sinks: {out: {from: n, memory: {data: out}}}
"""


def reports_of(folder: Path, at_s: float) -> tuple[nodes.Plan, tuple[WorkerReport, ...]]:
    """Return the reports of a job after a time of the loop, with two rows of four read."""
    happenings: list[MemoryEvent] = [at(1, 2), 10.0, at(3, 4)]
    memory = InMemoryData(
        {"in": {"a": happenings}}, tables={"names": LookupTableData(at(1, 2, 3, 4))}
    )
    job = job_of(folder, TEXT, memory, KernelExecutor(), ChannelBounds())

    async def main() -> tuple[WorkerReport, ...]:
        running = asyncio.create_task(job.run())
        await asyncio.sleep(at_s)
        reports = collect(job)
        assert (await running).failure is None
        return reports

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        return job.plan, runner.run(main())


def collect(job: Job) -> tuple[WorkerReport, ...]:
    """Return the reports of the running attempt."""
    attempt = job._attempt  # pyright: ignore[reportPrivateUsage]
    assert attempt is not None
    return attempt.collect_reports()


def test_a_report_is_a_message(tmp_path: Path) -> None:
    _, (report,) = reports_of(tmp_path, 5.0)
    assert pickle.loads(pickle.dumps(report)) == report
    assert len(report.subtasks) == 6
    assert report.subtasks[0].splits is not None
    assert report.lookups["named"].keys == 2


def test_the_subtasks_of_two_workers_count_like_those_of_one(tmp_path: Path) -> None:
    plan, (report,) = reports_of(tmp_path, 5.0)
    before = JobCounters({"s": PartCounters(10, 9, 1), "n": PartCounters(late_rows=3)})
    whole = sum_part_counts(plan, [report], before)
    assert (whole["s"].rows_in, whole["s"].rows_out, whole["s"].bad_rows) == (12, 11, 1)
    assert (whole["n"].rows_in, whole["n"].late_rows) == (2, 3)
    assert whole["n"].state is not None
    assert whole["n"].state.rows == 2
    assert whole["out"].late_rows is None
    shared = report.lookups["named"]
    halves = [
        WorkerReport(report.subtasks[:3], {"named": replace(shared, keys=1, calls=0)}),
        WorkerReport(report.subtasks[3:], {"named": LookupStatistics(1, 0, shared.calls, 0, 0)}),
    ]
    assert sum_part_counts(plan, halves, before) == whole


def test_gauges_replace_those_before_a_restart(tmp_path: Path) -> None:
    plan, (report,) = reports_of(tmp_path, 5.0)
    gauged = MetricValues({"seen": 1}, {"open": 4})
    subtasks = [
        replace(each, parts={"n": replace(each.parts["n"], metrics=gauged)})
        for each in report.subtasks
        if "n" in each.parts
    ]
    assert len(subtasks) == 2
    earlier = PartCounters(metrics=MetricValues({"seen": 5}, {"open": 9, "held": 1}))
    counts = sum_part_counts(plan, [WorkerReport(tuple(subtasks))], JobCounters({"n": earlier}))
    assert counts["n"].metrics == MetricValues({"seen": 7}, {"open": 8, "held": 1})


def test_the_slowest_subtask_of_a_part_sets_its_watermark(tmp_path: Path) -> None:
    plan, (report,) = reports_of(tmp_path, 5.0)
    sources = [
        replace(subtask, watermark_us=at_us)
        for subtask, at_us in zip(report.subtasks, (MAX_WATERMARK_US, 7), strict=False)
    ]
    apart = [WorkerReport((each,)) for each in sources]
    assert sum_part_counts(plan, apart, JobCounters())["s"].watermark_us == 7


def test_a_subtask_that_has_ended_was_not_held_up_by_the_barrier(tmp_path: Path) -> None:
    _, (report,) = reports_of(tmp_path, 5.0)
    one, two, ended = (
        replace(subtask, is_ended=False, pauses=CheckpointPauses(alignment_s, sync_s))
        for subtask, (alignment_s, sync_s) in zip(
            report.subtasks, ((0.0, 4.0), (2.0, 1.0), (9.0, 9.0)), strict=False
        )
    )
    reports = [WorkerReport((one,)), WorkerReport((two, replace(ended, is_ended=True)))]
    assert measure_pauses(reports) == CheckpointPauses(2.0, 4.0)
    assert measure_pauses([]) == CheckpointPauses(0.0, 0.0)


def test_parts_of_a_task_wait_together_but_a_sink_not_for_its_own_writer(tmp_path: Path) -> None:
    plan, (report,) = reports_of(tmp_path, 5.0)
    names = [part.name for part in plan]
    subtask = SubtaskStatistics(
        1,
        report.subtasks[-1].id,
        dict.fromkeys(names, PartCounters()),
        TaskTime(),
        is_ended=False,
        blocked_s=2.0,
        write_s=1.0,
    )
    counts = sum_part_counts(plan, [WorkerReport((subtask,))], JobCounters())
    assert {name: counts[name].backpressured_s for name in names} == {
        "s": 3.0,
        "named": 3.0,
        "n": 3.0,
        "out": 2.0,
    }
