"""`top` with ties ranks the rows that are there, whatever their batches and pages."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.api.state import StepState
from headrace.core.expressions import type_expression
from headrace.core.operators.changelog.tied_top import TiedTopOperator
from headrace.core.operators.operator import OFFLOAD, Output
from headrace.core.plan import nodes
from headrace.core.plan.nodes import Ranking
from headrace.core.types.elements import WEIGHT
from headrace.state.memory.backend import MemoryBackend
from tests.core.operators.changelog.test_retraction_top import (
    ROWS,
    SCHEMA,
    Row,
    changes,
)
from tests.support.runtime.changelogs import ALL, computed, place

Ties = Literal["rank", "dense_rank"]
TIES = st.sampled_from(["rank", "dense_rank"])


def tied_top(
    ties: Ties,
    rows: int,
    page_rows: int,
    state: StepState | None = None,
    key: str | None = "g",
    *,
    nulls_last: bool = True,
    append_only: bool = False,
) -> TiedTopOperator:
    by = Ranking(type_expression("v", SCHEMA), True, nulls_last, "v desc")
    keys = computed(SCHEMA, key) if key else ()
    operation = nodes.Top(keys, None, rows, (by,), reads_retractions=not append_only, ties=ties)
    return TiedTopOperator(operation, place(state), page_rows)


def rank(
    rows: Iterable[Row], ties: Ties, count: int, key: str | None, *, nulls_last: bool = True
) -> Counter[tuple[object, ...]]:
    """Return the first rows with their ranks."""
    groups: dict[str | None, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[0] if key else "", []).append(row)
    first = Counter[tuple[object, ...]]()
    for members in groups.values():
        values = [((row[1] is None) is nulls_last, -(row[1] or 0)) for row in members]
        for row, value in zip(members, values, strict=True):
            better = [each for each in values if each < value]
            place = 1 + len(better if ties == "rank" else set(better))
            if place <= count:
                first[row[0], row[1], row[2], place] += 1
    return first


def apply(shown: Counter[tuple[object, ...]], outputs: Iterable[Output]) -> None:
    """Add the emitted rows to those that are shown; every one must be there afterwards."""
    for stream, frame in outputs:
        if stream == OFFLOAD:
            continue
        for group, value, tags, rank_, weight in frame.select(
            "g", "v", "tags", "rank", WEIGHT
        ).rows():
            shown[group, value, tuple(tags), rank_] += weight
    assert all(count >= 0 for count in shown.values())


@settings(deadline=None, max_examples=30)
@given(
    rows=st.lists(ROWS, max_size=60),
    removed=st.sets(st.integers(0, 59)),
    seed=st.integers(0, 1 << 30),
    cuts=st.sets(st.integers(1, 119), max_size=8),
    restarts=st.sets(st.integers(0, 8), max_size=2),
    page_rows=st.sampled_from([2, 4, 1024]),
    count=st.integers(1, 5),
    key=st.sampled_from(["g", None]),
    ties=TIES,
    nulls_last=st.booleans(),
)
def test_the_ranks_are_those_of_the_rows_that_are_there(
    rows: list[Row],
    removed: set[int],
    seed: int,
    cuts: set[int],
    restarts: set[int],
    page_rows: int,
    count: int,
    key: str | None,
    ties: Ties,
    nulls_last: bool,
) -> None:
    """Removals may arrive before their rows, equal rows are counted, and a restart may come."""
    every = [(row, 1) for row in rows] + [(rows[at], -1) for at in removed if at < len(rows)]
    random.Random(seed).shuffle(every)
    state = MemoryBackend().open_state(ALL)
    operator = tied_top(ties, count, page_rows, state, key, nulls_last=nulls_last)
    shown, start = Counter[tuple[object, ...]](), 0
    for number, end in enumerate((*sorted(cuts), len(every))):
        apply(shown, operator.process(changes(*every[start:end])))
        start = max(start, end)
        if number in restarts:
            state = MemoryBackend().open_state(replace(ALL, restored_states=(state.freeze(),)))
            operator = tied_top(ties, count, page_rows, state, key, nulls_last=nulls_last)
    there = [row for at, row in enumerate(rows) if at not in removed]
    assert +shown == rank(there, ties, count, key, nulls_last=nulls_last)
    if not there:
        assert not any(size.rows for size in state.measure_sizes().values())


@settings(deadline=None, max_examples=15)
@given(
    rows=st.lists(ROWS, max_size=90),
    cuts=st.sets(st.integers(1, 89), max_size=8),
    page_rows=st.sampled_from([2, 4]),
    count=st.integers(1, 3),
    ties=TIES,
)
def test_of_append_only_rows_the_first_ones_are_stored(
    rows: list[Row], cuts: set[int], page_rows: int, count: int, ties: Ties
) -> None:
    state = MemoryBackend().open_state(ALL)
    operator = tied_top(ties, count, page_rows, state, append_only=True)
    shown, start = Counter[tuple[object, ...]](), 0
    for end in (*sorted(cuts), len(rows)):
        frame = changes(*((row, 1) for row in rows[start:end])).drop(WEIGHT)
        apply(shown, operator.process(frame))
        start = max(start, end)
    assert +shown == rank(rows, ties, count, "g")


def test_append_only_rows_that_rank_behind_are_forgotten() -> None:
    state = MemoryBackend().open_state(ALL)
    operator = tied_top("rank", 3, 4, state, append_only=True)
    for start in range(0, 4096, 64):
        values = range(start, start + 64)
        list(operator.process(changes(*((("a", float(at), (), at), 1) for at in values))))
    assert state.measure_sizes()["ranking"].rows <= 4


@pytest.mark.parametrize("ties", ["rank", "dense_rank"])
def test_ties_across_pages_leave_and_come_back(ties: Ties) -> None:
    """A rank with more rows than pages have is emitted whole, removed, and emitted again."""
    operator, shown = tied_top(ties, 2, 4), Counter[tuple[object, ...]]()
    tied = [(("a", 5.0, (), at), 1) for at in range(20)]
    best: Row = ("a", 9.0, (), 99)
    apply(shown, operator.process(changes((best, 1), *tied, (("a", 1.0, (), 50), 1))))
    assert +shown == Counter({("a", 9.0, (), 1): 1, ("a", 5.0, (), 2): 20})
    apply(shown, operator.process(changes((("a", 9.0, (), 98), 1))))
    wanted = {("a", 9.0, (), 1): 2}
    assert +shown == Counter(wanted if ties == "rank" else {**wanted, ("a", 5.0, (), 2): 20})
    apply(shown, operator.process(changes((best, -1), (("a", 9.0, (), 98), -1))))
    assert (+shown)["a", 5.0, (), 1] == 20
    apply(shown, operator.process(changes(*((row, -1) for row, _ in tied))))
    assert +shown == Counter({("a", 1.0, (), 1): 1})
