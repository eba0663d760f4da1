"""Any cut of rows into batches, any course of time: the windows are those that can be counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.core.operators.windows import pane_expander, pane_state
from headrace.core.plan.nodes.windows import Cumulate, Slide, Trigger, Tumble, Window, WindowShape
from tests.support.runtime.window_operators import Driven, Row, aggregate, driven, frame_of, us

Out = tuple[object, ...]
Sums = defaultdict[Out, list[int]]
SIZES = st.integers(1, 12)
SHAPES = st.one_of(
    st.builds(lambda size, offset: Tumble(us(size), us(offset)), SIZES, SIZES),
    st.builds(lambda a, b, c: Slide(us(a), us(b), us(c)), SIZES, SIZES, SIZES),
    st.builds(lambda a, n, c: Cumulate(us(a * n), us(a), us(c)), SIZES, st.integers(1, 5), SIZES),
)
ROW: st.SearchStrategy[Row] = st.tuples(
    st.integers(-40, 40), st.sampled_from(["a", "b", "c", None]), st.integers(-9, 9)
)
BATCHES = st.lists(st.tuples(st.lists(ROW, max_size=8), st.integers(0, 12)), max_size=12)

SETTINGS = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(params=["as it is", "small pieces", "dense", "now and then dense"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds at which each of the ways in which windows are made is taken."""
    if request.param == "small pieces":
        for name, value in (("CHUNK_ROWS", 7), ("SINGLE_WINDOW_ROWS", 3), ("CHUNK_WINDOWS", 4)):
            monkeypatch.setattr(pane_expander, name, value)
        monkeypatch.setattr(pane_state, "FLUSH_ROWS", 5)
    if "dense" in request.param:
        monkeypatch.setattr(
            pane_expander, "CALL_COST_ROWS", -1_000_000 if request.param == "dense" else -20
        )


def windows_of(shape: WindowShape, time_us: int) -> Iterator[tuple[int, int]]:
    """The windows that a time is in, found by trying."""
    assert isinstance(shape, Tumble | Slide | Cumulate)
    every = shape.size_us if isinstance(shape, Tumble) else shape.every_us
    stride = every if isinstance(shape, Slide) else shape.size_us
    start = (time_us - shape.offset_us) // stride * stride + shape.offset_us
    while start > time_us - shape.size_us:
        ends = [start + shape.size_us]
        if isinstance(shape, Cumulate):
            ends = [start + at for at in range(every, shape.size_us + 1, every)]
        yield from ((start, end) for end in ends if start <= time_us < end)
        start -= stride


def counted(shape: WindowShape, rows: list[Row]) -> list[Out]:
    """The windows of these rows, counted one by one."""
    found: Sums = defaultdict(lambda: [0, 0])
    for at, key, x in rows:
        for start, end in windows_of(shape, us(at)):
            sums = found[key, start // 1_000_000, end // 1_000_000]
            sums[0] += 1
            sums[1] += x or 0
    return sorted(((*window, *sums) for window, sums in found.items()), key=str)


def run(step: Driven, batches: list[tuple[list[Row], int]]) -> tuple[list[Row], list[Out]]:
    """The rows that came, moved so that none is late, and the output."""
    now, came, out = -45, [], []
    for rows, further in batches:
        there = [(max(at, now), key, x) for at, key, x in rows]
        came += there
        out += step.said(step.operator.process(frame_of(there)))
        now += further
        out += step.time(now)
    return came, out + step.end()


def summed(out: list[Out], *, again: bool) -> Sums:
    """The final rows of windows: their last rows, or all rows where each has only new ones."""
    found: Sums = defaultdict(lambda: [0, 0])
    for *window, n, total in out:
        before = [0, 0] if again else found[tuple(window)]
        found[tuple(window)] = [before[0] + n, before[1] + total]  # type: ignore[operator]
    return found


@SETTINGS
@given(SHAPES, BATCHES)
def test_windows_do_not_depend_on_batches_and_time(
    sizes: None, shape: WindowShape, batches: list[tuple[list[Row], int]]
) -> None:
    step = driven(aggregate(Window(shape)))
    came, out = run(step, batches)
    assert sorted(out, key=str) == counted(shape, came)
    assert step.state.counters.late == 0
    assert step.operator.pending_rows == 0
    ends = [row[2] for row in out]
    assert ends == sorted(ends)  # type: ignore[type-var]


@SETTINGS
@given(SHAPES, BATCHES, st.integers(0, 9), st.booleans())
def test_late_rows_are_in_exactly_one_of_windows_and_late(
    sizes: None,
    shape: WindowShape,
    batches: list[tuple[list[Row], int]],
    lateness: int,
    accumulate: bool,
) -> None:
    window = Window(shape, us(lateness), late_to="late", keeps_rows=accumulate)
    step = driven(aggregate(window))
    now = -45
    late: list[Out] = []
    out: list[Out] = []
    expected: Sums = defaultdict(lambda: [0, 0])
    for rows, further in batches:
        for at, key, x in rows:
            over = [w for w in windows_of(shape, us(at)) if w[1] + us(lateness) > us(now)]
            if not over and any(True for _ in windows_of(shape, us(at))):
                late.append(("late", key, x))
            for start, end in over:
                sums = expected[key, start // 1_000_000, end // 1_000_000]
                sums[0] += 1
                sums[1] += x or 0
        out += step.said(step.operator.process(frame_of(rows)))
        now += further
        out += step.time(now)
    out += step.end()
    assert [row for row in out if row[0] == "late"] == late
    assert step.state.counters.late == len(late)
    in_time = [row for row in out if row[0] != "late"]
    assert summed(in_time, again=window.can_fire_again) == expected
    assert step.operator.pending_rows == 0


TRIGGERS = st.one_of(
    st.builds(lambda every: Trigger(every_us=us(every)), SIZES),
    st.builds(lambda count: Trigger(count=count), st.integers(1, 4)),
)


@SETTINGS
@given(SHAPES, BATCHES, TRIGGERS, st.booleans())
def test_what_fires_early_ends_as_if_it_had_not(
    sizes: None,
    shape: WindowShape,
    batches: list[tuple[list[Row], int]],
    trigger: Trigger,
    accumulate: bool,
) -> None:
    step = driven(aggregate(Window(shape, trigger=trigger, keeps_rows=accumulate)))
    came, out = run(step, batches)
    if trigger.count and not accumulate:
        assert all(isinstance(n, int) and 0 < n <= trigger.count for *_, n, _ in out)
    assert summed(out, again=accumulate) == summed(counted(shape, came), again=True)
    assert step.operator.pending_rows == 0


@settings(max_examples=15, deadline=None)
@given(st.one_of(st.builds(Tumble, SIZES), st.builds(Slide, SIZES, SIZES)), BATCHES)
def test_sql_finds_the_same_windows(
    shape: Tumble | Slide, batches: list[tuple[list[Row], int]]
) -> None:
    size, every = shape.size_us, shape.every_us if isinstance(shape, Slide) else shape.size_us
    came, out = run(driven(aggregate(Window(Slide(us(size), us(every))))), batches)
    connection = duckdb.connect()
    connection.execute("create table rows (t bigint, k varchar, x bigint)")
    if came:
        connection.executemany("insert into rows values (?, ?, ?)", came)
    found = connection.execute(f"""
        select k, start, start + {size}, count(*), sum(x)::bigint
        from rows, (select unnest(range(-100 * {every}, 100 * {every}, {every})) as start)
        where t >= start and t < start + {size} group by k, start
    """).fetchall()
    assert sorted(out, key=str) == sorted(found, key=str)
