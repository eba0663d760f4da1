"""Timers of trigger classes: literal rows and times, and windows followed one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import Window as Named
from headrace.connectors.memory import InMemoryData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.user_code import UserCode, UserCodeError
from headrace.core.plan.nodes.windows import Global, Slide, Trigger, Tumble, Window
from headrace.core.types.data_types import BIGINT, STRING, TIMESTAMP, Field, Schema
from tests.core.operators.windows.test_count_triggers import CUTS, Out, by_key, cut
from tests.core.operators.windows.test_random_windows import BATCHES, SETTINGS, SHAPES, windows_of
from tests.core.operators.windows.test_user_functions import pipeline
from tests.support.paths import WINDOW_CODE
from tests.support.reference import random_pipelines
from tests.support.runtime import memory_pipelines
from tests.support.runtime.window_operators import EPOCH, Driven, Row, aggregate, driven, us
from tests.support.user_code.window_code import Awaited

TEN = Tumble(us(10))
OWN = """
from datetime import UTC, datetime, timedelta

from headrace import Trigger, timer

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

class Own(Trigger):
    state = {"n": "bigint"}
    first = timer()
    second = timer()
    wake = timer(time="processing")

    def on_row(self, row, state, window):
        ROW

    def on_timer(self, at, state, window):
        TIMER
"""
SET = "state['first'] = EPOCH + timedelta(seconds=row['x']); return False"
TIMERS = (("first", False), ("second", False), ("wake", True))


def own(folder: Path, on_row: str = SET, on_timer: str = "return True") -> Trigger:
    """A trigger with timers; by default one is set to x seconds, and fires."""
    Path(folder, "own.py").write_text(OWN.replace("ROW", on_row).replace("TIMER", on_timer))
    return named(UserCode(folder, "own.py", "Own"), TIMERS)


def named(code: UserCode, timers: tuple[tuple[str, bool], ...]) -> Trigger:
    of = Schema((Field("k", STRING), Field("x", BIGINT)))
    times = (Field(name, TIMESTAMP) for name, _ in timers)
    state = Schema((Field("n", BIGINT), *times))
    return Trigger(code=code, input_columns=of, state=state, timers=timers)


def ran(folder: Path, on_row: str, on_timer: str = "return True", **more: Any) -> Driven:
    return driven(aggregate(Window(TEN, trigger=own(folder, on_row, on_timer), **more)))


def test_a_timer_fires_when_the_watermark_has_passed_it(tmp_path: Path) -> None:
    step = driven(aggregate(Window(TEN, trigger=own(tmp_path))))
    assert step.rows((1, "a", 5), (2, "b", 6)) == []
    assert step.time(5) == []
    assert step.rows((3, "a", 5)) == [], "it is set again, to the same time"
    assert step.time(5.5) == [("a", 0, 10, 2, 10)]
    assert step.time(7) == [("b", 0, 10, 1, 6)]
    assert sorted(step.time(10)) == [("a", 0, 10, 2, 10), ("b", 0, 10, 1, 6)]
    assert step.end() == []
    assert step.operator.pending_rows == 0


def test_a_timer_is_set_to_another_time_or_deleted(tmp_path: Path) -> None:
    body = "state['first'] = row['x'] and EPOCH + timedelta(seconds=row['x']); return False"
    step = ran(tmp_path, body.replace("row['x'] and", "None if row['x'] is None else"))
    step.rows((1, "a", 3), (1, "b", 3), (1, "a", 6), (1, "b", None))
    assert step.time(5) == []
    step.rows((1, "c", 8))
    step.rows((1, "c", 6))
    assert sorted(step.time(7)) == [("a", 0, 10, 2, 9), ("c", 0, 10, 2, 14)]


def test_a_timer_is_removed_when_its_window_ends(tmp_path: Path) -> None:
    step = ran(tmp_path, SET, lateness_us=us(20))
    step.rows((1, "a", 10), (1, "b", 9))
    assert sorted(step.time(15)) == [
        ("a", 0, 10, 1, 10),
        ("b", 0, 10, 1, 9),
        ("b", 0, 10, 1, 9),
    ]
    assert step.rows((2, "a", 12)) == [("a", 0, 10, 2, 22)], "a late row sets no timer"
    assert step.end() == []


def test_timers_and_ends_fire_in_the_order_of_time(tmp_path: Path) -> None:
    shape = Slide(us(10), us(5))
    step = driven(aggregate(Window(shape, trigger=own(tmp_path))))
    step.rows((7, "a", 12))
    assert step.time(20) == [
        ("a", 0, 10, 1, 12),
        ("a", 5, 15, 1, 12),
        ("a", 5, 15, 1, 12),
    ], "the window that ends at 10 has no timer at 12"
    step.rows((27, "a", 28))
    assert step.time(29) == [("a", 20, 30, 1, 28), ("a", 25, 35, 1, 28)]


def test_timers_of_the_same_time_fire_in_the_order_of_their_declaration(tmp_path: Path) -> None:
    body = "state['second'] = state['first'] = EPOCH + timedelta(seconds=5); return False"
    step = ran(
        tmp_path,
        f"state['n'] = 0; {body}",
        "state['n'] = 10 * state['n'] + (1 if self.timer == 'first' else 2); "
        "return state['n'] == 12",
    )
    step.rows((1, "a", 3))
    assert step.time(6) == [("a", 0, 10, 1, 3)]


def test_a_timer_may_set_itself_again(tmp_path: Path) -> None:
    step = ran(tmp_path, SET, "state['first'] = at + timedelta(seconds=3); return True")
    step.rows((1, "a", 2))
    assert step.time(6) == [("a", 0, 10, 1, 2)] * 2
    assert step.time(20) == [("a", 0, 10, 1, 2)] * 2, "at 8, and at the end"


def test_a_timer_of_a_time_that_has_passed_fires_with_the_next_watermark(tmp_path: Path) -> None:
    step = ran(tmp_path, SET)
    step.time(4)
    assert step.rows((5, "a", 1)) == []
    assert step.time(4.5) == [("a", 0, 10, 1, 1)]


def test_a_window_that_discards_its_rows_discards_its_timers(tmp_path: Path) -> None:
    body = f"state['second'] = EPOCH + timedelta(seconds=8); {SET}"
    step = ran(tmp_path, body, keeps_rows=False)
    step.rows((1, "a", 3), (2, "a", 4))
    assert step.time(9) == [("a", 0, 10, 2, 7)]
    step.rows((3, "a", 20))
    assert step.end() == [("a", 0, 10, 1, 20)]


def test_all_timers_fire_at_the_end_of_the_input(tmp_path: Path) -> None:
    again = "state['first'] = at + timedelta(seconds=5) if at.year < 1970 + 1 and "
    again += "at.minute < 1 else None; return True"
    step = driven(aggregate(Window(Global(), trigger=own(tmp_path, SET, again))))
    step.rows((1, "a", 50))
    assert step.end() == [("a", 1, 50)] * 4, "at 50, 55 and 60, and at the end"


def test_a_timer_that_is_always_set_again_is_an_error(tmp_path: Path) -> None:
    again = "state['first'] = at + timedelta(seconds=1); return False"
    step = driven(aggregate(Window(Global(), trigger=own(tmp_path, SET, again))))
    step.rows((1, "a", 5))
    with pytest.raises(UserCodeError, match="fired 100000 times at the end of the input") as raised:
        step.end()
    assert "(key k='a')" in raised.value.message
    assert raised.value.hint.startswith("a timer that always sets itself again never ends")


CLOCK = "state['wake'] = self.now + timedelta(seconds=row['x']); return False"


def test_a_timer_of_the_wall_clock_fires_at_its_time(tmp_path: Path) -> None:
    step = ran(tmp_path, CLOCK)
    step.tick(100)
    step.rows((1, "a", 5), (2, "b", 7))
    assert step.operator.next_tick_us() == us(105)
    assert step.tick(105) == [("a", 0, 10, 1, 5)]
    assert step.operator.next_tick_us() == us(107)
    assert sorted(step.time(10)) == [("a", 0, 10, 1, 5), ("b", 0, 10, 1, 7)]
    assert step.tick(110) == [], "the window has ended"
    assert step.operator.next_tick_us() is None


def test_a_job_wakes_for_a_timer_of_the_wall_clock(tmp_path: Path) -> None:
    trigger = f"trigger: {{python: '{WINDOW_CODE}:Clocked', of: v, at_end: false}}"
    window = f"window: {{global: true, {trigger}, accumulate: false}}"
    text = pipeline("key: k", window, "aggregate: {n: count(*), s: sum(v)}")
    some = [{"k": 1, "s": "a", "v": n, "x": 0.0, "at": EPOCH} for n in (3, 4)]
    frame = random_pipelines.frame(some)
    memory = InMemoryData({"in": {"0": [frame, 5.0, frame]}})
    bounds = memory_pipelines.bounds_of(1)
    job = memory_pipelines.job_of(tmp_path, text, memory, KernelExecutor(), bounds)
    outcome = memory_pipelines.run_simulated(job, 1)
    assert outcome.failure is None
    found = [row[:-1] for row in memory_pipelines.rows(memory, "out")]
    assert found == [(1, 2, 7)], "the last rows come 5 s later, and then the end"


@pytest.mark.parametrize(("one", "other"), [("first", "wake"), ("wake", "first")])
def test_a_timer_sets_a_timer_of_the_other_clock(one: str, other: str, tmp_path: Path) -> None:
    body = f"state['{one}'] = EPOCH + timedelta(seconds=row['x']); return False"
    again = f"state['{other}'] = at + timedelta(seconds=2) if self.timer == '{one}' else None"
    step = ran(tmp_path, body, f"{again}; return True")
    step.rows((1, "a", 5))
    advance = {"first": step.time, "wake": step.tick}
    assert advance[one](6) == [("a", 0, 10, 1, 5)]
    assert advance[other](6.5) == []
    assert advance[other](8) == [("a", 0, 10, 1, 5)]


def test_windows_by_the_wall_clock_have_timers_by_it(tmp_path: Path) -> None:
    step = driven(aggregate(Window(TEN, uses_processing_time=True, trigger=own(tmp_path, CLOCK))))
    step.tick(100)
    step.rows((1, "a", 5), (2, "b", 10))
    assert step.tick(107) == [("a", 100, 110, 1, 5)]
    assert sorted(step.tick(120)) == [("a", 100, 110, 1, 5), ("b", 100, 110, 1, 10)]
    step.rows((1, "a", 0))
    assert step.tick(120) == [("a", 120, 130, 1, 0)]
    step.rows((1, "a", 5))
    assert step.end() == [("a", 120, 130, 2, 5)]
    assert step.operator.next_tick_us() is None


def test_the_class_sees_the_watermark_and_the_name_of_its_timer(tmp_path: Path) -> None:
    step = ran(
        tmp_path,
        f"assert self.timer is None and self.watermark is None; {SET}",
        "assert self.timer == 'first' and at == EPOCH + timedelta(seconds=5); "
        "assert self.watermark == EPOCH + timedelta(seconds=6); return True",
    )
    step.rows((1, "a", 5))
    assert step.time(6) == [("a", 0, 10, 1, 5)]
    assert step.state.clock_us == us(6)


@pytest.mark.parametrize(
    ("row", "timer", "said"),
    [
        ("state['first'] = 5; return True", "return True", 'sets the timer "first" to 5 (key'),
        (SET, "return 1", "on_timer must return True or False, got int (key k='a', window"),
        (SET, "return 1 / 0", "own.py:18: ZeroDivisionError: division by zero (key k='a', window"),
    ],
)
def test_a_mistake_is_told_with_key_and_window(
    row: str, timer: str, said: str, tmp_path: Path
) -> None:
    step = ran(tmp_path, row, timer)
    with pytest.raises(UserCodeError) as raised:
        step.rows((1, "a", 5))
        step.time(6)
    assert said in raised.value.message


class ModelClocks(ABC):
    """What a trigger class reads of its operator, as a model answers it."""

    clock_us: int
    wall_us: int
    code: Awaited
    timer: str | None

    def __post_init__(self) -> None:
        self.code._set_context(self)

    @property
    def watermark_us(self) -> int | None:
        return self.clock_us

    def now_us(self) -> int:
        return self.wall_us

    @abstractmethod
    def add(self, row: Row) -> Iterator[Out]: ...
    @abstractmethod
    def advance(self, clock_us: int) -> Iterator[Out]: ...
    @abstractmethod
    def tick(self, wall_us: int) -> Iterator[Out]: ...


def run_beside_by_clocks(
    step: Driven, model: ModelClocks, data: st.DataObject
) -> tuple[list[Out], list[Out]]:
    """Do as `run_beside`, with a wall clock that advances too."""
    out, wanted, now, wall = list[Out](), list[Out](), -45, 0
    for rows, further in data.draw(BATCHES):
        for piece in cut(rows, data.draw(CUTS)):
            out += step.rows(*piece)
        wanted += [fired for row in rows for fired in model.add(row)]
        now += further
        for between in data.draw(st.sampled_from([[now], [now - further // 2, now]])):
            out += step.time(between)
        wanted += model.advance(us(now))
        wall += data.draw(st.integers(0, 5))
        out += step.tick(wall)
        wanted += model.tick(us(wall))
    out += step.end()
    wanted += model.advance(us(1e9))
    return out, wanted


@dataclass
class Followed(ModelClocks):
    """The windows of a trigger with timers, followed one by one."""

    window: Window
    clock_us: int = us(-1000)
    wall_us: int = 0
    rows: dict[Out, list[int]] = field(default_factory=dict)
    """The values of the rows of each window, by key, start and end."""
    states: dict[Out, dict[str, Any]] = field(default_factory=dict)
    code: Awaited = field(default_factory=Awaited)
    timer: str | None = None

    def add(self, row: Row) -> Iterator[Out]:
        """Add a row to its windows; return those that fire."""
        time, key, x = row
        for start, end in sorted(self._find_windows(us(time)), key=lambda bounds: bounds[1]):
            name = (key, start, end)
            if end + self.window.lateness_us <= self.clock_us:
                continue
            self.rows.setdefault(name, []).append(x or 0)
            state = self.states.setdefault(name, dict.fromkeys(("n", *dict(WAITING))))
            named = Named({}, None, None)
            if end <= self.clock_us or self.code.on_row({"x": x}, state, named):
                yield self._fire(name)

    def advance(self, clock_us: int) -> Iterator[Out]:
        """Advance the watermark: timers and ends of windows, each at its time."""
        before_us = self.clock_us
        for at_us in self._times(before_us, clock_us):
            yield from self._call_timers(("soon", "later"), at_us, clock_us, before_us)
            for name in sorted(self.rows, key=lambda name: name[2]):  # type: ignore[arg-type, return-value]
                is_due = before_us < name[2] == at_us  # type: ignore[operator]
                if is_due and self.rows[name] and self.window.fires_at_end:
                    yield self._fire(name)
        self.clock_us = clock_us

    def tick(self, wall_us: int) -> Iterator[Out]:
        """Advance the wall clock."""
        self.wall_us = wall_us
        while due := self._find_due(("wake",), wall_us + 1, self.clock_us):
            yield from self._call(*due[1:])

    def _times(self, before_us: int, clock_us: int) -> list[int]:
        """Every second and the microsecond after it: all that happens happens then."""
        first = max(before_us, us(-60)) // 1_000_000
        seconds = range(first, min(clock_us, us(90)) // 1_000_000 + 1)
        ends = {us(each) for each in seconds} | {us(each) + 1 for each in seconds}
        ends |= {clock_us, *(name[2] for name in self.rows)}  # type: ignore[arg-type]
        return sorted(at for at in ends if before_us < at <= clock_us)

    def _call_timers(
        self, names: tuple[str, ...], at_us: int, clock_us: int, before_us: int
    ) -> Iterator[Out]:
        while due := self._find_due(names, at_us, before_us):
            yield from self._call(*due[1:])

    def _find_due(
        self, names: tuple[str, ...], until_us: int, clock_us: int
    ) -> tuple[int, Out, str] | None:
        """Return the first timer before a time, of a window that has not ended."""
        found = []
        for name, state in self.states.items():
            for rank, timer in enumerate(names):
                if state[timer] is None or name[2] <= clock_us:  # type: ignore[operator]
                    continue
                at_us = (state[timer] - EPOCH) // timedelta(microseconds=1)
                is_over = timer != "wake" and at_us >= name[2]
                if at_us < until_us and not is_over:
                    found.append((at_us, name[2], rank, name, timer))
        at, _, _, name, timer = min(found, key=lambda each: each[:3], default=(0, 0, 0, (), ""))
        return (at, name, timer) if name else None

    def _call(self, name: Out, timer: str) -> Iterator[Out]:
        state = self.states[name]
        at, state[timer], self.timer = state[timer], None, timer
        fires = self.code.on_timer(at, state, Named({}, None, None))
        self.timer = None
        if fires:
            yield self._fire(name)

    def _find_windows(self, time_us: int) -> Iterator[tuple[int, int]]:
        if isinstance(self.window.shape, Global):
            return iter([(-us(1e9), us(1e9))])
        return windows_of(self.window.shape, time_us)

    def _fire(self, name: Out) -> Out:
        key, *bounds = name
        numbers = self.rows[name]
        if not self.window.keeps_rows:
            del self.rows[name], self.states[name]
        seconds = [at // 1_000_000 for at in bounds if self.window.has_bounds]  # type: ignore[operator]
        return (key, *seconds, len(numbers), sum(numbers))


WAITING = (("soon", False), ("later", False), ("wake", True))


@SETTINGS
@given(st.data())
def test_timers_fire_as_if_windows_were_followed_one_by_one(data: st.DataObject) -> None:
    shape = data.draw(st.one_of(SHAPES, st.just(Global())))
    at_end = data.draw(st.booleans())
    never_late = isinstance(shape, Global) or not at_end
    code = UserCode(WINDOW_CODE.parent, WINDOW_CODE.name, "Awaited")
    window = Window(
        shape,
        0 if never_late else us(data.draw(st.integers(0, 9))),
        trigger=replace(named(code, WAITING), fires_at_end=at_end),
        keeps_rows=data.draw(st.booleans()),
    )
    step, model = driven(aggregate(window)), Followed(window)
    out, wanted = run_beside_by_clocks(step, model, data)
    assert by_key(out) == by_key(wanted)
    assert step.operator.pending_rows == 0
    assert step.operator.next_tick_us() is None
