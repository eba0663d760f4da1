"""Joins of changes with a `ttl`: pairs near each other in time, and changes that come too late."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import get_args

import pytest

from headrace.core.operators.operator import Output
from headrace.core.plan.nodes import JoinType
from headrace.core.plan.nodes.matching import TableMatch
from headrace.core.types.elements import WEIGHT
from tests.support.runtime.changelogs import schema_of
from tests.support.runtime.two_input_operators import Inputs, Row, join, shown

LEFT, RIGHT = 0, 1
SCHEMAS = schema_of(k="string", v="int"), schema_of(k="string", p="int")
TTL_US = 4
Change = tuple[Row, int]
"""A row, and its time."""


def joined(type: JoinType = "inner", only: str | None = None, parallelism: int = 1) -> Inputs:
    sides = (SCHEMAS[LEFT], ["k"]), (SCHEMAS[RIGHT], ["k"])
    return Inputs(
        join(*sides, TableMatch(TTL_US), type, only),
        SCHEMAS,
        ordered=False,
        parallelism=parallelism,
    )


def change(
    inputs: Inputs, side: int, rows: Sequence[Change], weights: Sequence[int]
) -> list[Output]:
    """Add or remove rows of one side."""
    outs: list[Output] = []
    for weight in (1, -1):
        some = [row for row, each in zip(rows, weights, strict=True) if each == weight]
        if some:
            inputs.weight = weight
            outs += inputs.rows(side, [row for row, _ in some], [time for _, time in some])
    inputs.weight = 1
    return outs


def total(outputs: Sequence[Output]) -> Counter[Row]:
    """Return the rows that are there after all changes; none was removed that was not there."""
    counts: Counter[Row] = Counter()
    for stream, frame in outputs:
        if stream == "out":
            hidden = [name for name in frame.columns if name.startswith("__")]
            for row, weight in zip(frame.drop(hidden).rows(), frame[WEIGHT], strict=True):
                counts[row] += weight
    assert min(counts.values(), default=0) >= 0, counts
    return +counts


def test_rows_match_if_their_times_are_near_each_other() -> None:
    inputs = joined("left")
    out = change(inputs, LEFT, [(("a", 1), 10)], [1])
    assert total(out) == {("a", 1, None, None): 1}
    out += change(inputs, RIGHT, [(("a", 2), 5), (("a", 3), 6), (("a", 4), 14)], [1, 1, 1])
    assert total(out) == {("a", 1, "a", 3): 1, ("a", 1, "a", 4): 1}
    out += change(inputs, RIGHT, [(("a", 3), 6), (("a", 4), 14)], [-1, -1])
    assert total(out) == {("a", 1, None, None): 1}


def test_a_change_of_a_row_older_than_the_ttl_is_late_and_takes_nothing_back() -> None:
    inputs = joined()
    out = change(inputs, LEFT, [(("a", 1), 10)], [1])
    out += change(inputs, RIGHT, [(("a", 2), 12)], [1])
    out += inputs.time(15)
    late = change(inputs, LEFT, [(("a", 1), 10)], [-1])
    assert shown(late, "late_l") == [("a", 1, "delete")]
    assert total(out + late) == {("a", 1, "a", 2): 1}
    assert inputs.late == 1
    out += change(inputs, RIGHT, [(("a", 2), 12)], [-1])
    assert total(out) == {}


def test_rows_leave_the_state() -> None:
    inputs = joined()
    change(inputs, LEFT, [(("a", 1), -10)], [1])
    change(inputs, RIGHT, [(("a", 2), -8)], [1])
    inputs.time(3)
    assert {name: size.rows for name, size in inputs.states[0].measure_sizes().items()} == {
        "left": 0,
        "right": 1,
    }
    inputs.time(6)
    assert not any(size.rows for size in inputs.states[0].measure_sizes().values())


def wanted(type: JoinType, only: bool, sides: Sequence[Sequence[Change]]) -> Counter[Row]:
    """The naive way: compare all rows with each other."""
    found: Counter[Row] = Counter()
    met: tuple[set[int], set[int]] = set(), set()
    for one, ((k, v), at) in enumerate(sides[LEFT]):
        for other, ((j, p), time) in enumerate(sides[RIGHT]):
            near = k is not None and k == j and abs(at - time) <= TTL_US
            if near and (not only or (v is not None and p is not None and p > v)):  # type: ignore[operator]
                met[LEFT].add(one)
                met[RIGHT].add(other)
                if type not in ("semi", "anti"):
                    found[k, v, j, p] += 1
    for one, (row, _) in enumerate(sides[LEFT]):
        if type in ("semi", "anti") and (one in met[LEFT]) == (type == "semi"):
            found[row] += 1
        if type in ("left", "full") and one not in met[LEFT]:
            found[*row, None, None] += 1
    for other, (row, _) in enumerate(sides[RIGHT]):
        if type in ("right", "full") and other not in met[RIGHT]:
            found[None, None, *row] += 1
    return found


@pytest.mark.parametrize("type", get_args(JoinType))
@pytest.mark.parametrize("seed", range(6))
def test_any_changes_give_the_join_of_the_rows_that_were_not_late(
    type: JoinType, seed: int
) -> None:
    chance = random.Random(f"{type} {seed}")
    only = chance.random() < 0.4
    inputs = joined(type, "r_p > l_v" if only else None, chance.randint(1, 3))
    sides: tuple[list[Change], list[Change]] = [], []
    reached = 0
    out = inputs.time(reached)
    for _ in range(150):
        side = chance.randrange(2)
        match chance.randrange(8):
            case 0 | 1 | 2:
                rows = [
                    ((chance.choice(["a", "b", None]), chance.choice([None, 1, 2])), time)
                    for time in (reached + chance.randint(-7, 5) for _ in range(3))
                ]
                out += change(inputs, side, rows, [1] * len(rows))
                sides[side].extend(row for row in rows if row[1] >= reached - TTL_US)
            case 3 | 4 | 5 if sides[side]:
                row = chance.choice(sides[side])
                out += change(inputs, side, [row], [-1])
                if row[1] >= reached - TTL_US:
                    sides[side].remove(row)
            case 6:
                reached += chance.randint(0, 3)
                out += inputs.time(reached)
            case _ if chance.random() < 0.5:
                inputs.begin_anew(chance.randint(1, 3))
    assert total(out) == wanted(type, only, sides)
