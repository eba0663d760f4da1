"""A loop of ten rounds, killed while rows go round, and resumed at another parallelism."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl

from headrace.core.api.snapshots import Manifest
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.job.job import JobOutcome
from tests.support.runtime.crashing_jobs import Crashed, Fate, FlakyMemory, Life

ROWS = 60
PIPELINE = """\
settings: {parallelism: 2}
sources:
  rows: {memory: {data: in}, schema: {k: bigint, n: bigint}}
steps:
  tries:
    iterate: {from: rows, until: rounds = 10, rounds: true, feedback: once}
  by_key: {from: tries.loop, dedup: {key: [k, n, rounds], order: arrival}}
  once: {from: by_key, select: {k: k + 1, n: n + 1, rounds: rounds}}
sinks: {out: {from: tries, memory: {data: out}}}
"""


def build_life(folder: Path, seed: int) -> Life:
    """Return a job with slow tasks, whose checkpoints are taken while rows go round."""
    frame = pl.DataFrame({"k": range(ROWS), "n": [1000 * at for at in range(ROWS)]})
    events = [piece for rows in frame.iter_slices(7) for piece in (rows, 0.2)]
    return Life(
        folder,
        PIPELINE,
        FlakyMemory({"in": {"0": events}}),
        CheckpointSchedule(interval_s=0.3, tolerable_failures=1000),
        ChannelBounds(rows=5),
        slow_share=0.6 + 0.1 * (seed % 5),
    )


def run_killed(life: Life, chance: random.Random, kills: int) -> JobOutcome:
    """Run a job to its end, killed so often, at another parallelism each time."""
    for _ in range(kills):
        fate = Fate(killed_at=chance.uniform(1, 7), parallelism=chance.choice([1, 2, 3]))
        fate.rescaled = {0.5: chance.choice([1, 3])} if chance.random() < 0.5 else {}
        try:
            return life.run(chance.randrange(1000), fate)
        except Crashed:
            life.end(chance)
    return life.run(chance.randrange(1000), Fate(parallelism=chance.choice([1, 2, 3])))


def check_output(life: Life) -> None:
    """Every row has left the loop once, after ten rounds."""
    out = pl.concat(life.memory.outputs["out"]).sort("n")
    assert out["n"].to_list() == [1000 * at + 10 for at in range(ROWS)]
    assert out["k"].to_list() == [at + 10 for at in range(ROWS)]
    assert set(out["rounds"]) == {10}


def has_returning_rows(manifest: Manifest) -> bool:
    """Whether a checkpoint has rows that were on their way back."""
    states: Any = manifest["states"]
    return any(state["states"]["loop"]["rows"] for each in states["tries"] for state in each)


def test_a_killed_loop_resumes_with_the_rows_that_went_round(tmp_path: Path) -> None:
    had_rows = list[bool]()
    for seed in range(5):
        life, chance = build_life(tmp_path, seed), random.Random(seed)
        life.on_committed = lambda manifest: had_rows.append(has_returning_rows(manifest))
        outcome = run_killed(life, chance, 2)
        assert outcome.failure is None
        assert life.finished
        check_output(life)
    assert had_rows.count(True) > 5


def test_a_drained_loop_is_empty_and_resumes_with_new_rows(tmp_path: Path) -> None:
    life = build_life(tmp_path, 1)
    outcome = life.run(1, Fate(stopped_at=2.5, drains=True))
    assert outcome.failure is None
    assert outcome.is_stopped
    first = pl.concat(life.memory.outputs["out"])
    assert 0 < first.height < ROWS
    assert set(first["rounds"]) == {10}
    assert life.run(2, Fate(parallelism=3)).failure is None
    check_output(life)


def test_a_stopped_loop_keeps_the_rows_that_go_round(tmp_path: Path) -> None:
    life = build_life(tmp_path, 4)
    assert life.run(1, Fate(stopped_at=2.5)).is_stopped
    before = sum(frame.height for frame in life.memory.outputs.get("out", []))
    assert before < ROWS
    assert life.run(2, Fate(parallelism=1)).failure is None
    check_output(life)
