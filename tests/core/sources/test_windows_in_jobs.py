"""Windows fire while a job runs, when the time of its sources says so. On virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData, MemoryEvent
from headrace.core.job.job import JobOutcome
from tests.support.runtime.memory_pipelines import simulated
from tests.support.runtime.source_subtasks import at, disordered

Splits: TypeAlias = "dict[str, list[MemoryEvent]]"
both = pytest.mark.parametrize("parallelism", [1, 3])

TEXT = """
settings: {{parallelism: {parallelism}}}
sources:
  s:
    memory: {{data: in}}
    schema: {{at: timestamp}}
    event_time: at
    watermark: {{{watermark}}}
  other:
    memory: {{data: other}}
    schema: {{at: timestamp}}
    event_time: at
    watermark: {{{watermark}}}
steps:
  all: {{from: [s, other], where: second(at) <> 59}}
  w:
    from: all
    key: {{odd: second(at) % 2}}
    window: {{tumble: 10s}}
    aggregate: {{n: count(*)}}
sinks: {{out: {{from: w, memory: {{data: out}}}}}}
"""


def fired(
    folder: Path,
    splits: Splits,
    watermark: str,
    parallelism: int,
    *,
    other: Sequence[MemoryEvent] = (),
    seed: int = 1,
) -> tuple[list[tuple[float, int, int]], JobOutcome]:
    """When a window fired, its first second, and how many rows were in it; and how the job ended.

    Windows of several keys that fire together are taken together.
    """
    memory = InMemoryData(inputs={"in": splits, "other": {"x": other}})
    text = TEXT.format(parallelism=parallelism, watermark=watermark)
    outcome = simulated(folder, text, memory, seed)
    assert outcome.failure is None
    found: Counter[tuple[float, int]] = Counter()
    for when, rows in memory.write_times.get("out", []):
        starts = rows["window_start"].to_physical() // 1_000_000
        for start, count in zip(starts, rows["n"], strict=True):
            found[when, start] += count
    return sorted((when, start, count) for (when, start), count in found.items()), outcome


@both
def test_a_window_fires_when_the_slowest_split_has_passed_its_end(
    tmp_path: Path, parallelism: int
) -> None:
    splits: Splits = {
        "a": [at(1, 5), 1, at(12), 1, at(25), 10],
        "b": [at(3), 4, at(9, 11), 1, at(31), 10],
    }
    found, _ = fired(tmp_path, splits, "delay: 1s", parallelism)
    assert found == [(4, 0, 4), (5, 10, 2), (12, 20, 1), (15, 30, 1)]


@both
def test_a_split_that_is_idle_keeps_no_window_open(tmp_path: Path, parallelism: int) -> None:
    splits: Splits = {
        "a": [at(1, 5), 1, at(12), 200],
        "b": [at(3), 100, at(4, 14), 1, at(28), 99],
    }
    found, outcome = fired(tmp_path, splits, "idle: 30s", parallelism)
    # At 30 nobody holds time but `a`, at 31 nobody; what `b` brings at 100 is late for the first.
    assert found == [(30, 0, 3), (101, 10, 2), (201, 20, 1)]
    assert outcome.part_counts["w"].late_rows == 1


@both
def test_a_source_that_is_idle_keeps_no_window_open_of_steps_that_read_others(
    tmp_path: Path, parallelism: int
) -> None:
    splits: Splits = {"a": [at(1, 5), 1, at(12), 1, at(25), 100]}
    found, _ = fired(tmp_path, splits, "idle: 30s", parallelism, other=[at(2), 200])
    assert found == [(30, 0, 3), (30, 10, 1), (200, 20, 1)]


@both
def test_an_idle_source_holds_time_again_also_by_rows_that_are_filtered_away(
    tmp_path: Path, parallelism: int
) -> None:
    splits: Splits = {"a": [at(1), 50, at(12), 10, at(25), 100]}
    other: list[MemoryEvent] = [at(2), 40, at(-1), 15, at(22), 200]
    found, _ = fired(tmp_path, splits, "idle: 30s", parallelism, other=other)
    assert found == [(55, 0, 2), (60, 10, 1), (255, 20, 2)]


@settings(max_examples=20, deadline=None)
@given(
    lists=st.lists(disordered(), max_size=4),
    other=disordered(),
    parallelism=st.integers(1, 3),
    drift=st.sampled_from(["", ", max_drift: 20s"]),
    seed=st.integers(0, 1000),
)
def test_no_row_is_late_that_the_delay_allows(
    tmp_path_factory: pytest.TempPathFactory,
    lists: list[list[MemoryEvent]],
    other: list[MemoryEvent],
    parallelism: int,
    drift: str,
    seed: int,
) -> None:
    splits = {str(number): happenings for number, happenings in enumerate(lists)}
    found, outcome = fired(
        tmp_path_factory.mktemp("job"),
        splits,
        f"delay: 10s{drift}",
        parallelism,
        other=other,
        seed=seed,
    )
    assert not outcome.part_counts["w"].late_rows
    chunks = [
        chunk for each in (*lists, other) for chunk in each if isinstance(chunk, pl.DataFrame)
    ]
    seconds = [t // 1_000_000 for chunk in chunks for t in chunk["at"].to_physical()]
    counts = Counter(second // 10 * 10 for second in seconds if second % 60 != 59)
    assert sum(counts.values()) == sum(count for _, _, count in found)
    together: Counter[int] = Counter()
    for _, start, count in found:
        together[start] += count
    assert together == counts
