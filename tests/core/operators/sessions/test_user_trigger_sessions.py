"""Sessions with trigger classes: literal rows, and sessions followed one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import Window as Named
from headrace.core.api.user_code import UserCode, UserCodeError
from headrace.core.plan.nodes.windows import Session, Trigger, Window
from headrace.core.types.data_types import BIGINT, STRING, TIMESTAMP, Field, Schema
from tests.core.operators.sessions.test_trigger_sessions import by_window
from tests.core.operators.windows.test_count_triggers import Out, by_key
from tests.core.operators.windows.test_random_windows import SETTINGS
from tests.core.operators.windows.test_trigger_timers import (
    WAITING,
    ModelClocks,
    named,
    run_beside_by_clocks,
)
from tests.support.paths import WINDOW_CODE
from tests.support.runtime.window_operators import EPOCH, Driven, Row, aggregate, driven, us
from tests.support.user_code.window_code import Awaited

OWN = """
from datetime import UTC, datetime, timedelta

from headrace import Trigger, timer

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

class Own(Trigger):
    state = {"n": "bigint"}
    wake = timer()
    alarm = timer(time="processing")

    def on_row(self, row, state, window):
        ROW

    def on_timer(self, at, state, window):
        TIMER

    def merge(self, states):
        MERGE
"""
SUM = "state['n'] = (state['n'] or 0) + row['x']; return state['n'] > 5"
MERGE = "return {**states[-1], 'n': sum(each['n'] for each in states)}"


def ran(
    folder: Path,
    on_row: str = SUM,
    merge: str = MERGE,
    at_end: bool = True,
    on_timer: str = "return True",
    **more: Any,
) -> Driven:
    """Sessions with a gap of ten seconds; by default they fire when x sums up to more than 5."""
    text = OWN.replace("ROW", on_row).replace("MERGE", merge).replace("TIMER", on_timer)
    (folder / "own.py").write_text(text)
    times = (Field(name, TIMESTAMP) for name in ("wake", "alarm"))
    state = Schema((Field("n", BIGINT), *times))
    of = Schema((Field("k", STRING), Field("x", BIGINT)))
    code, timers = UserCode(folder, "own.py", "Own"), (("wake", False), ("alarm", True))
    own = Trigger(code=code, input_columns=of, state=state, timers=timers, fires_at_end=at_end)
    return driven(aggregate(Window(Session(us(10)), trigger=own, **more)))


def test_the_states_of_joined_sessions_are_merged(tmp_path: Path) -> None:
    step = ran(tmp_path)
    assert step.rows((0, "a", 2), (20, "a", 3), (1, "b", 6)) == [("b", 1, 11, 1, 6)]
    assert step.rows((10, "a", 1), (12, "a", 0)) == [
        ("a", 0, 30, 3, 6),
        ("-", "a", 0, 30, 3, 6),
        ("a", 0, 30, 4, 6),
    ]
    assert step.end() == [], "no row has come since"
    assert step.operator.pending_rows == 0


def test_a_session_that_discards_its_rows_begins_with_empty_state(tmp_path: Path) -> None:
    step = ran(tmp_path, keeps_rows=False)
    assert step.rows((0, "a", 6), (5, "a", 5)) == [("a", 0, 10, 1, 6)]
    assert step.rows((8, "a", 1)) == [("a", 0, 18, 2, 6)]
    assert step.rows((40, "a", 5), (25, "a", 3), (10, "a", 1)) == []
    assert step.rows((33, "a", 1)) == [("a", 25, 50, 3, 9)]
    assert step.end() == [("a", 0, 20, 1, 1)]


def test_timers_fire_sessions_that_do_not_fire_at_their_ends(tmp_path: Path) -> None:
    wake = "state['n'] = 0; state['wake'] = EPOCH + timedelta(seconds=row['x']); return False"
    step = ran(tmp_path, wake, at_end=False)
    step.rows((0, "a", 4), (2, "b", 30))
    assert step.time(5) == [("a", 0, 10, 1, 4)]
    assert step.rows((7, "a", 8)) == [("-", "a", 0, 10, 1, 4)]
    assert step.time(20) == [("a", 0, 17, 2, 12)], "the timer of b is after the end"
    assert step.end() == []
    assert step.operator.pending_rows == 0


@pytest.mark.parametrize(("first", "second"), [("wake", "alarm"), ("alarm", "wake")])
def test_a_timer_sets_a_timer_of_the_other_clock(first: str, second: str, tmp_path: Path) -> None:
    body = f"state['n'], state['{first}'] = 0, EPOCH + timedelta(seconds=row['x']); return False"
    again = f"state['{second}'] = at + timedelta(seconds=2) if self.timer == '{first}' else None"
    step = ran(tmp_path, body, on_timer=f"{again}; return True")
    step.rows((1, "a", 5))
    advance = {"wake": step.time, "alarm": step.tick}
    assert advance[first](6) == [("a", 1, 11, 1, 5)]
    assert advance[second](6.5) == []
    assert advance[second](8) == [("a", 1, 11, 1, 5)]


def test_a_merged_state_has_its_timers(tmp_path: Path) -> None:
    wake = "EPOCH + timedelta(seconds=row['x']) if row['x'] else state['wake']"
    step = ran(tmp_path, f"state['n'] = 0; state['wake'] = {wake}; return False")
    step.rows((0, "a", 9), (15, "a", 22), (7, "a", 0), (0, "b", 11), (1, "c", 8))
    assert step.time(23) == [("c", 1, 11, 1, 8), ("b", 0, 10, 1, 11), ("a", 0, 25, 3, 31)]


def test_timers_and_ends_of_sessions_fire_in_the_order_of_time(tmp_path: Path) -> None:
    body = "state['n'] = 0; state['wake'] = EPOCH + timedelta(seconds=row['x']); return False"
    step = ran(tmp_path, body, keeps_rows=False)
    step.rows((20, "a", 25), (0, "a", 40), (50, "a", 60))
    assert step.time(70) == [("a", 0, 10, 1, 40), ("a", 20, 30, 1, 25), ("a", 50, 60, 1, 60)]
    assert step.operator.pending_rows == 0


@pytest.mark.parametrize(
    ("merge", "said"),
    [
        ("return None", "own.py:Own: merge must return a dict, got None (key k='a', "),
        ("return {'n': 1}", "own.py:Own keeps n, not n, wake, alarm (key k='a', rows of a session"),
        ("return 1 / 0", "own.py:20: ZeroDivisionError: division by zero (key k='a', "),
    ],
)
def test_a_mistake_in_a_merge_is_told_with_key_and_session(
    merge: str, said: str, tmp_path: Path
) -> None:
    step = ran(tmp_path, merge=merge)
    with pytest.raises(UserCodeError) as raised:
        step.rows((0, "a", 1), (20, "a", 1), (10, "a", 1))
    assert raised.value.message.startswith(said)
    assert "from 1970-01-01T00:00:00 to 1970-01-01T00:00:20)" in raised.value.message


@dataclass
class Open:
    """A session of the model."""

    start_us: int
    end_us: int
    rows: list[int]
    new: int
    state: dict[str, Any] | None
    result: Out | None = None
    has_ended: bool = False


@dataclass
class Followed(ModelClocks):
    """Sessions with a trigger class, followed one by one."""

    window: Window
    gap_us: int
    clock_us: int = us(-1000)
    wall_us: int = 0
    sessions: dict[str | None, list[Open]] = field(default_factory=dict)
    code: Awaited = field(default_factory=Awaited)
    timer: str | None = None

    def add(self, row: Row) -> Iterator[Out]:
        """Add a row; return what it deletes and what fires."""
        time, key, x = row
        at_us, gap_us = us(time), self.gap_us
        mine = self.sessions.setdefault(key, [])
        near = [s for s in mine if s.start_us - gap_us <= at_us <= s.end_us + gap_us]
        near.sort(key=lambda each: each.start_us)
        if not near and at_us + gap_us + 1 + self.window.lateness_us <= self.clock_us:
            yield ("late", key, x)
            return
        for session in near:
            mine.remove(session)
            if session.result is not None:
                yield ("-", *session.result)
        states = [each.state for each in near if each.state is not None]
        joined = Open(
            min([at_us, *(each.start_us for each in near)]),
            max([at_us, *(each.end_us for each in near)]),
            [*(old for each in near for old in each.rows), x or 0],
            sum(each.new for each in near) + 1,
            self.code.merge(states) if len(states) > 1 else states[0] if states else None,
        )
        mine.append(joined)
        is_over = joined.end_us + gap_us + 1 <= self.clock_us
        if not is_over and joined.state is None:
            joined.state = dict.fromkeys(("n", *dict(WAITING)))
        if is_over or self.code.on_row({"x": x}, joined.state or {}, Named({}, None, None)):
            yield self._fire(key, joined)

    def advance(self, clock_us: int) -> Iterator[Out]:
        """Advance the watermark: timers and ends of sessions, each at its time."""
        before_us, names = self.clock_us, ("soon", "later")
        for key, mine in self.sessions.items():
            while due := self._find_next(mine, names, before_us, clock_us):
                session, timer = due
                if timer:
                    yield from self._call(key, session, timer)
                    continue
                session.has_ended = True
                if session.new and self.window.fires_at_end:
                    yield self._fire(key, session)
            over = [s for s in mine if self._close(s) + self.window.lateness_us <= clock_us]
            for session in over:
                mine.remove(session)
        self.clock_us = clock_us

    def tick(self, wall_us: int) -> Iterator[Out]:
        """Advance the wall clock."""
        self.wall_us = wall_us
        for key, mine in self.sessions.items():
            while due := self._find_timer(mine, ("wake",), wall_us + 1, self.clock_us):
                yield from self._call(key, *due[-2:])

    def _close(self, session: Open) -> int:
        return session.end_us + self.gap_us + 1

    def _find_next(
        self, mine: list[Open], names: tuple[str, ...], before_us: int, clock_us: int
    ) -> tuple[Open, str] | None:
        """Return what happens next up to a time: a timer, or the end of a session."""
        open_ = [each for each in mine if not each.has_ended and self._close(each) > before_us]
        ends = [(self._close(each), each) for each in open_ if self._close(each) <= clock_us]
        first = min(ends, key=lambda each: each[0], default=None)
        due = self._find_timer(open_, names, clock_us, before_us)
        if due is not None and (first is None or due[0] + 1 <= first[0]):
            return due[-2:]
        return None if first is None else (first[1], "")

    def _find_timer(
        self, mine: list[Open], names: tuple[str, ...], until_us: int, clock_us: int
    ) -> tuple[int, int, int, Open, str] | None:
        """Return the first timer before a time, of a session that has not ended."""
        found = []
        for session in mine:
            for rank, timer in enumerate(names):
                if session.state is None or session.state[timer] is None:
                    continue
                at_us = (session.state[timer] - EPOCH) // timedelta(microseconds=1)
                is_over = timer != "wake" and at_us >= self._close(session)
                if at_us < until_us and not is_over and self._close(session) > clock_us:
                    found.append((at_us, session.end_us, rank, session, timer))
        return min(found, key=lambda each: each[:3], default=None)

    def _call(self, key: str | None, session: Open, timer: str) -> Iterator[Out]:
        state = session.state
        assert state is not None
        at, state[timer], self.timer = state[timer], None, timer
        fires = self.code.on_timer(at, state, Named({}, None, None))
        self.timer = None
        if fires:
            yield self._fire(key, session)

    def _fire(self, key: str | None, session: Open) -> Out:
        bounds = (session.start_us // 1_000_000, (session.end_us + self.gap_us) // 1_000_000)
        result = (key, *bounds, len(session.rows), sum(session.rows))
        session.new = 0
        if self.window.keeps_rows:
            session.result = result
        else:
            session.rows, session.state = [], None
        return result


@SETTINGS
@given(st.data())
def test_firings_are_as_if_sessions_were_followed_one_by_one(data: st.DataObject) -> None:
    gap_us, at_end = us(data.draw(st.sampled_from([0, 1, 3, 8]))), data.draw(st.booleans())
    code = UserCode(WINDOW_CODE.parent, WINDOW_CODE.name, "Awaited")
    window = Window(
        Session(gap_us),
        us(data.draw(st.integers(0, 20))) if at_end else 0,
        "late",
        trigger=replace(named(code, WAITING), fires_at_end=at_end),
        keeps_rows=data.draw(st.booleans()),
    )
    step, model = driven(aggregate(window)), Followed(window, gap_us)
    out, wanted = run_beside_by_clocks(step, model, data)
    assert by_key([row for row in out if row[0] != "-"]) == by_key(
        [row for row in wanted if row[0] != "-"]
    )
    assert by_window(out) == by_window(wanted)
    assert step.operator.pending_rows == 0
    assert step.operator.next_tick_us() is None
