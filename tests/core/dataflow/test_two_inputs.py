"""Steps whose two inputs are not alike: without event time, idle for a while, ended long ago."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData, MemoryEvent
from tests.support.runtime import expected_rows
from tests.support.runtime.crashing_jobs import FlakyMemory
from tests.support.runtime.memory_pipelines import simulated

BEGIN = datetime(2026, 1, 31, 8, tzinfo=UTC)
Row: TypeAlias = tuple[Any, ...]
both = pytest.mark.parametrize("parallelism", [1, 3])

TYPES = {"k": pl.Int64(), "v": pl.Int64(), "at": pl.Datetime("us", "UTC")}
SCHEMA = "schema: {k: bigint, v: bigint, at: timestamp}"
TIMED = f"{SCHEMA}, event_time: at, watermark: {{delay: 0s"


def rows(*values: tuple[int, int, int]) -> pl.DataFrame:
    """Rows of k, v and the seconds since the beginning."""
    timed = [(k, v, BEGIN + timedelta(seconds=second)) for k, v, second in values]
    return pl.DataFrame(timed, TYPES, orient="row")


def text_of(step: str, left: str, right: str, parallelism: int, more: str = "") -> str:
    """A pipeline of a step of two inputs."""
    return (
        f"settings: {{parallelism: {parallelism}}}\n"
        f"sources:\n  a: {{memory: {{data: left}}, {left}}}\n"
        f"  b: {{memory: {{data: right}}, {right}}}\n"
        f"steps:\n  step: {{{step}}}\nsinks:\n  out: {{from: step, memory: {{data: out}}}}\n{more}"
    )


def written(memory: InMemoryData, name: str = "out") -> list[tuple[float, Row]]:
    """The times at which rows were written: k, v and w."""
    return sorted(
        (when, tuple(row[name] for name in ("k", "v", "w") if name in row))
        for when, frame in memory.write_times.get(name, [])
        for row in frame.rows(named=True)
    )


Splits: TypeAlias = "Mapping[str, Sequence[MemoryEvent]]"
NEAR = "join: {left: a, right: b, on: a.k = b.k, within: 2s, type: left"
BOTH = "select: {k: a.k, v: a.v, w: b.v}"


GOES_ON: Splits = {"0": [rows((1, 10, 0)), 1, rows((1, 11, 1), (2, 20, 9)), 60]}
PAUSES: Splits = {"0": [rows((1, 100, 0)), 40, rows((2, 200, 9), (1, 101, 1), (2, 201, 11)), 10]}


class TestIdle:
    """An input that pauses while the other one continues, and resumes."""

    LATE = "late_to: {left: late_a, right: late_b}"
    SINK = (
        "  late: {from: late_b, memory: {data: late}}\n"
        "  other: {from: late_a, memory: {data: other}}\n"
    )

    def run(self, folder: Path, step: str, idle: str, parallelism: int) -> InMemoryData:
        """Return the outcome."""
        memory = InMemoryData({"left": dict(GOES_ON), "right": dict(PAUSES)})
        time = f"{TIMED}{idle}}}"
        text = text_of(step, time, time, parallelism, self.SINK)
        assert simulated(folder, text, memory, 1).failure is None
        return memory

    @both
    def test_holds_nobody_back_and_what_it_says_then_may_be_late(
        self, tmp_path: Path, parallelism: int
    ) -> None:
        memory = self.run(tmp_path, f"{NEAR}, {self.LATE}}}, {BOTH}", ", idle: 5s", parallelism)
        assert written(memory) == [
            (0, (1, 10, 100)),
            (1, (1, 11, 100)),
            (40, (2, 20, 200)),
            (40, (2, 20, 201)),
        ]
        assert [row[:2] for _, row in written(memory, "late")] == [(1, 101)]

    @both
    def test_holds_the_other_back_if_it_does_not_say_that_it_is(
        self, tmp_path: Path, parallelism: int
    ) -> None:
        memory = self.run(tmp_path, f"{NEAR}, {self.LATE}}}, {BOTH}", "", parallelism)
        assert {row for _, row in written(memory)} == {
            *((1, 10, 100), (1, 11, 100), (1, 10, 101), (1, 11, 101)),
            *((2, 20, 200), (2, 20, 201)),
        }
        assert written(memory, "late") == []

    @both
    def test_lets_rows_go_that_wait_for_their_time(self, tmp_path: Path, parallelism: int) -> None:
        step = f"join: {{left: a, right: b, on: a.k = b.k, as_of: true, type: left, {self.LATE}}}"
        memory = self.run(tmp_path, f"{step}, {BOTH}", ", idle: 5s", parallelism)
        found = written(memory)
        assert [row for _, row in found] == [(1, 10, 100), (1, 11, 100), (2, 20, 200)]
        assert [when for when, _ in found][:2] == [5, 5]
        assert [row[:2] for _, row in written(memory, "late")] == [(1, 101)]


def survived(text: str, left: Splits, right: Splits, seed: int) -> tuple[FlakyMemory, int]:
    """Return the output across kills, failures and rescales, and the number of late rows."""
    memory = FlakyMemory({"left": dict(left), "right": dict(right)})
    _, outcome = expected_rows.survived(text, memory, random.Random(seed), 4, every_s=[0.3])
    return memory, outcome.part_counts["step"].late_rows or 0


def came(memory: InMemoryData) -> Counter[Row]:
    """All rows that were committed."""
    frames = memory.outputs.get("out", [])
    return Counter(row for frame in frames for row in frame.select("k", "v", "w").rows())


def slowly(values: Sequence[tuple[int, int, int]]) -> Splits:
    """One row a second."""
    return {"0": [each for value in values for each in (rows(value), 1.0)]}


seeds = pytest.mark.parametrize("seed", range(6))
EIGHT = [(second % 3, second, second) for second in range(8)]
PAIRS = [*((0, 0, 100), (0, 3, 100), (1, 1, 101), (1, 4, 101))]


@both
@seeds
def test_one_side_may_have_ended_long_before_the_other(parallelism: int, seed: int) -> None:
    step = f"join: {{left: a, right: b, on: a.k = b.k, within: 4s, type: full}}, {BOTH}"
    text = text_of(step, f"{TIMED}}}", f"{TIMED}}}", parallelism)
    few: Splits = {"0": [rows((0, 100, 0), (1, 101, 1))]}
    alone: list[tuple[int, int, int | None]] = [(2, 2, None), (2, 5, None)]
    alone += [(0, 6, None), (1, 7, None)]
    assert came(survived(text, slowly(EIGHT), few, seed)[0]) == Counter([*PAIRS, *alone])


@both
@seeds
def test_rules_without_event_time_hold_from_when_they_come(parallelism: int, seed: int) -> None:
    """After the broadcast there are windows: time follows the rows, and not the rules."""
    rules: Splits = {"0": [rows((0, 50, 0), (0, 100, 0), (1, 101, 0)), 100.0]}
    left: Splits = {"0": [20.0, *slowly(EIGHT)["0"]]}
    join = "{rules: b, on: a.k = b.k, keep: {key: k}, order: arrival, type: left}"
    step = f"from: a, broadcast: {join}, {BOTH}"
    text = text_of(step, f"{TIMED}}}", SCHEMA, parallelism)
    memory, late = survived(text, left, rules, seed)
    alone = [(2, 2, None), (2, 5, None)]
    assert came(memory) == Counter([*PAIRS, (0, 6, 100), (1, 7, 101), *alone])
    assert late == 0


@both
@pytest.mark.parametrize("timed", ["a", "b"])
def test_time_advances_by_the_input_that_has_event_time(
    tmp_path: Path, parallelism: int, timed: str
) -> None:
    """The other one is still being read when the windows of the first have ended."""
    left: Splits = {"0": [1, rows((1, 10, 0)), 1, rows((1, 11, 20)), 200]}
    rules: Splits = {"0": [rows((1, 100, 0)), 200, rows((1, 101, 0)), 100]}
    memory = InMemoryData({"left": dict(left), "right": dict(rules)})
    step = "from: a, broadcast: {rules: b, on: a.k = b.k, order: arrival}, select: {k: a.k, w: b.v}"
    window = "key: k, window: {tumble: 10s}, aggregate: {v: count(*), w: max(w)}"
    text = text_of(step, f"{TIMED}}}", f"{TIMED}}}" if timed == "b" else SCHEMA, parallelism)
    text = text.replace("sinks:", f"  sums: {{from: step, {window}}}\nsinks:")
    assert simulated(tmp_path, text.replace("from: step, mem", "from: sums, mem"), memory, 1)
    found = written(memory)
    assert [row for _, row in found] == [(1, 1, 100), (1, 1, 100)]
    assert found[0][0] == (2 if timed == "a" else 300)


@both
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("times", [(True, False), (False, True), (False, False)], ids=str)
def test_joins_by_the_wall_clock_need_no_event_time(
    parallelism: int, seed: int, times: tuple[bool, bool]
) -> None:
    left, right = (f"{TIMED}}}" if timed else SCHEMA for timed in times)
    on = "on: a.k = b.k, type: left, ttl: {after: 1h, time: processing}"
    step = f"join: {{left: a, right: b, {on}}}, {BOTH}"
    others = slowly([(0, 100, 3), (0, 101, 0), (1, 102, 1)])
    text = text_of(step, left, right, parallelism)
    memory, late = survived(text, slowly(EIGHT), others, seed)
    pairs = [(k, v, w) for k, v, _ in EIGHT for j, w in ((0, 100), (0, 101), (1, 102)) if j == k]
    assert came(memory) == Counter([*pairs, (2, 2, None), (2, 5, None)])
    assert late == 0


def test_a_ttl_by_the_wall_clock_is_over_though_nobody_has_event_time(tmp_path: Path) -> None:
    left: Splits = {"0": [rows((1, 10, 0)), 100]}
    right: Splits = {"0": [5, rows((1, 100, 0)), 20, rows((1, 101, 0)), 10]}
    memory = InMemoryData({"left": dict(left), "right": dict(right)})
    on = "on: a.k = b.k, type: full, ttl: {after: 10s, time: processing}"
    step = f"join: {{left: a, right: b, {on}}}, {BOTH}"
    assert simulated(tmp_path, text_of(step, SCHEMA, SCHEMA, 1), memory, 1).failure is None
    found = written(memory)
    assert found[0] == (5, (1, 10, 100))
    assert found[1][1] == (None, None, 101)
    assert 35 <= found[1][0] <= 36


@both
@seeds
def test_a_stream_is_joined_with_itself(parallelism: int, seed: int) -> None:
    head = f"sources:\n  a: {{memory: {{data: left}}, {TIMED}}}}}\nsteps:\n"
    sides = "left: {from: a, as: x}, right: {from: a, as: y}"
    step = f"join: {{{sides}, on: x.k = y.k and x.v < y.v, within: [0s, 4s]}}"
    columns = "select: {k: x.k, v: x.v, w: y.v}"
    text = (
        f"settings: {{parallelism: {parallelism}}}\n{head}  step: {{{step}, {columns}}}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )
    memory, late = survived(text, slowly(EIGHT), {}, seed)
    assert came(memory) == Counter([(0, 0, 3), (1, 1, 4), (2, 2, 5), (0, 3, 6), (1, 4, 7)])
    assert late == 0


@both
def test_a_rule_that_comes_late_is_met_by_the_rows_that_still_wait(
    tmp_path: Path, parallelism: int
) -> None:
    left: Splits = {"0": [rows((1, 10, 0), (1, 11, 5)), 20, rows((1, 12, 9)), 1]}
    rules: Splits = {"0": [rows((1, 100, 0), (2, 200, 5)), 10, rows((1, 101, 2)), 20]}
    memory = InMemoryData({"left": dict(left), "right": dict(rules)})
    step = f"from: a, broadcast: {{rules: b, on: a.k = b.k, keep: {{key: k}}}}, {BOTH}"
    text = text_of(step, f"{TIMED}}}", f"{TIMED}}}", parallelism)
    assert simulated(tmp_path, text, memory, 1).failure is None
    assert [row for _, row in written(memory)] == [(1, 10, 100), (1, 11, 101), (1, 12, 101)]
