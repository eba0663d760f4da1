"""`top` and `aggregate` of a stream of changes go by its rows as they are, whatever the batches."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.api.state import StepState
from headrace.core.expressions import type_expression
from headrace.core.operators.changelog.aggregate import ChangelogAggregateOperator
from headrace.core.operators.changelog.top import ChangelogTopOperator
from headrace.core.operators.operator import Operator
from headrace.core.plan import nodes
from headrace.core.plan.nodes import Ranking
from headrace.core.types.elements import DELETE
from headrace.state.memory.backend import MemoryBackend
from tests.support.runtime.changelogs import (
    ALL,
    Table,
    aggregate,
    computed,
    cut,
    fed,
    place,
    schema_of,
    timed,
)

SCHEMA = schema_of(g="string", id="int", v="double")
Change = tuple[str | None, int, float | None, bool]
"""Group and id, by which the changes are known; value; whether it is deleted."""


def top(
    rows: int,
    *by: str,
    key: str | None = "g",
    spare: int = 64,
    state: StepState | None = None,
) -> ChangelogTopOperator:
    keys = computed(SCHEMA, key) if key else ()
    ranked = tuple(
        Ranking(
            type_expression(text.partition(" ")[0], SCHEMA), "desc" in text, "desc" in text, text
        )
        for text in by
    )
    operation = nodes.Top(keys, None, rows, ranked, changelog_key=("g", "id"))
    return ChangelogTopOperator(operation, place(state), spare)


def totals(
    having: str | None = None,
    key: str | None = "g",
    state: StepState | None = None,
    **columns: str,
) -> ChangelogAggregateOperator:
    keys = computed(SCHEMA, key) if key else ()
    operation = aggregate(SCHEMA, keys, columns, having)
    changing = nodes.Aggregate(
        operation.key, None, operation.columns, operation.having, changelog_key=("g", "id")
    )
    return ChangelogAggregateOperator(changing, place(state))


def changes(*rows: Change, times: list[int] | None = None) -> pl.DataFrame:
    types = {"g": pl.String(), "id": pl.Int32(), "v": pl.Float64(), DELETE: pl.Boolean()}
    frame = pl.DataFrame(rows, schema=types, orient="row")
    return timed(frame, times or [0] * len(rows), ordered=True)


def ranks(operator: ChangelogTopOperator, *rows: Change) -> list[tuple[object, ...]]:
    """Group, rank, id and whether it is deleted, of what comes out."""
    out = [frame.select("g", "rank", "id", DELETE) for _, frame in operator.process(changes(*rows))]
    return sorted((row for frame in out for row in frame.rows()), key=repr)


def test_a_row_that_changes_goes_to_its_new_rank() -> None:
    operator = top(2, "v desc")
    assert ranks(operator, ("a", 1, 5.0, False), ("a", 2, 7.0, False), ("a", 3, 1.0, False)) == [
        ("a", 1, 2, False),
        ("a", 2, 1, False),
    ]
    assert ranks(operator, ("a", 3, 6.0, False)) == [("a", 2, 3, False)]
    assert ranks(operator, ("a", 2, 0.0, False)) == [("a", 1, 3, False), ("a", 2, 1, False)]
    assert ranks(operator, ("a", 2, -1.0, False)) == []


def test_a_row_that_is_deleted_makes_room_and_the_last_rank_goes_with_the_last_row() -> None:
    operator = top(2, "v desc")
    ranks(operator, ("a", 1, 5.0, False), ("a", 2, 7.0, False), ("a", 3, 1.0, False))
    assert ranks(operator, ("a", 2, 7.0, True)) == [("a", 1, 1, False), ("a", 2, 3, False)]
    assert ranks(operator, ("a", 1, 5.0, True)) == [("a", 1, 3, False), ("a", 2, 3, True)]
    assert ranks(operator, ("a", 3, 1.0, True), ("b", 9, 1.0, True)) == [("a", 1, 3, True)]
    assert ranks(operator, ("a", 3, 1.0, False)) == [("a", 1, 3, False)]


def test_of_several_changes_of_a_row_the_last_counts() -> None:
    operator = top(1, "v desc")
    assert ranks(operator, ("a", 1, 5.0, False), ("a", 1, 6.0, False), ("a", 2, 5.5, False)) == [
        ("a", 1, 1, False)
    ]
    assert ranks(operator, ("a", 1, 1.0, False), ("a", 1, 1.0, True)) == [("a", 1, 2, False)]


def test_the_time_of_a_rank_is_the_greatest_of_its_group() -> None:
    operator = top(1, "v desc")
    list(operator.process(changes(("a", 1, 1.0, False), ("a", 2, 0.0, False), times=[3, 8])))
    (frame,) = (out for _, out in operator.process(changes(("a", 1, 2.0, True), times=[5])))
    assert frame["__time"].dt.epoch("s").to_list() == [8]
    assert frame.columns == ["g", "id", "v", "rank", "__time", DELETE]


def test_a_group_without_rows_has_no_state() -> None:
    state = MemoryBackend().open_state(ALL)
    operation = nodes.Top(computed(SCHEMA, "g"), None, 1, (ranking(),), changelog_key=("g", "id"))
    operator = ChangelogTopOperator(operation, place(state), spare=2)
    rows = [("a", at, float(at), False) for at in range(20)]
    for at in range(20):
        list(operator.process(changes(rows[at])))
    assert state.measure_sizes()["rows"].rows >= 20
    for row in rows:
        list(operator.process(changes((*row[:3], True))))
    assert {name: size.rows for name, size in state.measure_sizes().items()} == {
        "keys": 0,
        "rows": 0,
    }


def ranking() -> Ranking:
    return Ranking(type_expression("v", SCHEMA), True, True, "v desc")


def test_deleted_rows_below_the_list_are_removed() -> None:
    state = MemoryBackend().open_state(ALL)
    operation = nodes.Top(computed(SCHEMA, "g"), None, 1, (ranking(),), changelog_key=("g", "id"))
    operator = ChangelogTopOperator(operation, place(state), spare=2)
    list(operator.process(changes(*(("a", at, float(at), False) for at in range(10)))))
    for at in range(10, 300):
        list(operator.process(changes(("a", at, -1.0, False), ("a", at - 1, -1.0, at > 10))))
    assert state.measure_sizes()["rows"].rows < 200


def test_an_aggregate_takes_back_what_a_row_was() -> None:
    operator = totals(n="count(*)", total="sum(v)", least="min(v)", all="collect_list(id)")
    table = Table(("g",))
    table.take(operator.process(changes(("a", 1, 5.0, False), ("a", 2, 0.1, False))))
    assert table.rows == {("a",): ("a", 2, 5.1, 0.1, [1, 2])}
    table.take(operator.process(changes(("a", 2, 7.0, False), ("b", 1, None, False))))
    assert table.rows == {("a",): ("a", 2, 12.0, 5.0, [1, 2]), ("b",): ("b", 1, None, None, [1])}
    table.take(operator.process(changes(("a", 1, 5.0, True), ("c", 1, 5.0, True))))
    table.take(operator.process(changes(("b", 1, None, True))))
    assert table.rows == {("a",): ("a", 1, 7.0, 7.0, [2])}
    assert table.deletes == 1


def test_a_group_that_no_longer_passes_is_deleted_as_it_was() -> None:
    operator = totals("total > 4", total="sum(v)")
    table = Table(("g",))
    table.take(operator.process(changes(("a", 1, 5.0, False), ("b", 1, 1.0, False))))
    assert table.rows == {("a",): ("a", 5.0)}
    ((_, out),) = operator.process(changes(("a", 1, 3.0, False), times=[4]))
    assert out.select("g", "total", DELETE).rows() == [("a", 5.0, True)]
    assert not [*operator.process(changes(("a", 1, 2.0, False)))]


def test_without_key_there_is_one_group() -> None:
    best, total = top(1, "v", key=None), totals(key=None, n="count(*)")
    rows = changes(("a", 1, 5.0, False), ("b", 1, 1.0, False))
    more = changes(("b", 1, 1.0, True))
    for operator, key, shown in ((best, ("rank",), ("a", 1, 5.0, 1)), (total, (), (1,))):
        table = Table(key)
        table.take(fed(operator, [rows, more]))
        assert [*table.rows.values()] == [shown]
        table.take(operator.process(changes(("a", 1, 5.0, True))))
        assert not table.rows


RUN = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.integers(0, 6),
        st.none() | st.sampled_from([0.0, 1.0, 2.0, 3.0, -2.0]),
        st.booleans(),
    ),
    max_size=40,
)


@pytest.mark.parametrize("key", ["g", None])
@settings(deadline=None, max_examples=50)
@given(
    run=RUN,
    ends=st.sets(st.integers(0, 40)),
    restarts=st.sets(st.integers(0, 40)),
    count=st.integers(1, 4),
    spare=st.integers(1, 3),
)
def test_any_batching_of_changes_gives_the_result_of_the_rows(
    key: str | None,
    run: list[Change],
    ends: set[int],
    restarts: set[int],
    count: int,
    spare: int,
) -> None:
    states = [MemoryBackend().open_state(ALL), MemoryBackend().open_state(ALL)]

    def begun() -> tuple[Operator, Operator]:
        return (
            top(count, "v desc", "id", "g", key=key, spare=spare, state=states[0]),
            totals(key=key, state=states[1], n="count(*)", total="sum(v)", most="max(v)"),
        )

    best, total = begun()
    ranked, summed = Table(("g", "rank") if key else ("rank",)), Table(("g",) if key else ())
    rows: dict[tuple[str | None, int], float | None] = {}
    done = 0
    for piece in cut(changes(*run), ends):
        ranked.take(best.process(piece))
        summed.take(total.process(piece))
        for group, id, value, gone in run[done : done + piece.height]:
            rows.pop((group, id), None) if gone else rows.update({(group, id): value})
        done += piece.height
        if done in restarts:
            states = [
                MemoryBackend().open_state(replace(ALL, restored_states=(state.freeze(),)))
                for state in states
            ]
            best, total = begun()
        check(key, rows, count, ranked, summed)


def check(
    key: str | None,
    rows: dict[tuple[str | None, int], float | None],
    count: int,
    ranked: Table,
    summed: Table,
) -> None:
    """Hold what came out against the rows as they are."""
    groups: dict[tuple[str | None, ...], list[tuple[object, ...]]] = {}
    for (group, id), value in rows.items():
        groups.setdefault((group,) if key else (), []).append((group, id, value))
    wanted_ranks, wanted_sums = {}, {}
    for name, members in groups.items():
        values = [float(str(v)) for _, _, v in members if v is not None]
        sums = (sum(values), max(values)) if values else (None, None)
        wanted_sums[name] = (*name, len(members), *sums)
        members.sort(
            key=lambda row: (row[2] is None, -float(str(row[2] or 0)), row[1], row[0] or "")
        )
        for at, row in enumerate(members[:count], 1):
            wanted_ranks[(*name, at)] = (*row, at)
    assert ranked.rows == wanted_ranks
    assert summed.rows == wanted_sums
