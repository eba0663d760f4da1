"""Joins of the rows of one window: what goes out of it, when, and of rows that come late."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import polars as pl
import pytest

from headrace.core.operators.operator import Output
from headrace.core.operators.windows import pane_expander
from headrace.core.plan.nodes import JoinType
from headrace.core.plan.nodes.matching import WindowMatch
from headrace.core.plan.nodes.windows import Cumulate, Global, Slide, Tumble, Window, WindowShape
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US, ORDER
from tests.support.runtime import join_oracle
from tests.support.runtime.changelogs import schema_of
from tests.support.runtime.two_input_operators import Inputs, Row, join, kept, plain, shown

LEFT, RIGHT = 0, 1
SCHEMAS = schema_of(k="double", v="int"), schema_of(k="double", p="int")
TYPES: tuple[JoinType, ...] = ("inner", "left", "right", "full", "semi", "anti")
NAN = float("nan")
TEN = Tumble(10)


def windowed(
    type: JoinType = "inner",
    shape: WindowShape = TEN,
    only: str | None = None,
    *,
    lateness: int = 0,
    ordered: bool = True,
    parallelism: int = 1,
) -> Inputs:
    """A join by `k` of rows of one window, in microseconds."""
    sides = (SCHEMAS[0], ["k"]), (SCHEMAS[1], ["k"])
    operation = join(*sides, WindowMatch(Window(shape, lateness)), type, only)
    return Inputs(operation, SCHEMAS, ordered=ordered, parallelism=parallelism)


def test_rows_of_one_window_meet_when_it_has_ended() -> None:
    inputs = windowed()
    assert inputs.rows(LEFT, [(1.0, 1), (1.0, 2)], [3, 12]) == []
    assert inputs.rows(RIGHT, [(1.0, 8), (1.0, 9)], [0, 10]) == []
    assert inputs.time(9) == []
    assert plain(inputs.time(10)) == [(1.0, 1, 1.0, 8, 0, 10)]
    assert plain(inputs.time()) == [(1.0, 2, 1.0, 9, 10, 20)]
    assert kept(inputs) == 0


def test_a_row_has_the_last_time_of_its_window_and_the_places_of_both() -> None:
    inputs = windowed("left")
    inputs.rows(LEFT, [(1.0, 1), (2.0, 2)], [3, 4])
    inputs.rows(RIGHT, [(1.0, 8)], [0])
    frame = pl.concat(frame for _, frame in inputs.time(10)).sort("l_k")
    assert frame[EVENT_TIME].cast(pl.Int64).to_list() == [9, 9]
    assert frame[ORDER].struct.unnest().rows() == [(9, 0, 2), (9, 1, 0)]
    assert frame.columns[:6] == ["l_k", "l_v", "r_k", "r_p", "window_start", "window_end"]


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        ("inner", [(1.0, 1, 1.0, 8)]),
        ("left", [(1.0, 1, 1.0, 8), (2.0, 2, None, None)]),
        ("right", [(1.0, 1, 1.0, 8), (None, None, 3.0, 9)]),
        ("full", [(1.0, 1, 1.0, 8), (2.0, 2, None, None), (None, None, 3.0, 9)]),
        ("semi", [(1.0, 1)]),
        ("anti", [(2.0, 2)]),
    ],
)
def test_what_goes_out_of_a_window(type: JoinType, expected: list[Row]) -> None:
    inputs = windowed(type)
    inputs.rows(LEFT, [(1.0, 1), (2.0, 2)], [3, 4])
    inputs.rows(RIGHT, [(1.0, 8), (3.0, 9)], [5, 6])
    assert [row[:-2] for row in plain(inputs.time(10))] == expected


def test_of_a_row_that_overlapping_windows_share_each_has_its_pairs() -> None:
    inputs = windowed("left", Slide(6, 2))
    inputs.rows(LEFT, [(1.0, 1)], [5])
    inputs.rows(RIGHT, [(1.0, 8)], [7])
    assert plain(inputs.time()) == [
        (1.0, 1, 1.0, 8, 2, 8),
        (1.0, 1, 1.0, 8, 4, 10),
        (1.0, 1, None, None, 0, 6),
    ]


def test_a_row_between_windows_is_nobodys_and_not_late() -> None:
    inputs = windowed("full", Slide(2, 5))
    inputs.time(4)
    assert inputs.rows(LEFT, [(1.0, 1), (None, 2)], [3, 4]) == []
    assert (inputs.time(), inputs.late) == ([], 0)


def test_the_window_of_all_rows_ends_with_them_and_has_no_bounds() -> None:
    inputs = windowed("left", Global())
    inputs.rows(LEFT, [(1.0, 1), (2.0, 2)], [5, 900])
    inputs.time(10**6)
    inputs.rows(RIGHT, [(1.0, 8)], [7])
    out = inputs.time()
    assert plain(out) == [(1.0, 1, 1.0, 8), (2.0, 2, None, None)]
    times = sorted(at for _, frame in out for at in frame[EVENT_TIME].cast(pl.Int64))
    assert times == [7, 900]
    assert kept(inputs) == 0


def test_a_row_is_late_when_all_its_windows_have_ended() -> None:
    inputs = windowed("full", Slide(6, 2))
    inputs.time(8)
    out = inputs.rows(LEFT, [(1.0, 1), (1.0, 2), (None, 3)], [3, 4, 3])
    assert shown(out, "late_l") == [(1.0, 1), (None, 3)]
    assert inputs.late == 2
    assert plain(inputs.time()) == [(1.0, 2, None, None, 4, 10)]


def test_a_row_with_a_null_key_goes_out_at_once_in_each_window_that_has_not_ended() -> None:
    inputs = windowed("full", Slide(6, 2))
    inputs.time(8)
    assert plain(inputs.rows(RIGHT, [(None, 1)], [7])) == [
        (None, None, None, 1, 4, 10),
        (None, None, None, 1, 6, 12),
    ]
    assert kept(inputs) == 0


def test_a_late_row_makes_new_pairs_only() -> None:
    inputs = windowed(lateness=5)
    inputs.rows(LEFT, [(1.0, 1)], [3])
    inputs.rows(RIGHT, [(1.0, 8)], [4])
    assert len(plain(inputs.time(14))) == 1
    assert plain(inputs.rows(RIGHT, [(1.0, 9)], [9])) == [(1.0, 1, 1.0, 9, 0, 10)]
    assert len(plain(inputs.rows(LEFT, [(1.0, 2)], [0]))) == 2
    assert inputs.time(15) == []
    assert shown(inputs.rows(LEFT, [(1.0, 3)], [9]), "late_l") == [(1.0, 3)]
    assert kept(inputs) == 0
    assert inputs.operators[0].watermark_delay_us == 5


Windows = Callable[[int], Sequence[join_oracle.Window]]


def sliding(size: int, every: int) -> Windows:
    def windows(at: int) -> list[join_oracle.Window]:
        starts = range(at - at % every, at - size, -every)
        return [(start, start + size) for start in starts if start <= at < start + size]

    return windows


def cumulating(size: int, every: int) -> Windows:
    def windows(at: int) -> list[join_oracle.Window]:
        start = at - at % size
        ends = range(start + every, start + size + 1, every)
        return [(start, end) for end in ends if at < end]

    return windows


SHAPES: list[tuple[WindowShape, Windows]] = [
    (Tumble(5), sliding(5, 5)),
    (Slide(6, 2), sliding(6, 2)),
    (Slide(6, 4), sliding(6, 4)),
    (Slide(2, 5), sliding(2, 5)),
    (Cumulate(6, 2), cumulating(6, 2)),
    (Global(), lambda at: [(0, MAX_WATERMARK_US)]),
]


def compared(type: JoinType, seed: str) -> None:
    """Random rows, watermarks and restarts, against nested loops."""
    chance = random.Random(f"{type}{seed}")
    shape, windows_of = chance.choice(SHAPES)
    only = chance.choice([None, "l_v > r_p"])
    bounded = not isinstance(shape, Global)
    lateness = chance.choice([0, 0, 3, 7]) if type == "inner" and bounded else 0
    meant = None if only is None else join_oracle.greater
    expected = join_oracle.Windows(type, meant, windows_of=windows_of, lateness=lateness)
    inputs = windowed(type, shape, only, lateness=lateness, ordered=chance.random() < 0.5)

    def same(got: Sequence[Output], wanted: list[Row]) -> None:
        cut = None if bounded else -2
        assert repr(plain(got)) == repr([row[:cut] for row in wanted])

    now = 0
    for _ in range(chance.randrange(5, 40)):
        what = chance.randrange(5)
        if what == 0:
            inputs.begin_anew(chance.randint(1, 3))
        elif what == 1:
            now += chance.randrange(6)
            same(inputs.time(now), expected.time(now))
        else:
            count = chance.randrange(1, 6)
            keys = [1.0, 2.0, NAN, 0.0, -0.0, None]
            rows = [(chance.choice(keys), chance.randrange(9)) for _ in range(count)]
            times = [now + chance.randrange(-4, 12) for _ in rows]
            side = chance.choice([LEFT, RIGHT])
            same(inputs.rows(side, rows, times), expected.rows(side, rows, times))
    same(inputs.time(), expected.time(MAX_WATERMARK_US))
    assert inputs.late == expected.late


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("seed", range(12))
def test_whatever_comes_a_join_puts_out_what_nested_loops_do(type: JoinType, seed: int) -> None:
    compared(type, str(seed))


@pytest.mark.parametrize("type", TYPES)
def test_so_it_does_when_windows_are_made_few_at_a_time(
    type: JoinType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pane_expander, "CHUNK_ROWS", 4)
    monkeypatch.setattr(pane_expander, "CHUNK_WINDOWS", 2)
    for seed in range(5):
        compared(type, f"few{seed}")
