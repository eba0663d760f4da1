"""`headrace why`, asked of a job in a thread, and what a run says by itself, on virtual time."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path

import polars as pl

from headrace.cli.job_diagnosis import JobDiagnosis, MissingOutput
from headrace.cli.run_text import format_missing_output
from headrace.connectors.memory import InMemoryData, MemoryEvent
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.job.job import Job
from headrace.core.testing.simulated_loop import SimulatedLoop
from tests.support.cli.command_line import Headrace
from tests.support.cli.controlled_jobs import running
from tests.support.runtime.memory_pipelines import job_of

TEXT = """
sources: {s: {memory: {data: in}, schema: {x: bigint}}}
steps: {large: {from: s, where: x > 5}}
sinks: {out: {from: large, memory: {data: out}}}
"""


def test_a_job_is_told_its_causes_and_their_settings(headrace: Headrace, tmp_path: Path) -> None:
    with running(tmp_path) as job:
        job.until_read(10)
        ran = headrace("why", "test", "--home", "home")
        assert (ran.status, ran.err) == (0, "")
        head, place, setting = ran.out.splitlines()
        assert head.startswith("test is running: 10 rows in, ")
        assert place == "- rows: 1 of 2 subtasks has no split to read: there is 1 split"
        assert setting.startswith("  setting: ")
        ran = headrace("why", "p.yaml", "--json", "--home", "home")
        document = json.loads(ran.out)
        assert (ran.status, document["name"]) == (0, "test")
        (finding,) = document["findings"]
        assert (finding["cause"], finding["part"]) == ("subtasks_without_splits", "rows")
        assert finding["since"] is None


def test_a_job_that_does_not_run_is_not_diagnosed(headrace: Headrace, tmp_path: Path) -> None:
    with running(tmp_path):
        pass
    ran = headrace("why", "test", "--home", "home")
    assert (ran.status, ran.out) == (3, "")
    assert "headrace run" in ran.err
    unknown = headrace("why", "tset", "--home", "home")
    assert unknown.status == 2
    assert "did you mean" in unknown.err or "test" in unknown.err


def watched(folder: Path, rows: list[MemoryEvent], seconds: float) -> list[MissingOutput]:
    """Return what a run reports of missing output within this time."""
    reported: list[MissingOutput] = []

    async def main(job: Job) -> None:
        tasks = (job.run(), JobDiagnosis().watch(job, reported.append))
        running = [asyncio.ensure_future(each) for each in tasks]
        await asyncio.sleep(seconds)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    with asyncio.Runner(loop_factory=partial(SimulatedLoop, 1)) as runner:
        memory = InMemoryData({"in": {"a": rows}})
        runner.run(main(job_of(folder, TEXT, memory, KernelExecutor(), ChannelBounds())))
    return reported


def row(x: int) -> pl.DataFrame:
    return pl.DataFrame({"x": [x]})


def test_a_run_says_once_why_nothing_is_emitted(tmp_path: Path) -> None:
    rows: list[MemoryEvent] = [1.0, row(1)] * 300
    (missing,) = watched(tmp_path, rows, 200)
    assert 30 <= missing.seconds <= 35
    head, place, setting = format_missing_output(missing)
    assert head.startswith("nothing was emitted for 3")
    assert place.startswith("- large: none of the ")
    assert setting == "  setting: `where:` of step large"


def test_it_says_so_again_after_rows_were_emitted(tmp_path: Path) -> None:
    silent: list[MemoryEvent] = [1.0, row(1)] * 100
    assert (
        len(watched(tmp_path, [*silent, pl.DataFrame({"x": [9] * 200}), *silent, *silent], 300))
        == 2
    )


def test_a_condition_that_is_seldom_true_is_no_news(tmp_path: Path) -> None:
    first = pl.DataFrame({"x": [1] * 100 + [9]})
    between: list[MemoryEvent] = [0.5, row(1)] * 100
    assert watched(tmp_path, [first, *between, row(9), *between], 100) == []


def test_a_run_without_new_rows_is_no_news(tmp_path: Path) -> None:
    assert watched(tmp_path, [row(9), 1000.0], 200) == []
