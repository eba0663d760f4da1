"""Sessions with count triggers: every firing is emitted, as if rows came one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.operators.sessions import trigger_sessions
from headrace.core.operators.windows.row_trigger_windows import MAX_FIRING_BYTES
from headrace.core.plan.nodes.windows import Evict, Session, Trigger, Window
from tests.core.operators.windows.test_count_triggers import (
    COLUMNS,
    Out,
    by_key,
    run_beside,
)
from tests.core.operators.windows.test_random_windows import SETTINGS
from tests.support.runtime.window_operators import Row, aggregate, driven, us

TEN = Session(us(10))


def test_each_firing_has_the_rows_up_to_it() -> None:
    step = driven(aggregate(Window(TEN, trigger=Trigger(count=2))))
    rows: list[Row] = [(0, "a", 1), (4, "a", 2), (1, "b", 9), (2, "a", 3), (12, "a", 4)]
    assert step.rows(*rows) == [
        ("a", 0, 14, 2, 3),
        ("-", "a", 0, 14, 2, 3),
        ("a", 0, 22, 4, 10),
    ]
    assert sorted(step.end()) == [("b", 1, 11, 1, 9)]


def test_the_rows_of_joined_sessions_add_up() -> None:
    step = driven(aggregate(Window(TEN, trigger=Trigger(count=3))))
    assert step.rows((0, "a", 1), (20, "a", 2)) == []
    assert step.rows((10, "a", 4)) == [("a", 0, 30, 3, 7)]
    step = driven(aggregate(Window(TEN, trigger=Trigger(count=4))))
    assert step.rows((0, "a", 1), (1, "a", 1), (20, "a", 2), (21, "a", 2), (10, "a", 4)) == [
        ("a", 0, 31, 5, 10)
    ]
    assert step.end() == []


def test_a_result_is_deleted_when_a_row_joins_its_session_to_another() -> None:
    step = driven(aggregate(Window(TEN, trigger=Trigger(count=2))))
    rows: list[Row] = [(0, "a", 1), (1, "a", 2), (21, "a", 3), (20, "a", 4), (11, "a", 5)]
    assert step.rows(*rows, (5, "a", 6)) == [
        ("a", 0, 11, 2, 3),
        ("a", 20, 31, 2, 7),
        ("-", "a", 0, 11, 2, 3),
        ("-", "a", 20, 31, 2, 7),
        ("a", 0, 31, 6, 21),
    ]


def test_a_session_that_discards_its_rows_keeps_its_times() -> None:
    step = driven(aggregate(Window(TEN, trigger=Trigger(count=2), keeps_rows=False)))
    assert step.rows((0, "a", 1), (5, "a", 2)) == [("a", 0, 15, 2, 3)]
    assert step.rows((12, "a", 3)) == []
    assert step.time(16) == [], "the session goes on"
    assert step.time(23) == [("a", 0, 22, 1, 3)]
    assert step.rows((40, "a", 1), (41, "a", 2)) == [("a", 40, 51, 2, 3)]
    assert step.end() == []
    assert step.operator.pending_rows == 0


def test_a_session_may_not_fire_at_its_end() -> None:
    window = Window(TEN, trigger=Trigger(count=2, fires_at_end=False))
    step = driven(aggregate(window))
    assert step.rows((0, "a", 1), (5, "a", 2), (0, "b", 9)) == [("a", 0, 15, 2, 3)]
    assert step.time(20) == []
    assert step.operator.pending_rows == 0
    assert step.rows((40, "a", 1), (41, "a", 2)) == [("a", 40, 51, 2, 3)]
    assert step.rows((45, "a", 3)) == [("-", "a", 40, 51, 2, 3)]
    assert step.end() == []
    assert step.operator.pending_rows == 0


def test_a_session_that_discards_its_rows_may_not_fire_at_its_end() -> None:
    window = Window(TEN, trigger=Trigger(count=2, fires_at_end=False), keeps_rows=False)
    step = driven(aggregate(window))
    assert step.rows((0, "a", 1), (20, "a", 2)) == []
    assert step.rows((10, "a", 4), (25, "a", 5)) == [("a", 0, 30, 3, 7)]
    assert step.end() == [], "the last row is in no result"
    assert step.operator.pending_rows == 0


def test_each_row_within_the_lateness_fires() -> None:
    step = driven(aggregate(Window(TEN, lateness_us=us(20), trigger=Trigger(count=3))))
    step.rows((0, "a", 1))
    assert step.time(11) == [("a", 0, 10, 1, 1)]
    assert step.rows((0, "a", 2), (0, "a", 3), (1, "a", 4)) == [
        ("-", "a", 0, 10, 1, 1),
        ("a", 0, 10, 2, 3),
        ("-", "a", 0, 10, 2, 3),
        ("a", 0, 10, 3, 6),
        ("-", "a", 0, 10, 3, 6),
    ], "the last row makes the session go on until 11"
    assert step.end() == [("a", 0, 11, 4, 10)]


@dataclass
class Open:
    """A session of the model."""

    start_us: int
    end_us: int
    rows: list[tuple[float, int, int]]
    new: int = 0
    result: Out | None = None


@dataclass
class RowByRow:
    """The firings of sessions, found row by row."""

    window: Window
    gap_us: int
    now_us: int = us(-1000)
    sessions: dict[str | None, list[Open]] = field(default_factory=dict)
    came: int = 0

    def add(self, row: Row) -> Iterator[Out]:
        """Add a row; return what it deletes and what fires."""
        time, key, x = row
        at_us, gap_us = us(time), self.gap_us
        self.came += 1
        mine = self.sessions.setdefault(key, [])
        near = [s for s in mine if s.start_us - gap_us <= at_us <= s.end_us + gap_us]
        if not near and at_us + gap_us + 1 + self.window.lateness_us <= self.now_us:
            yield ("late", key, x)
            return
        for session in sorted(near, key=lambda each: each.start_us):
            mine.remove(session)
            if session.result is not None:
                yield ("-", *session.result)
        joined = Open(
            min([at_us, *(each.start_us for each in near)]),
            max([at_us, *(each.end_us for each in near)]),
            [*(old for each in near for old in each.rows), (time, self.came, x or 0)],
            sum(each.new for each in near) + 1,
        )
        mine.append(joined)
        assert self.window.trigger is not None and self.window.trigger.count is not None
        is_over = joined.end_us + gap_us + 1 <= self.now_us
        if is_over or joined.new >= self.window.trigger.count:
            yield self._fire(key, joined)

    def advance(self, now_us: int) -> Iterator[Out]:
        """Advance time; return the sessions that end."""
        self.now_us = now_us
        for key, mine in self.sessions.items():
            for session in sorted(mine, key=lambda each: each.end_us):
                over_us = session.end_us + self.gap_us + 1
                if session.new and over_us <= now_us and self.window.fires_at_end:
                    yield self._fire(key, session)
                if over_us + self.window.lateness_us <= now_us:
                    mine.remove(session)

    def _fire(self, key: str | None, session: Open) -> Out:
        rows = sorted(session.rows)
        if self.window.evict is not None and self.window.evict.last is not None:
            rows = rows[-self.window.evict.last :]
        numbers = [x for *_, x in rows]
        bounds = (session.start_us // 1_000_000, (session.end_us + self.gap_us) // 1_000_000)
        result = (key, *bounds, len(rows), sum(numbers), numbers[0], numbers)
        session.new = 0
        if self.window.keeps_rows:
            session.result = result
        else:
            session.rows = []
        return result


def by_window(out: list[Out]) -> dict[object, list[Out]]:
    """Group what is emitted and deleted by key and bounds, in order."""
    found: dict[object, list[Out]] = {}
    for row in out:
        found.setdefault(row[1:4] if row[0] == "-" else row[:3], []).append(row)
    return found


@pytest.mark.parametrize("bytes_at_once", [1, MAX_FIRING_BYTES])
@SETTINGS
@given(st.data())
def test_firings_are_those_of_rows_that_come_one_by_one(
    monkeypatch: pytest.MonkeyPatch, bytes_at_once: int, data: st.DataObject
) -> None:
    monkeypatch.setattr(trigger_sessions, "MAX_FIRING_BYTES", bytes_at_once)
    gap_us, at_end = us(data.draw(st.sampled_from([0, 1, 3, 8]))), data.draw(st.booleans())
    window = Window(
        Session(gap_us),
        us(data.draw(st.integers(0, 30))) if at_end else 0,
        "late",
        trigger=Trigger(count=data.draw(st.integers(1, 4)), fires_at_end=at_end),
        keeps_rows=data.draw(st.booleans()),
        evict=data.draw(st.sampled_from([None, Evict(last=2)])),
    )
    step, model = driven(aggregate(window, **COLUMNS)), RowByRow(window, gap_us)
    out, wanted = run_beside(step, model, data)
    assert by_key([row for row in out if row[0] != "-"]) == by_key(
        [row for row in wanted if row[0] != "-"]
    )
    assert by_window(out) == by_window(wanted)
    assert step.operator.pending_rows == 0
