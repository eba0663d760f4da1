"""`dedup`: the first row of a key once, or its last one again and again."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.operators.dedup import First, Last
from headrace.core.plan.nodes import Dedup
from headrace.core.plan.windows import Ttl
from tests.runtime.changing import (
    Clock,
    Table,
    computed,
    cut,
    fed,
    place,
    rows_of,
    schema_of,
    timed,
)

SCHEMA = schema_of(k="string", v="int")
KEY = computed(SCHEMA, "k")


def first(ttl: Ttl | None = None, clock: Clock | None = None) -> First:
    return First(Dedup(KEY, "first", ttl), place(clock=clock))


def last() -> Last:
    return Last(Dedup(KEY, "last"), place())


def rows(*rows: tuple[str | None, int], times: list[int] | None = None) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema={"k": pl.String(), "v": pl.Int32()}, orient="row")
    return timed(frame, times) if times else frame


def shown(operator: First, frame: pl.DataFrame) -> list[tuple[object, ...]]:
    """The rows that come out, without what is hidden."""
    return [row[:2] for _, frame in operator.process(frame) for row in frame.rows()]


def test_the_first_row_of_a_key_goes_out_once() -> None:
    operator = first()
    assert shown(operator, rows(("a", 1), ("b", 2), ("a", 3))) == [("a", 1), ("b", 2)]
    assert shown(operator, rows(("b", 4))) == []
    assert shown(operator, rows(("a", 5), (None, 6), (None, 7), ("", 8))) == [(None, 6), ("", 8)]
    assert shown(operator, rows((None, 9))) == []


def test_the_first_to_come_is_the_first_whatever_its_time() -> None:
    operator = first()
    frame = rows(("a", 1), ("a", 2), times=[9, 3])
    ((stream, out),) = operator.process(frame)
    assert stream == "out" and out.equals(frame.head(1))


def test_a_key_of_several_columns_and_of_an_expression() -> None:
    key = computed(SCHEMA, "k", half="v / 2")
    operator = First(Dedup(key, "first"), place())
    assert shown(operator, rows(("a", 2), ("a", 3), ("b", 2), ("a", 2))) == [
        ("a", 2),
        ("a", 3),
        ("b", 2),
    ]


def test_a_repeated_key_is_remembered_from_its_greatest_time() -> None:
    operator = first(Ttl(10_000_000))
    assert shown(operator, rows(("a", 1), ("b", 1), times=[100, 100])) == [("a", 1), ("b", 1)]
    assert shown(operator, rows(("a", 2), ("a", 3), times=[108, 90])) == []
    list(operator.advance(110_000_000))
    assert shown(operator, rows(("b", 2), times=[99])) == []
    list(operator.advance(110_000_001))
    assert shown(operator, rows(("a", 4), ("b", 4), times=[111, 111])) == [("b", 4)]


def test_a_key_is_forgotten_by_the_wall_clock() -> None:
    clock = Clock(0)
    operator = first(Ttl(100, processing=True), clock)
    assert shown(operator, rows(("a", 1), ("b", 1))) == [("a", 1), ("b", 1)]
    clock.now_us = 60
    assert shown(operator, rows(("a", 2))) == []
    clock.now_us = 101
    assert shown(operator, rows(("a", 3), ("b", 3))) == [("b", 3)]


def test_the_last_row_of_a_key_replaces_those_before() -> None:
    operator = last()
    assert rows_of(operator.process(rows(("a", 1), ("b", 2), ("a", 3)))) == [
        ("a", 3, False),
        ("b", 2, False),
    ]
    assert rows_of(operator.process(rows(("a", 4)))) == [("a", 4, False)]


def test_without_key_there_is_one_row() -> None:
    operators = First(Dedup((), "first"), place()), Last(Dedup((), "last"), place())
    outs = [[rows_of(o.process(rows(("a", n), ("b", n)))) for n in (1, 2)] for o in operators]
    assert outs == [[[("a", 1)], []], [[("b", 1, False)], [("b", 2, False)]]]


RUN = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 99)), max_size=12)


@settings(deadline=None, max_examples=60)
@given(run=RUN, ends=st.sets(st.integers(0, 12)), forgets=st.booleans())
def test_any_cut_of_the_rows_comes_to_the_same(
    run: list[tuple[str | None, int]], ends: set[int], forgets: bool
) -> None:
    frame = rows(*run, times=[at % 3 for at in range(len(run))])
    pieces = list(cut(frame, ends))
    expected: dict[str | None, int] = {}
    for key, value in run:
        expected.setdefault(key, value)
    outs = fed(first(Ttl(1) if forgets else None), pieces)
    assert [row[:2] for _, out in outs for row in out.rows()] == list(expected.items())
    table = Table(("k",))
    table.take(fed(last(), pieces))
    assert table.rows == {(key,): (key, value) for key, value in run}
