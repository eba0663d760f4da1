"""A running top: ranks that change, ties by time and then by order, whatever the batches."""

from __future__ import annotations

import math

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.expressions import type_expression
from headrace.core.operators.running_results import RunningTopOperator
from headrace.core.plan import nodes
from headrace.core.plan.nodes import Ranking
from headrace.core.plan.nodes.windows import Ttl
from tests.support.runtime.changelogs import (
    Clock,
    Table,
    computed,
    cut,
    fed,
    place,
    schema_of,
    timed,
)

SCHEMA = schema_of(k="string", id="int", v="double")


def ranking(text: str) -> Ranking:
    """`expr [asc|desc]`, nulls where Spark has them."""
    value, _, way = text.partition(" ")
    down = way == "desc"
    return Ranking(type_expression(value, SCHEMA), down, down, text)


def top(
    rows: int, *by: str, key: str | None = "k", ttl: Ttl | None = None, clock: Clock | None = None
) -> RunningTopOperator:
    keys = computed(SCHEMA, key) if key else ()
    operation = nodes.Top(keys, None, rows, tuple(map(ranking, by)), ttl)
    return RunningTopOperator(operation, place(clock=clock))


def rows(
    *rows: tuple[str | None, int, float | None], times: list[int] | None = None
) -> pl.DataFrame:
    types = {"k": pl.String(), "id": pl.Int32(), "v": pl.Float64()}
    frame = pl.DataFrame(rows, schema=types, orient="row")
    return timed(frame, times or [0] * len(rows), ordered=True)


def ranks(operator: RunningTopOperator, frame: pl.DataFrame) -> list[tuple[object, ...]]:
    """Key, id and rank of the rows that come out, none of them a delete."""
    out = [row for _, frame in operator.process(frame) for row in frame.rows()]
    assert not any(row[-2] for row in out)
    return sorted(((row[0], row[3], row[1]) for row in out), key=repr)


def test_only_changed_ranks_are_emitted() -> None:
    operator = top(2, "v desc")
    first = rows(("a", 1, 5.0), ("a", 2, 7.0), ("a", 3, 1.0), ("b", 4, 0.0))
    assert ranks(operator, first) == [("a", 1, 2), ("a", 2, 1), ("b", 1, 4)]
    assert ranks(operator, rows(("a", 5, 6.0))) == [("a", 2, 5)]
    assert ranks(operator, rows(("a", 6, 9.0))) == [("a", 1, 6), ("a", 2, 2)]
    assert ranks(operator, rows(("a", 7, 1.0), ("b", 8, -1.0))) == [("b", 2, 8)]


def test_ties_go_by_event_time_and_then_by_order() -> None:
    operator = top(3, "v")
    frame = rows(("a", 1, 1.0), ("a", 2, 1.0), ("a", 3, 1.0), times=[5, 3, 5])
    assert ranks(operator, frame) == [("a", 1, 2), ("a", 2, 1), ("a", 3, 3)]
    assert ranks(operator, rows(("a", 4, 1.0), times=[4])) == [("a", 2, 4), ("a", 3, 1)]


def test_nan_is_the_greatest_and_nulls_stand_where_spark_has_them() -> None:
    values = [("a", 1, None), ("a", 2, math.nan), ("a", 3, math.inf), ("a", 4, -0.0), ("a", 5, 0.0)]
    assert ranks(top(9, "v"), rows(*values)) == [
        ("a", at + 1, id) for at, id in enumerate([1, 4, 5, 3, 2])
    ]
    assert ranks(top(9, "v desc"), rows(*values)) == [
        ("a", at + 1, id) for at, id in enumerate([2, 3, 4, 5, 1])
    ]


def test_several_columns_rank_one_after_the_other() -> None:
    operator = top(2, "v desc", "id desc")
    assert ranks(operator, rows(("a", 1, 1.0), ("a", 2, 1.0), ("a", 3, 0.0))) == [
        ("a", 1, 2),
        ("a", 2, 1),
    ]


def test_a_constant_decides_nothing() -> None:
    operator = top(2, "3", "v")
    assert ranks(operator, rows(("a", 1, 2.0), ("a", 2, 1.0))) == [("a", 1, 2), ("a", 2, 1)]


def test_no_key_is_one_key() -> None:
    operator = top(1, "v", key=None)
    assert ranks(operator, rows(("a", 1, 2.0), ("b", 2, 1.0))) == [("b", 1, 2)]
    assert ranks(operator, rows(("c", 3, 1.5))) == []
    assert ranks(operator, rows(("c", 4, 0.5))) == [("c", 1, 4)]


def test_the_time_of_a_rank_is_the_greatest_of_its_key() -> None:
    operator = top(1, "v desc")
    list(operator.process(rows(("a", 1, 1.0), ("a", 2, 0.0), times=[3, 8])))
    (frame,) = (frame for _, frame in operator.process(rows(("a", 3, 2.0), times=[5])))
    assert frame["__time"].dt.epoch("s").to_list() == [8]
    assert frame.columns == ["k", "id", "v", "rank", "_delete", "__time"]


def test_an_expired_key_starts_without_state() -> None:
    operator = top(1, "v desc", ttl=Ttl(10_000_000))
    list(operator.process(rows(("a", 1, 9.0), times=[100])))
    list(operator.process(rows(("a", 2, 1.0), times=[105])))
    list(operator.advance(115_000_000))
    assert ranks(operator, rows(("a", 3, 1.0), times=[115])) == []
    list(operator.advance(125_000_001))
    assert ranks(operator, rows(("a", 4, 1.0), times=[126])) == [("a", 1, 4)]


def test_a_key_expires_by_the_wall_clock() -> None:
    clock = Clock(0)
    operator = top(1, "v desc", ttl=Ttl(100, uses_processing_time=True), clock=clock)
    list(operator.process(rows(("a", 1, 9.0))))
    clock.now_us = 100
    assert ranks(operator, rows(("a", 2, 1.0))) == []
    clock.now_us = 201
    assert ranks(operator, rows(("a", 3, 1.0))) == [("a", 1, 3)]


RUN = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.none() | st.sampled_from([0.0, -0.0, 1.0, math.nan, -2.0]),
        st.integers(0, 3),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=60)
@given(run=RUN, ends=st.sets(st.integers(0, 12)), count=st.integers(1, 4))
def test_any_batching_gives_the_same_ranks(
    run: list[tuple[str | None, float | None, int]], ends: set[int], count: int
) -> None:
    numbered = [(key, id, value) for id, (key, value, _) in enumerate(run)]
    frame = rows(*numbered, times=[time for _, _, time in run])
    table = Table(("k", "rank"))
    table.take(fed(top(count, "v desc"), cut(frame, ends)))

    def place_of(id: int) -> tuple[object, ...]:
        _, value, time = run[id]
        size = 0.0 if value is None or math.isnan(value) else -value
        return (value is None, value == value, size, time, id)

    expected: dict[tuple[object, int], int] = {}
    for key in {key for key, _, _ in run}:
        ids = sorted((id for id, row in enumerate(run) if row[0] == key), key=place_of)
        expected |= {(key, at + 1): id for at, id in enumerate(ids[:count])}
    assert {key: row[1] for key, row in table.rows.items()} == expected
