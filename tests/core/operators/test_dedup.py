"""`dedup`: the first row of a key once, or its last one again and again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.operators.dedup import (
    FirstByTimeOperator,
    FirstRowOperator,
    LastByTimeOperator,
    LastRowOperator,
)
from headrace.core.operators.operator import Operator
from headrace.core.plan.nodes import Dedup
from headrace.core.plan.nodes.windows import Ttl
from tests.support.runtime.changelogs import (
    Clock,
    Table,
    computed,
    cut,
    fed,
    place,
    rows_of,
    schema_of,
    second,
    timed,
)

SCHEMA = schema_of(k="string", v="int")
KEY = computed(SCHEMA, "k")


def first(ttl: Ttl | None = None, clock: Clock | None = None) -> FirstRowOperator:
    return FirstRowOperator(Dedup(KEY, "first", ttl), place(clock=clock))


def last() -> LastRowOperator:
    return LastRowOperator(Dedup(KEY, "last"), place())


def rows(*rows: tuple[str | None, int], times: list[int] | None = None) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema={"k": pl.String(), "v": pl.Int32()}, orient="row")
    return timed(frame, times) if times else frame


def shown(operator: FirstRowOperator, frame: pl.DataFrame) -> list[tuple[object, ...]]:
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
    operator = FirstRowOperator(Dedup(key, "first"), place())
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


def test_a_row_after_the_ttl_is_the_first_of_its_key_before_the_watermark_has_passed() -> None:
    operator = first(Ttl(10_000_000))
    assert shown(operator, rows(("a", 1), ("b", 1), times=[100, 105])) == [("a", 1), ("b", 1)]
    list(operator.advance(100_000_000))
    came = rows(("b", 2), ("a", 2), ("a", 3), ("b", 3), times=[112, 111, 104, 123])
    assert shown(operator, came) == [("a", 2), ("b", 3)]


def test_a_key_expires_by_the_wall_clock() -> None:
    clock = Clock(0)
    operator = first(Ttl(100, uses_processing_time=True), clock)
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
    operators = (
        FirstRowOperator(Dedup((), "first"), place()),
        LastRowOperator(Dedup((), "last"), place()),
    )
    outs = [[rows_of(o.process(rows(("a", n), ("b", n)))) for n in (1, 2)] for o in operators]
    assert outs == [[[("a", 1)], []], [[("b", 1, False)], [("b", 2, False)]]]


RUN = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 99)), max_size=12)


@settings(deadline=None, max_examples=60)
@given(run=RUN, ends=st.sets(st.integers(0, 12)), forgets=st.booleans())
def test_any_batching_gives_the_same_rows(
    run: list[tuple[str | None, int]], ends: set[int], forgets: bool
) -> None:
    frame = rows(*run, times=[at * 3 % 7 for at in range(len(run))])
    pieces = list(cut(frame, ends))
    expected: list[tuple[str | None, int]] = []
    newest: dict[str | None, int] = {}
    for at, (key, value) in enumerate(run):
        time = at * 3 % 7
        if key not in newest or (forgets and time - newest[key] > 2):
            expected.append((key, value))
        newest[key] = max(time, newest.get(key, 0))
    outs = fed(first(Ttl(2_000_000) if forgets else None), pieces)
    assert [row[:2] for _, out in outs for row in out.rows()] == expected
    table = Table(("k",))
    table.take(fed(last(), pieces))
    assert table.rows == {(key,): (key, value) for key, value in run}


def in_time(keep: str = "first", ttl_s: int | None = None, *, late: bool = False) -> Operator:
    """A `dedup` by event time, whose late rows have a reader or not."""
    ttl = None if ttl_s is None else Ttl(ttl_s * 1_000_000)
    where = replace(place(), read_streams=frozenset({"late"} if late else ()))
    if keep == "first":
        return FirstByTimeOperator(
            Dedup(KEY, "first", ttl, uses_event_time=True, late_to="late"), where
        )
    return LastByTimeOperator(Dedup(KEY, "last", ttl, uses_event_time=True, late_to="late"), where)


def placed_rows(*rows: tuple[str | None, int, int]) -> pl.DataFrame:
    """Key, value and second of each row."""
    frame = pl.DataFrame(
        [row[:2] for row in rows], schema={"k": pl.String(), "v": pl.Int32()}, orient="row"
    )
    return timed(frame, [at for _, _, at in rows], ordered=True)


def passed(operator: Operator, at_s: int) -> list[tuple[object, ...]]:
    """Return the output at the watermark, in order, without hidden columns."""
    return [row[:2] for _, out in operator.advance(at_s * 1_000_000) for row in out.rows()]


def test_by_event_time_the_first_is_the_earliest_however_rows_come() -> None:
    operator = in_time()
    assert fed_all(operator, placed_rows(("a", 1, 9), ("b", 2, 4))) == []
    assert fed_all(operator, placed_rows(("a", 3, 5), ("a", 4, 5))) == []
    assert passed(operator, 5) == [("b", 2)]
    assert passed(operator, 6) == [("a", 3)]
    assert fed_all(operator, placed_rows(("b", 5, 7), (None, 6, 6), (None, 7, 8))) == []
    assert passed(operator, 100) == [(None, 6)]


def test_the_last_row_by_event_time_is_emitted_at_the_watermark() -> None:
    operator = in_time("last")
    fed_all(operator, placed_rows(("a", 1, 9), ("a", 2, 4), ("b", 3, 4), ("a", 4, 3)))
    assert passed(operator, 5) == [("a", 2), ("b", 3)]
    assert passed(operator, 9) == []
    (frame,) = (out for _, out in operator.advance(10_000_000))
    assert frame.rows() == [("a", 1, second(9), False)]


def test_rows_before_the_watermark_are_late() -> None:
    operator = in_time(late=True)
    fed_all(operator, placed_rows(("a", 1, 5)))
    assert passed(operator, 8) == [("a", 1)]
    late = placed_rows(("b", 2, 7), ("b", 3, 8))
    assert [(to, out["v"].to_list()) for to, out in operator.process(late)] == [("late", [2])]
    assert operator._context.state.counters.late == 1  # type: ignore[attr-defined]
    assert passed(operator, 9) == [("b", 3)]


def test_by_event_time_a_key_expires_after_its_last_row() -> None:
    rows = placed_rows(("a", 1, 0), ("a", 2, 10), ("a", 3, 20), ("a", 4, 31), ("b", 5, 11))
    for ends in ([1, 2, 3, 4], [2], []):
        operator = in_time(ttl_s=10)
        out = []
        for piece, mark_s in marked(rows, ends):
            out += fed_all(operator, piece)
            out += passed(operator, mark_s)
        assert sorted(out, key=repr) == [("a", 1), ("a", 4), ("b", 5)], ends


def marked(frame: pl.DataFrame, ends: Iterable[int]) -> Iterator[tuple[pl.DataFrame, int]]:
    """The rows in chunks, each with the second that the following rows let the watermark reach."""
    done = 0
    for piece in cut(frame, ends):
        done += piece.height
        rest = frame["__time"][done:].dt.epoch("s").to_list()
        yield piece, min(rest, default=1000)


def fed_all(operator: Operator, frame: pl.DataFrame) -> list[tuple[object, ...]]:
    return [row for _, out in operator.process(frame) for row in out.rows()]


TIMED_RUN = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 99), st.integers(0, 12)),
    max_size=12,
)


@settings(deadline=None, max_examples=80)
@given(
    run=TIMED_RUN,
    ends=st.sets(st.integers(0, 12)),
    ttl_s=st.none() | st.integers(0, 4),
)
def test_what_is_first_and_last_in_time_depends_on_no_cut(
    run: list[tuple[str | None, int, int]], ends: set[int], ttl_s: int | None
) -> None:
    frame = placed_rows(*run)
    first_of, last_of, seen = [], {}, dict[str | None, int]()
    for key, value, time in sorted(run, key=lambda row: row[2]):
        if key not in seen or (ttl_s is not None and time - seen[key] > ttl_s):
            first_of.append((key, value))
        seen[key], last_of[(key,)] = time, (key, value)
    firsts, lasts, table = in_time(ttl_s=ttl_s), in_time("last"), Table(("k",))
    found = []
    for piece, mark_s in marked(frame, ends):
        assert not fed_all(firsts, piece) + fed_all(lasts, piece)
        found += passed(firsts, mark_s)
        table.take(lasts.advance(mark_s * 1_000_000))
    assert found == first_of
    assert table.rows == last_of
