"""A stopped job reports that it was stopped only if there is something to resume."""

from pathlib import Path

import polars as pl

from headrace.connectors.memory import MemoryEvent
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.job.job import JobOutcome
from tests.support.runtime.crashing_jobs import Fate, FlakyMemory, Life

PIPELINE = """\
sources: {rows: {memory: {data: in}, schema: {x: bigint}}}
sinks: {out: {from: rows, memory: {data: out}}}
"""


def test_a_stop_at_any_time_ends_the_job(tmp_path: Path) -> None:
    whole, _ = ended(tmp_path, None)
    stopped = []
    for at in range(100):
        outcome, finished = ended(tmp_path, whole.seconds * at / 80)
        assert outcome.failure is None
        assert outcome.is_stopped != finished
        assert outcome.is_stopped == (outcome.checkpoint is not None)
        stopped.append(outcome.is_stopped)
    assert {stopped[0], stopped[-1]} == {True, False}


def ended(folder: Path, stopped_at: float | None) -> tuple[JobOutcome, bool]:
    """Run a job with a stop request at that time. Return its outcome, and whether it finished."""
    data: list[MemoryEvent] = [pl.DataFrame({"x": [1]}), 0.01, pl.DataFrame({"x": [2]})]
    life = Life(
        folder, PIPELINE, FlakyMemory({"in": {"0": data}}), CheckpointSchedule(interval_s=1.0)
    )
    return life.run(1, Fate(slow_s=0.005, stopped_at=stopped_at)), life.finished
