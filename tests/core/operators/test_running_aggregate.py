"""Running aggregates: the whole new row of a key whenever it changes, whatever the batches."""

from __future__ import annotations

import math
from collections.abc import Mapping

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.operators.running_results import RunningAggregateOperator
from headrace.core.plan.nodes.windows import Ttl
from tests.support.runtime.changelogs import (
    Clock,
    Table,
    aggregate,
    computed,
    cut,
    fed,
    place,
    rows_of,
    schema_of,
    second,
    timed,
)

SCHEMA = schema_of(k="string", v="bigint", x="double")


def running(
    columns: Mapping[str, str],
    having: str | None = None,
    ttl: Ttl | None = None,
    clock: Clock | None = None,
    key: str | None = "k",
) -> RunningAggregateOperator:
    keys = computed(SCHEMA, key) if key else ()
    return RunningAggregateOperator(
        aggregate(SCHEMA, keys, columns, having, ttl), place(clock=clock)
    )


def rows(*rows: tuple[str | None, int | None]) -> pl.DataFrame:
    types = {"k": pl.String(), "v": pl.Int64()}
    frame = pl.DataFrame(rows, schema=types, orient="row")
    return frame.with_columns(x=pl.col("v").cast(pl.Float64))


def test_a_key_is_emitted_once_a_batch_with_all_that_is_known_of_it() -> None:
    operator = running({"n": "count(*)", "total": "sum(v)"})
    first = rows_of(operator.process(rows(("a", 1), ("b", 2), ("a", 3))))
    assert first == [("a", 2, 4, False), ("b", 1, 2, False)]
    assert rows_of(operator.process(rows(("b", 5)))) == [("b", 2, 7, False)]
    assert rows_of(operator.process(rows(("c", None), ("a", 1)))) == [
        ("a", 3, 5, False),
        ("c", 1, None, False),
    ]


def test_null_is_a_key_like_any_other() -> None:
    operator = running({"n": "count(*)"})
    assert rows_of(operator.process(rows((None, 1), ("", 1)))) == [("", 1, False), (None, 1, False)]
    assert rows_of(operator.process(rows((None, 1)))) == [(None, 2, False)]


def test_no_key_is_one_key() -> None:
    operator = running({"n": "count(*)"}, key=None)
    assert rows_of(operator.process(rows(("a", 1), ("b", 2)))) == [(2, False)]
    assert rows_of(operator.process(rows(("c", 1)))) == [(3, False)]


def test_zero_has_no_sign_and_nan_is_one_key() -> None:
    operator = running({"n": "count(*)"}, key="x")
    frame = pl.DataFrame({"k": ["a"] * 4, "v": [1] * 4, "x": [0.0, -0.0, math.nan, -math.nan]})
    assert [row[1:] for row in rows_of(operator.process(frame))] == [(2, False), (2, False)]
    assert [row[1:] for row in rows_of(operator.process(frame))] == [(4, False), (4, False)]


def test_the_time_of_a_row_is_the_greatest_of_its_key() -> None:
    operator = running({"n": "count(*)"})
    first = operator.process(timed(rows(("a", 1), ("a", 1)), [9, 4]))
    assert rows_of(first) == [("a", 2, second(9), False)]
    older = operator.process(timed(rows(("a", 1), ("b", 1)), [5, 3]))
    assert rows_of(older) == [("a", 3, second(9), False), ("b", 1, second(3), False)]


def test_having_deletes_what_passed_and_does_no_more() -> None:
    operator = running({"total": "sum(v)"}, having="total > 10")
    assert rows_of(operator.process(rows(("a", 4), ("b", 20)))) == [("b", 20, False)]
    assert rows_of(operator.process(rows(("a", 7), ("b", -15)))) == [
        ("a", 11, False),
        ("b", 5, True),
    ]
    assert rows_of(operator.process(rows(("b", 1)))) == []
    assert rows_of(operator.process(rows(("b", 9)))) == [("b", 15, False)]


def test_a_null_having_holds_a_key_back() -> None:
    operator = running({"total": "sum(v)"}, having="total > 10")
    assert rows_of(operator.process(rows(("a", None)))) == []
    assert rows_of(operator.process(rows(("a", 11)))) == [("a", 11, False)]


def test_a_key_expires_when_the_watermark_passes_its_ttl() -> None:
    operator = running({"n": "count(*)"}, ttl=Ttl(10_000_000))
    list(operator.process(timed(rows(("a", 1), ("b", 1)), [100, 105])))
    list(operator.advance(110_000_000))
    assert rows_of(operator.process(timed(rows(("b", 1)), [90]))) == [("b", 2, second(105), False)]
    list(operator.advance(110_000_001))
    came = operator.process(timed(rows(("a", 1), ("b", 1)), [111, 111]))
    assert rows_of(came) == [("a", 1, second(111), False), ("b", 3, second(111), False)]


def test_an_expired_key_emits_no_delete() -> None:
    operator = running({"total": "sum(v)"}, having="total > 10", ttl=Ttl(10_000_000))
    list(operator.process(timed(rows(("a", 11)), [100])))
    list(operator.advance(200_000_000))
    assert rows_of(operator.process(timed(rows(("a", 1)), [200]))) == []


def test_a_key_expires_when_the_wall_clock_passes_its_ttl() -> None:
    clock = Clock(1_000)
    operator = running({"n": "count(*)"}, ttl=Ttl(100, uses_processing_time=True), clock=clock)
    assert operator.next_tick_us() is None
    list(operator.process(rows(("a", 1), ("b", 1))))
    assert operator.next_tick_us() == 1_101
    clock.now_us = 1_100
    assert rows_of(operator.process(rows(("a", 1)))) == [("a", 2, False)]
    clock.now_us = 1_101
    list(operator.tick(1_101))
    assert rows_of(operator.process(rows(("a", 1), ("b", 1)))) == [
        ("a", 3, False),
        ("b", 1, False),
    ]


RUN = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.integers(-3, 3)), max_size=12
)


@settings(deadline=None, max_examples=60)
@given(run=RUN, ends=st.sets(st.integers(0, 12)))
def test_any_batching_gives_the_same_rows(
    run: list[tuple[str | None, int | None]], ends: set[int]
) -> None:
    columns = {"n": "count(*)", "total": "sum(v)", "least": "min(v)", "kinds": "count(distinct v)"}
    table = Table(("k",))
    table.take(fed(running(columns, having="total > 0"), cut(rows(*run), ends)))
    expected = {}
    for key in {key for key, _ in run}:
        values = [v for k, v in run if k == key and v is not None]
        if sum(values) > 0:
            count = sum(k == key for k, _ in run)
            expected[(key,)] = (key, count, sum(values), min(values), len(set(values)))
    assert table.rows == expected


@settings(deadline=None, max_examples=60)
@given(run=RUN, ends=st.sets(st.integers(0, 12)))
def test_what_goes_by_order_does_not_depend_on_the_batches(
    run: list[tuple[str | None, int | None]], ends: set[int]
) -> None:
    times = [at * 7 % 5 for at in range(len(run))]
    frame = timed(rows(*run), times, ordered=True)
    table = Table(("k",))
    columns = {"all": "collect_list(v)", "last": "last(v)"}
    table.take(fed(running(columns), cut(frame, ends)))
    placed = sorted(zip(times, range(len(run)), run, strict=True))
    for key in {key for key, _ in run}:
        values = [v for _, _, (k, v) in placed if k == key]
        assert table.rows[(key,)] == (key, [v for v in values if v is not None], values[-1])
