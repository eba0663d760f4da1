"""Count windows: rows of a key in the order in which they come."""

from __future__ import annotations

from collections import Counter
from math import nan

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.plan.nodes.windows import Count, Window
from headrace.core.types.elements import MAX_WATERMARK_US
from tests.support.reference.random_pipelines import BEGIN
from tests.support.runtime.keyed_operators import Keyed, Row, frame_of
from tests.support.runtime.operator_subtasks import Event, Subtasks, plan_of

ROWS = st.lists(
    st.tuples(st.sampled_from([None, 1, 2]), st.integers(0, 9), st.integers(-9, 9)), max_size=40
)
CUTS = st.lists(st.integers(1, 15), min_size=1, max_size=10)
SHAPES = st.sampled_from([(3, 3), (1, 1), (4, 2), (6, 4), (2, 5), (5, 1)])


def test_a_window_is_emitted_with_its_last_row() -> None:
    keyed = Keyed(Window(Count(2, 2)))
    keyed.process((1, 0, 10), (2, 0, 7))
    assert keyed.rows == []
    keyed.process((1, 0, 5), (1, 0, 1))
    assert keyed.rows == [(1, 2, 15)]
    keyed.process((1, 0, 1))
    assert keyed.rows == [(1, 2, 15), (1, 2, 2)]


def test_rows_of_windows_that_never_fill_are_counted() -> None:
    keyed = Keyed(Window(Count(3, 3)))
    keyed.process((1, 0, 1), (1, 0, 1), (2, 0, 1))
    keyed.process((1, 0, 1), (2, 0, 1))
    keyed.advance(MAX_WATERMARK_US)
    assert keyed.rows == [(1, 3, 3)]
    assert keyed.state.counters.unfilled == 2


def test_a_sliding_window_begins_with_the_rows_there_are() -> None:
    keyed = Keyed(Window(Count(4, 2)), keyed=False)
    keyed.process(*((None, 0, number) for number in range(1, 8)))
    assert keyed.rows == [(2, 3), (4, 10), (4, 18)]


def test_an_event_of_a_window_happened_with_its_latest_row() -> None:
    keyed = Keyed(Window(Count(2, 2)))
    outputs = [*keyed.operator.process(frame_of([(1, 9, 1), (1, 4, 1)]))]
    assert [int(f["__time"].cast(int)[0]) for _, f in outputs] == [9]


@settings(max_examples=60, deadline=None)
@given(ROWS, CUTS, SHAPES, st.booleans())
def test_batches_may_be_cut_anywhere(
    rows: list[Row], cuts: list[int], shape: tuple[int, int], with_key: bool
) -> None:
    keyed = Keyed(Window(Count(*shape)), keyed=with_key)
    left, turn = rows, 0
    while left:
        size = cuts[turn % len(cuts)]
        keyed.process(*left[:size])
        left, turn = left[size:], turn + 1
    wanted, unfilled = _one_by_one(rows, *shape, keyed=with_key)
    assert Counter(keyed.rows) == wanted
    assert keyed.state.counters.unfilled == unfilled


def _one_by_one(
    rows: list[Row], size: int, every: int, *, keyed: bool
) -> tuple[Counter[tuple[int | None, ...]], int]:
    """Return the windows of these rows, row by row."""
    came: dict[int | None, list[int]] = {}
    windows: Counter[tuple[int | None, ...]] = Counter()
    for key, _, number in rows:
        numbers = came.setdefault(key if keyed else 0, [])
        numbers.append(number)
        if len(numbers) % every == 0:
            last = numbers[-size:]
            windows[(*((key,) if keyed else ()), len(last), sum(last))] += 1
    return windows, sum(len(numbers) % every for numbers in came.values())


def test_nan_is_a_key() -> None:
    subtask = Subtasks(plan_of("key: {x: x}, window: {count: 3}, aggregate: {n: count(*)}"), 1)
    batches = [(1.0,), (1.0, 1.0, nan), (nan, nan)]
    shown = [subtask.said(Event(0, tuple(map(_row, batch)))) for batch in batches]
    assert [["nan" in row for _, row in rows] for rows in shown] == [[], [False], [True]]


def _row(x: float) -> dict[str, object]:
    return {"k": None, "s": None, "v": None, "x": x, "at": BEGIN}
