"""Count triggers: every firing is emitted, as if rows came one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.operators.windows import row_trigger_windows
from headrace.core.plan.nodes.windows import (
    Evict,
    Global,
    Slide,
    Trigger,
    Tumble,
    Window,
)
from headrace.core.types.elements import EVENT_TIME
from tests.core.operators.windows.test_random_windows import BATCHES, SETTINGS, SHAPES, windows_of
from tests.core.operators.windows.test_user_functions import AGGREGATES, APPLY, EVICT, pipeline
from tests.support.paths import WINDOW_CODE
from tests.support.reference import random_pipelines
from tests.support.runtime import expected_rows
from tests.support.runtime.window_operators import (
    Driven,
    Row,
    aggregate,
    driven,
    frame_of,
    shown,
    us,
)

Out = tuple[object, ...]
TEN = Tumble(us(10))
COLUMNS = {"n": "count(*)", "x": "sum(x)", "head": "first(x)", "all": "collect_list(x)"}
KEYS = st.sampled_from(["", "key: k", "key: {d: v % 2, w: k}", "key: x"])
CUTS = st.lists(st.integers(1, 5), min_size=1, max_size=5)
NUMBERED: list[Row] = [(0, "a", x) for x in range(1, 8)]


def test_each_firing_has_the_rows_up_to_it() -> None:
    step = driven(aggregate(Window(Global(), trigger=Trigger(count=2))))
    assert step.rows(*NUMBERED) == [("a", 2, 3), ("a", 4, 10), ("a", 6, 21)]
    assert step.rows((0, "a", 8)) == [("a", 8, 36)]
    assert step.end() == [], "no row has come since"


def test_a_window_that_ends_has_its_last_rows_too() -> None:
    step = driven(aggregate(Window(TEN, trigger=Trigger(count=2))))
    assert step.rows((1, "a", 1), (2, "b", 5), (3, "a", 2), (4, "a", 3)) == [("a", 0, 10, 2, 3)]
    assert sorted(step.time(10)) == [("a", 0, 10, 3, 6), ("b", 0, 10, 1, 5)]


def test_a_thousand_rows_at_once_fire_ten_times() -> None:
    window = Window(Global(), trigger=Trigger(count=100), evict=Evict(last=10))
    step = driven(aggregate(window, ()))
    came = step.rows(*((at, "a", at) for at in range(1000)))
    assert came == [(10, sum(range(end - 10, end))) for end in range(100, 1001, 100)]
    assert step.end() == []


def test_a_trigger_may_replace_the_firing_at_the_end() -> None:
    once = Trigger(count=2, fires_at_end=False)
    step = driven(aggregate(Window(Global(), trigger=once)))
    assert step.rows(*NUMBERED) == [("a", 2, 3), ("a", 4, 10), ("a", 6, 21)]
    assert step.end() == []
    assert step.operator.pending_rows == 0
    step = driven(aggregate(Window(Slide(us(6), us(3)), trigger=once, keeps_rows=False)))
    assert step.rows((4, "a", 1), (1, "a", 2), (7, "a", 4)) == [
        ("a", 0, 6, 2, 3),
        ("a", 3, 9, 2, 5),
    ]
    assert step.time(8) == []
    assert step.rows((8, "a", 8), (10, "a", 16)) == [("a", 6, 12, 2, 12)]
    assert step.end() == []
    assert step.operator.pending_rows == 0


def test_firings_come_in_the_order_of_their_rows() -> None:
    step = driven(aggregate(Window(Slide(us(6), us(3)), trigger=Trigger(count=2))))
    rows = [(4, "b", 1), (4, "a", 1), (2, "b", 2), (5, "a", 2), (7, "b", 3)]
    assert step.rows(*rows) == [
        ("b", 0, 6, 2, 3),
        ("a", 0, 6, 2, 3),
        ("a", 3, 9, 2, 3),
        ("b", 3, 9, 2, 4),
    ]


def test_each_late_row_fires() -> None:
    window = Window(TEN, lateness_us=us(5), trigger=Trigger(count=3))
    step = driven(aggregate(window))
    step.rows((1, "a", 1), (2, "a", 2))
    assert step.time(10) == [("a", 0, 10, 2, 3)]
    late = step.rows((3, "a", 3), (11, "a", 9), (4, "a", 4), (5, "b", 5))
    assert late == [("a", 0, 10, 3, 6), ("a", 0, 10, 4, 10), ("b", 0, 10, 1, 5)]


def test_firings_of_rows_with_different_times_have_the_time_of_their_rows() -> None:
    window = Window(Global(), trigger=Trigger(count=2), keeps_rows=False)
    step = driven(aggregate(window))
    frames = step.operator.process(frame_of([(9, "a", 1), (4, "a", 2), (5, "a", 3), (1, "a", 4)]))
    ((_, frame),) = list(frames)
    assert frame[EVENT_TIME].dt.epoch("us").to_list() == [us(9), us(5)]


@dataclass
class RowByRow:
    """The firings of a window with a count trigger, found row by row."""

    window: Window
    now_us: int = us(-1000)
    rows: dict[Out, list[tuple[float, int, int]]] = field(default_factory=dict)
    """By key, start and end."""
    new: dict[Out, int] = field(default_factory=dict)
    came: int = 0

    def add(self, row: Row) -> Iterator[Out]:
        """Add a row to its windows; return those that fire."""
        time, key, x = row
        self.came += 1
        for start, end in sorted(self._find_windows(us(time)), key=lambda bounds: bounds[1]):
            if end + self.window.lateness_us <= self.now_us:
                continue
            name = (key, start, end)
            self.rows.setdefault(name, []).append((time, self.came, x or 0))
            self.new[name] = self.new.get(name, 0) + 1
            assert self.window.trigger is not None
            if end <= self.now_us or self.new[name] == self.window.trigger.count:
                yield self._fire(name)

    def advance(self, now_us: int) -> Iterator[Out]:
        """Advance time; return the windows that end."""
        before_us, self.now_us = self.now_us, now_us
        for name in sorted(self.rows, key=lambda name: name[2]):  # type: ignore[arg-type, return-value]
            is_due = self.window.fires_at_end and before_us < name[2] <= now_us  # type: ignore[operator]
            if is_due and self.new.get(name):
                yield self._fire(name)

    def _find_windows(self, time_us: int) -> Iterator[tuple[int, int]]:
        if isinstance(self.window.shape, Global):
            return iter([(-us(1e9), us(1e9))])
        return windows_of(self.window.shape, time_us)

    def _fire(self, name: Out) -> Out:
        self.new[name] = 0
        rows = sorted(self.rows[name])
        if self.window.evict is not None and self.window.evict.last is not None:
            rows = rows[-self.window.evict.last :]
        if not self.window.keeps_rows:
            del self.rows[name]
        numbers = [x for *_, x in rows]
        key, *bounds = name
        seconds = [at // 1_000_000 for at in bounds if self.window.has_bounds]  # type: ignore[operator]
        return (key, *seconds, len(rows), sum(numbers), numbers[0], numbers)


def by_key(out: Sequence[Out]) -> dict[object, list[Out]]:
    """Group rows by their key, in order."""
    found: dict[object, list[Out]] = {}
    for row in out:
        found.setdefault(row[0], []).append(row)
    return found


def cut(rows: Sequence[Row], cuts: Sequence[int]) -> Iterator[Sequence[Row]]:
    """Cut rows into batches of these sizes, again and again."""
    at = turn = 0
    while at < len(rows):
        size = cuts[turn % len(cuts)]
        yield rows[at : at + size]
        at, turn = at + size, turn + 1


class Model(Protocol):
    """What a step gives, found row by row."""

    def add(self, row: Row) -> Iterator[Out]: ...
    def advance(self, now_us: int) -> Iterator[Out]: ...


def run_beside(step: Driven, model: Model, data: st.DataObject) -> tuple[list[Out], list[Out]]:
    """Give batches, cut anywhere, to a step, and their rows to its model; return the output."""
    out, wanted, now = list[Out](), list[Out](), -45
    for rows, further in data.draw(BATCHES):
        for piece in cut(rows, data.draw(CUTS)):
            out += step.rows(*piece)
        wanted += [fired for row in rows for fired in model.add(row)]
        now += further
        out += step.time(now)
        wanted += model.advance(us(now))
    out += step.end()
    wanted += model.advance(us(1e9))
    return out, wanted


@pytest.mark.parametrize("bytes_at_once", [1, row_trigger_windows.MAX_FIRING_BYTES])
@SETTINGS
@given(st.data())
def test_firings_are_those_of_rows_that_come_one_by_one(
    monkeypatch: pytest.MonkeyPatch, bytes_at_once: int, data: st.DataObject
) -> None:
    monkeypatch.setattr(row_trigger_windows, "MAX_FIRING_BYTES", bytes_at_once)
    shape = data.draw(st.one_of(SHAPES, st.just(Global())))
    at_end = data.draw(st.booleans())
    never_late = isinstance(shape, Global) or not at_end
    window = Window(
        shape,
        0 if never_late else us(data.draw(st.integers(0, 9))),
        trigger=Trigger(count=data.draw(st.integers(1, 4)), fires_at_end=at_end),
        keeps_rows=data.draw(st.booleans()),
        evict=data.draw(st.sampled_from([None, Evict(last=2)])),
    )
    step, model = driven(aggregate(window, **COLUMNS)), RowByRow(window)
    out, wanted = run_beside(step, model, data)
    assert by_key(out) == by_key(wanted)
    assert step.operator.pending_rows == 0


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_whatever_happens_each_firing_is_emitted_once(data: st.DataObject) -> None:
    shape = data.draw(random_pipelines.TIMES)
    accumulate = data.draw(st.booleans())
    at_end = data.draw(st.sampled_from(["", ", at_end: false"]))
    window = f"{shape}, trigger: {{count: {data.draw(st.integers(1, 4))}{at_end}}}"
    window += f", accumulate: {str(accumulate).lower()}{data.draw(EVICT)}"
    apply = f"apply: {{python: '{WINDOW_CODE}:brief', returns: {APPLY['brief']}}}"
    step = data.draw(st.sampled_from([AGGREGATES[0], f"{AGGREGATES[0]}\n    having: n > 1", apply]))
    clauses = (data.draw(KEYS), f"window: {{{window}}}", step)
    rows = data.draw(random_pipelines.ROWS)
    text, (splits,) = expected_rows.perhaps_in_order(data, pipeline(*filter(None, clauses)), [rows])
    expected_rows.survive(data, text, {"rows": splits}, every_firing=True)


def test_one_batch_may_have_many_firings() -> None:
    step = driven(aggregate(Window(Global(), trigger=Trigger(count=1)), ()))
    ((_, frame),) = list(step.operator.process(frame_of([(0, "a", 1)] * 10_000)))
    assert [*shown("out", frame)] == [(n, n) for n in range(1, 10_001)]
