"""Draining a job: all that it has read is emitted, and it resumes after that."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import MemoryEvent
from headrace.core.api.snapshots import RefusedSnapshot
from headrace.core.checkpoint.compatibility import RestoreOptions, check_compatibility
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from tests.support.runtime.crashing_jobs import Crashed, Fate, FlakyMemory, Life

ROWS = 60
PIPELINE = """\
settings: {parallelism: 2}
sources:
  rows:
    memory: {data: in}
    schema: {k: bigint, v: bigint, at: timestamp}
    event_time: at
    watermark: {delay: 1s}
steps:
  step: STEP
sinks: {out: {from: step, memory: {data: out}}}
"""
WINDOWS = "{from: rows, key: k, window: {tumble: 10s}, aggregate: {total: sum(v), n: count(*)}}"
EVER = "{from: rows, key: k, aggregate: {total: sum(v)}}"


def life(folder: Path, step: str) -> Life:
    """Return a job that reads a row a second, each a second later in event time."""
    rows = pl.DataFrame({"k": [i % 3 for i in range(ROWS)], "v": range(ROWS)})
    rows = rows.with_columns(
        at=pl.datetime(2026, 1, 1, time_unit="us", time_zone="UTC")
        + pl.duration(seconds=pl.int_range(ROWS))
    )
    happenings: list[MemoryEvent] = []
    for row in rows.iter_slices(1):
        happenings += [row, 1.0]
    memory = FlakyMemory({"in": {"0": happenings}})
    return Life(folder, PIPELINE.replace("STEP", step), memory, CheckpointSchedule(interval_s=7.0))


def drained(folder: Path, step: str, at: float) -> Life:
    """Return that job, drained at that time."""
    made = life(folder, step)
    outcome = made.run(1, Fate(stopped_at=at, drains=True))
    assert outcome.failure is None
    assert outcome.is_stopped
    assert outcome.checkpoint is not None
    assert not made.finished
    return made


def test_every_window_fires_and_later_rows_open_others(tmp_path: Path) -> None:
    job = drained(tmp_path, WINDOWS, 33.5)
    before = pl.concat(job.memory.outputs["out"])
    read = int(before["n"].sum())
    assert before["total"].sum() == sum(range(read))
    assert 30 <= read < 40
    job.run(2)
    assert job.finished
    both = pl.concat(job.memory.outputs["out"])
    assert both["n"].sum() == ROWS
    assert both["total"].sum() == sum(range(ROWS))
    assert job.job is not None
    assert job.job.collect_counts()["step"].late_rows == 0
    fired_twice = both.group_by("k", "window_start").len().filter(pl.col("len") > 1)
    assert fired_twice["window_start"].n_unique() == 1


def test_steps_without_window_resume_at_any_parallelism(tmp_path: Path) -> None:
    for parallelism in (1, 2, 3):
        job = drained(tmp_path, EVER, 20.5)
        job.run(2, Fate(parallelism=parallelism))
        assert job.finished
        last = pl.concat(job.memory.outputs["out"]).group_by("k").last()
        assert dict(last.select("k", "total").rows()) == {
            k: sum(range(k, ROWS, 3)) for k in range(3)
        }


def test_the_checkpoint_of_a_drained_job_resumes_on_request(tmp_path: Path) -> None:
    job = drained(tmp_path, WINDOWS, 12.5).job
    assert job is not None
    assert job.storage is not None
    number = job.storage.find_last_number()
    document = job.storage.read_manifest(number)
    with pytest.raises(RefusedSnapshot, match="drained") as refused:
        check_compatibility(number, document, job.plan)
    assert "--resume-drained" in refused.value.hint
    assert (
        check_compatibility(number, document, job.plan, RestoreOptions(resume_drained=True)) == ()
    )


def test_a_job_that_is_killed_while_it_is_drained_has_not_been(tmp_path: Path) -> None:
    """Kill it at every turn of the loop, from before the drain begins until it is done."""
    chance, killed = random.Random(5), 0
    for turn in range(160, 400):
        job = life(tmp_path, WINDOWS)
        try:
            job.run(1, Fate(stopped_at=20.5, drains=True, last_turn=turn))
            break
        except Crashed:
            killed += 1
            job.end(chance)
        job.run(2)
        assert job.finished
        both = pl.concat(job.memory.outputs["out"])
        assert both["total"].sum() == sum(range(ROWS))
        assert job.job is not None
        assert job.job.collect_counts()["step"].late_rows == 0
    assert killed > 10
