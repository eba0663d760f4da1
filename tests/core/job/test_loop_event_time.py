"""Event time through a loop: windows after it have all of their rows, and fire before the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import MemoryEvent
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.dataflow.channel import ChannelBounds
from tests.support.reference.random_pipelines import BEGIN
from tests.support.runtime.crashing_jobs import Fate, FlakyMemory, Life

WINDOWS, ROWS = 5, 12
"""The windows of ten seconds, and the rows in each."""
SOURCE = """\
  NAME:
    memory: {data: NAME}
    schema: {k: bigint, n: bigint, at: timestamp}
    event_time: at
    watermark: {delay: 0s}
"""
STEPS = """\
steps:
  tries: {iterate: {from: rows, until: n >= 6, feedback: once}}
  by_key: {from: INSIDE, dedup: {key: [k, n], order: arrival}}
  once: {from: by_key, select: {k: k, n: n + 1, at: at}}
  counts: {from: tries, key: {g: k % 2}, window: {tumble: 10s}, aggregate: {rows: count(*)}}
sinks: {out: {from: counts, memory: {data: out}}}
"""
ALL = Counter({(BEGIN + timedelta(seconds=10 * at), ROWS // 2): 2 for at in range(WINDOWS)})
"""The start of each window and the rows of a group in it, for two groups."""


def build_rows(window: int, rows: int = ROWS) -> pl.DataFrame:
    """Return rows of a window that go round for up to six rounds."""
    at = [BEGIN + timedelta(seconds=10 * window + row * 0.5) for row in range(rows)]
    return pl.DataFrame(
        {"k": range(100 * window, 100 * window + rows), "n": [row % 7 for row in range(rows)]}
    ).with_columns(at=pl.Series(at, dtype=pl.Datetime("us", "UTC")))


def list_windows(first: int) -> list[MemoryEvent]:
    """Return the rows of all windows from one on, with a pause after each."""
    return [event for at in range(first, WINDOWS) for event in (build_rows(at), 2.0)]


def run(
    folder: Path, seed: int, inside: str, data: Mapping[str, list[MemoryEvent]]
) -> tuple[Counter[tuple[object, int]], bool]:
    """Run a job with slow tasks; return the windows that fired, and whether it was stopped."""
    sources = "".join(SOURCE.replace("NAME", name) for name in data)
    text = f"settings: {{parallelism: 2}}\nsources:\n{sources}{STEPS.replace('INSIDE', inside)}"
    life = Life(
        folder,
        text,
        FlakyMemory({name: {"0": events} for name, events in data.items()}),
        CheckpointSchedule(interval_s=1.0, tolerable_failures=1000),
        ChannelBounds(rows=5),
        slow_share=0.7,
    )
    outcome = life.run(seed, Fate(stopped_at=60))
    assert outcome.failure is None, outcome.failure
    frames = life.memory.outputs["out"]
    fired = [row for each in frames for row in each.select("window_start", "rows").iter_rows()]
    return Counter(fired), outcome.is_stopped


@pytest.mark.parametrize("seed", range(4))
def test_a_window_fires_when_its_rows_have_left_the_loop(tmp_path: Path, seed: int) -> None:
    """The input goes on for ever: only an empty loop lets event time pass."""
    later: list[MemoryEvent] = [build_rows(WINDOWS, 1), 1000.0, build_rows(WINDOWS + 1, 1)]
    events = [*list_windows(0), *later]
    fired, is_stopped = run(tmp_path, seed, "tries.loop", {"rows": events})
    assert is_stopped
    assert fired == ALL


@pytest.mark.parametrize("seed", range(4))
def test_an_input_of_a_step_inside_holds_event_time_and_the_end(tmp_path: Path, seed: int) -> None:
    """The input of the head has ended long before rows come into the loop from another source."""
    first, rest = build_rows(0, ROWS // 2), build_rows(0).tail(ROWS // 2)
    more = [rest, 2.0, *list_windows(1)]
    fired, is_stopped = run(tmp_path, seed, "[tries.loop, more]", {"rows": [first], "more": more})
    assert not is_stopped
    assert fired == ALL
