"""`top` of rows that are added and removed ranks the rows that are there, whatever the batches and
the pages of its groups.
"""

from __future__ import annotations

import random
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.api.state import StepState
from headrace.core.expressions import type_expression
from headrace.core.operators.changelog.retraction_top import RetractionTopOperator
from headrace.core.plan import nodes
from headrace.core.plan.nodes import Ranking
from headrace.core.types.data_types import to_polars
from headrace.core.types.elements import DELETE, ORDER, WEIGHT
from headrace.core.types.row_order import ORDER_TYPE
from headrace.state.memory.backend import MemoryBackend
from tests.support.runtime.changelogs import ALL, Table, computed, place, schema_of

SCHEMA = schema_of(g="string", v="double", tags="array<string>")
FRAME = {
    **{"g": pl.String(), "v": pl.Float64(), "tags": pl.List(pl.String())},
    **{ORDER: to_polars(ORDER_TYPE), WEIGHT: pl.Int64()},
}
Row = tuple[str | None, float | None, tuple[str, ...], int]
"""Group, value, tags, and the position among all rows."""


def top(
    rows: int, page_rows: int, state: StepState | None = None, key: str | None = "g"
) -> RetractionTopOperator:
    by = Ranking(type_expression("v", SCHEMA), True, True, "v desc")
    keys = computed(SCHEMA, key) if key else ()
    operation = nodes.Top(keys, None, rows, (by,), reads_retractions=True)
    return RetractionTopOperator(operation, place(state), page_rows)


def changes(*rows: tuple[Row, int]) -> pl.DataFrame:
    """Return rows with their weights."""
    placed = [
        (group, value, list(tags), {"time": 0, "at": at, "part": 0}, weight)
        for (group, value, tags, at), weight in rows
    ]
    return pl.DataFrame(placed, schema=FRAME, orient="row")


def rank(rows: list[Row], count: int, key: str | None) -> dict[object, object]:
    """Return the first rows of each group, by group and rank; ties go by position and values."""
    groups: dict[tuple[str | None, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row[0],) if key else (), []).append(row)
    wanted = dict[object, object]()
    for name, members in groups.items():
        members.sort(key=lambda r: (r[1] is None, -(r[1] or 0), r[3], r[0] or "", r[2]))
        for at, (group, value, tags, _) in enumerate(members[:count], 1):
            wanted[(*name, at)] = (group, value, list(tags), at)
    return wanted


ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from(["a", "a", "b", None]),
    st.none() | st.integers(0, 20).map(float),
    st.sampled_from([(), ("x",), ("x", "y")]),
    st.integers(0, 9),
)


@settings(deadline=None, max_examples=15)
@given(
    rows=st.lists(ROWS, max_size=60),
    removed=st.sets(st.integers(0, 59)),
    seed=st.integers(0, 1 << 30),
    cuts=st.sets(st.integers(1, 119), max_size=8),
    restarts=st.sets(st.integers(0, 8), max_size=2),
    page_rows=st.sampled_from([2, 4, 1024]),
    count=st.integers(1, 5),
    key=st.sampled_from(["g", None]),
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
) -> None:
    """Removals may arrive before their rows, equal rows are counted, and a restart may come."""
    every = [(row, 1) for row in rows] + [(rows[at], -1) for at in removed if at < len(rows)]
    random.Random(seed).shuffle(every)
    state = MemoryBackend().open_state(ALL)
    operator, start = top(count, page_rows, state, key), 0
    table = Table((key, "rank") if key else ("rank",))
    for number, end in enumerate((*sorted(cuts), len(every))):
        table.take(operator.process(changes(*every[start:end])))
        start = max(start, end)
        if number in restarts:
            state = MemoryBackend().open_state(replace(ALL, restored_states=(state.freeze(),)))
            operator = top(count, page_rows, state, key)
    there = [row for at, row in enumerate(rows) if at not in removed]
    assert table.rows == rank(there, count, key)
    if not there:
        assert not any(size.rows for size in state.measure_sizes().values())


def test_a_group_that_loses_its_last_row_is_gone_though_another_one_grows() -> None:
    state, table = MemoryBackend().open_state(ALL), Table(("g", "rank"))
    operator = top(9, 2, state)
    grown: list[tuple[Row, int]] = [(("a", float(at), (), at), 1) for at in range(3)]
    table.take(operator.process(changes((("b", 1.0, (), 5), 1))))
    table.take(operator.process(changes((("b", 1.0, (), 5), -1), *grown)))
    assert state.measure_sizes()["ranking"].rows == 3
    again: Row = ("b", 2.0, (), 6)
    table.take(operator.process(changes((again, 1), (grown[0][0], -1))))
    there = [again, *(row for row, _ in grown[1:])]
    assert table.rows == rank(there, 9, "g")


@pytest.mark.parametrize(
    ("row", "weight", "pages"), [(("a", 2000.5, (), 9000), 1, 1), (("a", 4095.0, (), 4095), -1, 5)]
)
def test_a_change_of_a_large_group_reads_the_pages_that_it_needs(
    row: Row, weight: int, pages: int
) -> None:
    """One page for a row that is not among the first, and those of the first rows otherwise."""
    operator = top(100, 64)
    rows: list[tuple[Row, int]] = [(("a", float(at), (), at), 1) for at in range(4096)]
    list(operator.process(changes(*rows)))
    assert operator._states is not None
    table = operator._states[1]._table
    read, written = list[int](), list[int]()
    put, find = table.put, table.find

    def spy_put(frame: pl.DataFrame) -> None:
        written.append(frame.height)
        put(frame)

    def spy_find(keys: pl.Series) -> pl.DataFrame:
        read.append(len(keys))
        return find(keys)

    table.put, table.find = spy_put, spy_find  # type: ignore[method-assign]
    out = [*operator.process(changes((row, weight)))]
    assert (bool(out), sum(written)) == (pages > 1, 1)
    assert sum(read) <= pages


def test_more_copies_of_a_row_than_there_are_ranks() -> None:
    operator, table = top(3, 4), Table(("g", "rank"))
    row: Row = ("a", 1.0, (), 0)
    table.take(operator.process(changes((row, 5), (("a", 0.0, (), 0), 1))))
    assert [*table.rows] == [("a", 1), ("a", 2), ("a", 3)]
    table.take(operator.process(changes((row, -3))))
    assert [shown[1] for shown in table.rows.values()] == [1.0, 1.0, 0.0]
    ((_, out),) = operator.process(changes((row, -2)))
    assert sorted(out.select("rank", "v", DELETE).rows()) == [
        (1, 0.0, False),
        (2, 1.0, True),
        (3, 0.0, True),
    ]
