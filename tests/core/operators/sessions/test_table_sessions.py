"""Sessions of rows that are inserted, updated and deleted, by hand, with the real runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.plan.nodes.windows import Session, Window
from headrace.core.types.elements import DELETE, MAX_WATERMARK_US
from tests.core.operators.changelog.test_table_steps import Change, at, facts, final, run
from tests.support.runtime.keyed_operators import Keyed, Row

SESSIONS = "window: {session: 5s}, aggregate: {n: count(*), total: sum(v)}"
STEP = f"  step: {{from: table, key: g, {SESSIONS}}}\n"
ROWS: list[Sequence[Change]] = [[(1, "a", 1, 0), (2, "a", 2, 4), (3, "a", 4, 8), (9, "z", 9, 3)]]


def changes(step: str, more: str) -> str:
    """Return the step with another window."""
    return step.replace("session: 5s", f"session: 5s, {more}")


def test_a_session_has_the_rows_that_are_there_when_it_ends(tmp_path: Path) -> None:
    assert final(tmp_path, STEP, *ROWS) == {
        ("a", at(0), at(13), 3, 7): 1,
        ("z", at(3), at(8), 1, 9): 1,
    }
    assert final(tmp_path, STEP, *ROWS, [(9, "a", 9, 8)]) == {("a", at(0), at(13), 4, 16): 1}


def test_a_removal_splits_a_session(tmp_path: Path) -> None:
    # The row of second 4 moves: the rest of its session is two sessions, of which one has ended.
    moved: list[Sequence[Change]] = [*ROWS, [(2, "b", 2, 9)]]
    assert final(tmp_path, STEP, *moved) == {
        ("a", at(0), at(5), 1, 1): 1,
        ("a", at(8), at(13), 1, 4): 1,
        ("b", at(9), at(14), 1, 2): 1,
        ("z", at(3), at(8), 1, 9): 1,
    }


def test_a_removal_ends_a_session_earlier(tmp_path: Path) -> None:
    moved: list[Sequence[Change]] = [*ROWS, [(3, "a", None, 9)], [(7, "b", 7, 10)]]
    found = final(tmp_path, STEP, *moved)
    assert found[("a", at(0), at(9), 2, 3)] == 1, found


def test_a_change_of_a_session_that_has_ended_is_late(tmp_path: Path) -> None:
    late = changes(STEP, "late_to: late")
    came: list[Sequence[Change]] = [*ROWS, [(5, "b", 5, 14)], [(2, "b", 7, 15)]]
    sinks = "  late_out: {from: late, memory: {data: late}}\n"
    _, memory = run(tmp_path, late, *came, sinks=sinks)
    assert facts(memory, "g", "window_start", "window_end", "n", "total") == {
        ("a", at(0), at(13), 3, 7): 1,
        ("b", at(14), at(20), 2, 12): 1,
        ("z", at(3), at(8), 1, 9): 1,
    }
    (frame,) = memory.outputs["late"]
    assert frame.select("id", "v", "_change").rows() == [(2, 2, "delete")]


def test_a_change_within_the_lateness_changes_a_session(tmp_path: Path) -> None:
    step = changes(STEP, "lateness: 1m")
    came: list[Sequence[Change]] = [*ROWS, [(5, "b", 5, 20)]]
    assert final(tmp_path, step, *came, [(1, "b", 7, 21)], [(9, "z", None, 22)]) == {
        ("a", at(4), at(13), 2, 6): 1,
        ("b", at(20), at(26), 2, 12): 1,
    }
    # One session becomes two, and one again.
    assert final(tmp_path, step, *came, [(2, "b", 2, 21)], [(2, "a", 2, 4)]) == {
        ("a", at(0), at(13), 3, 7): 1,
        ("b", at(20), at(25), 1, 5): 1,
        ("z", at(3), at(8), 1, 9): 1,
    }


def test_only_the_changed_sessions_of_a_key_are_emitted_again(tmp_path: Path) -> None:
    step = changes(STEP, "lateness: 1m")
    came: list[Sequence[Change]] = [[(1, "a", 1, 0), (2, "a", 2, 10)], [(3, "b", 3, 30)]]
    _, memory = run(tmp_path, step, *came, [(2, "a", 5, 10)], [(3, "b", None, 31)])
    rows = [
        row
        for frame in memory.outputs["out"]
        for row in frame.select("g", "window_start", "total", DELETE).rows()
    ]
    assert rows == [
        ("a", at(0), 1, False),
        ("a", at(10), 2, False),
        ("a", at(10), 5, False),
    ]


def test_the_best_rows_of_a_session(tmp_path: Path) -> None:
    step = "  step: {from: table, key: g, window: {session: 5s}, top: {n: 1, by: v desc}, drop: at}"
    assert final(tmp_path, f"{step}\n", *ROWS, [(3, "a", None, 9)]) == {
        (2, "a", 2, 1): 1,
        (9, "z", 9, 1): 1,
    }


@pytest.mark.parametrize("table", ["rows", "table"])
@pytest.mark.parametrize("shape", ["session: 5s", "tumble: 10s"])
def test_a_window_reads_windows_that_can_fire_again(tmp_path: Path, table: str, shape: str) -> None:
    window = f"window: {{{shape}, lateness: 1m}}, aggregate: {{total: sum(v)}}"
    outer = "window: {tumble: 20s}, aggregate: {n: count(*), total: sum(total)}"
    steps = f"  inner: {{from: {table}, key: g, {window}}}\n  step: {{from: inner, {outer}}}\n"
    came: list[Sequence[Change]] = [[(1, "a", 1, 0), (2, "b", 2, 3)], [(3, "b", 3, 50)]]
    came += [[(4, "a", 4, 1), (5, "c", 5, 2)]]
    unused = "  unused: {from: table, memory: {data: unused}}\n"
    assert final(tmp_path, steps, *came, sinks=unused) == {
        (at(0), at(20), 3, 12): 1,
        (at(40), at(60), 1, 3): 1,
    }


def test_an_update_of_the_last_row_of_a_session_does_not_end_it_in_between() -> None:
    keyed = Keyed(Window(Session(5), late_to="late"), retracts=True)
    keyed.change(((1, 0, 1), 1), ((1, 4, 2), 1), ((1, 8, 4), 1))
    keyed.advance(12)
    keyed.change(((1, 8, 4), -1))
    keyed.change(((1, 3, 8), 1), ((1, 7, 16), 1))
    keyed.advance(MAX_WATERMARK_US)
    assert keyed.rows == [(1, 0, 12, 4, 27)]
    assert keyed.late == []


def test_a_session_that_ends_earlier_is_emitted_with_the_next_watermark() -> None:
    keyed = Keyed(Window(Session(5), late_to="late"), retracts=True)
    keyed.change(((1, 0, 1), 1), ((1, 4, 2), 1), ((1, 8, 4), 1))
    keyed.advance(12)
    keyed.change(((1, 8, 4), -1))
    keyed.advance(13)
    assert keyed.rows == [(1, 0, 9, 2, 3)]
    keyed.change(((1, 3, 8), 1))
    assert keyed.late == [(1, 3, 8)]


def test_more_copies_are_removed_than_there_are() -> None:
    keyed = Keyed(Window(Session(5), late_to="late"), retracts=True)
    keyed.change(((1, 0, 1), 1), ((1, 4, 2), 1))
    keyed.advance(7)
    keyed.change(((1, 0, 1), -3))
    keyed.advance(MAX_WATERMARK_US)
    assert keyed.rows == [(1, 4, 9, 1, 2)]
    assert (keyed.late, keyed.late_changes) == ([(1, 0, 1)] * 2, ["delete"] * 2)


class ExpectedSessions:
    """The sessions of rows that are added and removed one by one, in plain Python."""

    def __init__(self, gap: int, lateness: int) -> None:
        self._gap, self._lateness = gap, lateness
        self._clock = -(10**6)
        self._rows = Counter[Row]()
        self._changed = set[tuple[int | None, int]]()
        """The keys and times of changes since the last watermark."""
        self.late: list[tuple[Row, str]] = []
        self.rows: list[tuple[int | None, ...]] = []

    def change(self, row: Row, weight: int) -> None:
        """Add a row, or remove it."""
        key, time, _ = row
        near = [t for k, t in self._list_times() | self._changed if k == key]
        is_known = any(abs(t - time) <= self._gap for t in near)
        if self._is_over(time) and not (is_known if weight > 0 else self._rows[row] > 0):
            self.late.append((row, "insert" if weight > 0 else "delete"))
            return
        self._rows[row] += weight
        if time < self._clock:
            self._changed.add((key, time))

    def advance(self, watermark: int) -> None:
        """Emit the sessions that take no more changes, and forget their rows."""
        if watermark <= self._clock:
            return
        self._clock, self._changed = watermark, set()
        sessions: list[list[tuple[int | None, int]]] = []
        for key, time in sorted(self._list_times(), key=lambda each: (str(each[0]), each[1])):
            last = sessions[-1][-1] if sessions else None
            if last is None or last[0] != key or time - last[1] > self._gap:
                sessions.append([])
            sessions[-1].append((key, time))
        over = [each for each in sessions if self._is_over(each[-1][1])]
        for session in over:
            values = Counter[int]()
            for row in filter(lambda row: row[:2] in session, self._rows):
                values[row[2]] += self._rows[row]
            (key, start), (_, end) = session[0], session[-1]
            there = [*values.elements()]
            if there:
                window = (key, start, end + self._gap)
                if self._lateness:  # results are upserts by key and window
                    self.rows = [row for row in self.rows if row[:3] != window]
                self.rows.append((*window, len(there), sum(there)))
        open_times = {time for each in sessions if each not in over for time in each}
        for row in [*self._rows]:
            if row[:2] not in open_times and self._is_over(row[1]):
                del self._rows[row]

    def _list_times(self) -> set[tuple[int | None, int]]:
        return {row[:2] for row, copies in self._rows.items() if copies > 0}

    def _is_over(self, last: int) -> bool:
        return last + self._gap + 1 + self._lateness <= self._clock


@st.composite
def changes_of_rows(draw: st.DrawFn) -> list[tuple[Row, int]]:
    """Draw rows with weights: most removed ones were added before, some come later or never.

    Those that are removed first have values of their own, so that they cancel no other rows.
    """
    key, time = st.sampled_from([None, 1, 1]), st.integers(0, 24)
    made: list[tuple[Row, int]] = []
    for kind in draw(st.lists(st.integers(0, 9), max_size=40)):
        if kind == 9:
            made.append(((draw(key), draw(time), 100 + len(made)), -1))
        elif made and kind < 5:
            made.append((draw(st.sampled_from(made))[0], 1 if kind == 4 else -1))
        else:
            made.append(((draw(key), draw(time), draw(st.integers(1, 2))), 1))
    return made


@settings(max_examples=100, deadline=None)
@given(
    changes_of_rows(),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), max_size=5),
    st.sampled_from([1, 4, 9]),
    st.sampled_from([0, 0, 6]),
    st.data(),
)
def test_sessions_and_late_changes_do_not_depend_on_where_batches_are_cut(
    changes: list[tuple[Row, int]],
    watermarks: list[tuple[int, int]],
    gap: int,
    lateness: int,
    data: st.DataObject,
) -> None:
    expected = ExpectedSessions(gap, lateness)
    window = Window(Session(gap), lateness_us=lateness, late_to="late")
    keyed = Keyed(window, retracts=True)
    begin, reached = 0, -1
    for end, watermark in [*sorted(watermarks), (len(changes), MAX_WATERMARK_US)]:
        while begin < min(end, len(changes)):
            size = data.draw(st.integers(1, min(end, len(changes)) - begin))
            keyed.change(*changes[begin : begin + size])
            for row, weight in changes[begin : begin + size]:
                expected.change(row, weight)
            begin += size
        reached = max(reached, watermark)
        keyed.advance(reached)
        expected.advance(reached)
    assert sorted(zip(keyed.late, keyed.late_changes, strict=True), key=repr) == sorted(
        expected.late, key=repr
    )
    assert sorted(keyed.rows, key=repr) == sorted(expected.rows, key=repr)
