"""Joins whose rows come too late, or not for a while, or of which one side ended long ago.

A row is reported as late, or it matches all others that are not, in whatever order they come and
whatever happens: so the output is the meaning of the plan for the rows that were not late.

Thousands more: `python -m tests.core.operators.joins.test_late_joins 5000`;
it prints the seed that fails.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import MemoryEvent
from tests.support.reference import random_joins, random_pipelines
from tests.support.runtime import expected_rows
from tests.support.runtime.crashing_jobs import FlakyMemory
from tests.support.runtime.expected_rows import Splits
from tests.support.runtime.memory_pipelines import cut

LIVES = 5

LATE = "late_to: {left: late_left, right: late_right}"
NEAR = random_joins.WITHIN.filter(lambda text: "type" not in text)
WINDOWS = st.sampled_from(["tumble: 5s", "tumble: 7s, offset: 2s"])
SINKS = """sinks:
  out: {from: step, memory: {data: out}}
  gone_left: {from: late_left, memory: {data: late_left}}
"""
RIGHT_TOO = "  gone_right: {from: late_right, memory: {data: late_right}}\n"
MORE = "key: k, window: {tumble: 4s}, aggregate: {n: count(*), f: first(v), l: last(v)}"


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_row_is_late_or_meets_all_that_are_not(data: st.DataObject) -> None:
    survive(data)


@st.composite
def steps(draw: st.DrawFn) -> str:
    """The steps after the sources `a` and `b`, and the sinks."""
    type = draw(st.sampled_from(random_joins.TYPES))
    match draw(st.sampled_from(["within", "within", "as_of", "window", "broadcast"])):
        case "within":
            join = f"on: '{draw(random_joins.EQUAL)}', type: {type}, {draw(NEAR)}, {LATE}"
            clauses = f"join: {{left: a, right: b, {join}}}"
        case "window":
            lateness = ", lateness: 3s" if type == "inner" and draw(st.booleans()) else ""
            join = f"left: a, right: b, on: '{draw(random_joins.EQUAL)}', type: {type}, {LATE}"
            clauses = f"join: {{{join}}}, window: {{{draw(WINDOWS)}{lateness}}}"
        case "as_of":
            type = draw(st.sampled_from(["inner", "left"]))
            on, valid = draw(random_joins.EQUAL), draw(random_joins.AS_OF)
            join = f"on: '{on}', type: {type}, {valid}, {LATE}"
            clauses = f"join: {{left: a, right: b, {join}}}"
        case _:
            type = draw(st.sampled_from(["inner", "left", "semi", "anti"]))
            join = (
                f"rules: b, on: '{draw(random_joins.ANY)}', type: {type}{draw(random_joins.KEEP)}"
            )
            clauses = f"from: a, broadcast: {{{join}, late_to: late_left}}"
    clauses += f", {random_joins.ALONE if type in ('semi', 'anti') else random_joins.BOTH}"
    sinks = SINKS + (RIGHT_TOO if "late_right" in clauses else "")
    if draw(st.booleans()):
        return f"  step: {{{clauses}}}\n{sinks}"
    return f"  met: {{{clauses}}}\n  step: {{from: met, {MORE}}}\n{sinks}"


def survive(data: st.DataObject) -> None:
    """Draw a join, rows that come in any order, and what happens; run to the end, and compare."""
    text = data.draw(steps())
    sources = ""
    for name, of in (("a", "left"), ("b", "right")):
        # Late rules are not reported: they are valid from their arrival.
        delay = 40 if name == "b" and "broadcast" in text else data.draw(st.sampled_from([0, 1, 4]))
        # An input that was idle may be late for a step after others that were not.
        may_idle = delay < 40 and "met" not in text
        idle = data.draw(st.sampled_from(["", ", idle: 1s", ", idle: 4s"])) if may_idle else ""
        time = f"event_time: at, watermark: {{delay: {delay}s{idle}}}"
        sources += (
            f"  {name}: {{memory: {{data: {of}}}, schema: {random_pipelines.SCHEMA}, {time}}}\n"
        )
    text = expected_rows.in_parallel(data, f"sources:\n{sources}steps:\n{text}")
    sides = [_numbered(data.draw(random_pipelines.SPLITS)) for _ in range(2)]
    chance = random.Random(data.draw(st.integers(0, 9999)))
    run(text, sides, chance, chance.randrange(LIVES))


def run(text: str, sides: list[Splits], chance: random.Random, lives: int) -> None:
    """Live through so much, and compare."""
    left, right = sides
    memory = FlakyMemory({"left": paced(left, chance), "right": paced(right, chance)})
    plan, outcome = expected_rows.survived(text, memory, chance, lives)
    late = [_numbers(memory.outputs.get(name, [])) for name in ("late_left", "late_right")]
    in_time = [
        [[row for row in rows if row["v"] not in gone] for rows in side]
        for side, gone in zip((left, right), late, strict=True)
    ]
    assert all(len(gone) == len({*gone}) for gone in late), "a row was late twice"
    step = "met" if "met" in outcome.part_counts else "step"
    assert (outcome.part_counts[step].late_rows or 0) == sum(map(len, late))
    expected_rows.compare(plan, memory, dict(zip("ab", in_time, strict=True)))


def paced(splits: Splits, chance: random.Random) -> dict[str, list[MemoryEvent]]:
    """The rows in pieces with pauses, a side at once or for long; some splits begin late."""
    pauses = chance.choice([[0.0], [0.0, 0.4, 2.0], [2.0, 6.0]])
    found: dict[str, list[MemoryEvent]] = {}
    for at, rows in enumerate(rows for rows in splits if rows):
        found[str(at)] = [chance.choice([0.0, 0.0, 5.0])]
        for frame in cut(random_pipelines.frame(rows), chance.choice([1, 4, 50])):
            found[str(at)] += [frame, chance.choice(pauses)]
    return found


def _numbered(splits: Splits) -> Splits:
    """The rows, each with a number of its own as `v`; some in order, others in none."""
    numbers = iter(range(-20, 1000))
    return [[{**row, "v": next(numbers)} for row in rows] for rows in splits]


def _numbers(frames: Iterable[pl.DataFrame]) -> list[int]:
    return [number for frame in frames for number in frame["v"]]


if __name__ == "__main__":
    expected_rows.more(survive, sys.argv[1:])
