"""Sessions with a trigger, row by row: which rows belong to which result.

A row that arrives starts a session, extends one, or joins two; then its session may fire. The rows
of a session between two firings are a cut, or several where sessions were joined. The cuts of a
result are a stretch of one list: sessions that are joined append their lists to each other. So the
rows are folded once per cut, for all sessions at the same time, and merged per result.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Protocol

from headrace.core.api.state import NO_CLOCK_US
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SessionResult:
    """A result of a session that is emitted, or deleted, as a row arrives."""

    group: int
    """The number of the sessions among which it is."""
    start_us: int
    end_us: int
    cuts: tuple[int, int]
    """The first and the last cut of its rows."""
    is_deleted: bool = False


@dataclass(slots=True)
class RowSession:
    """A session of a key; of a discarding one that fired, only the times remain."""

    start_us: int
    end_us: int
    """The times of its first and its last row."""
    cuts: list[int] = field(default_factory=list)
    new_rows: int = 0
    """The number of rows since it last fired."""
    result: SessionResult | None = None
    """Its result that was emitted and holds; None as soon as a row touches the session."""
    trigger_state: Any = None
    open_cut: int | None = None
    """The cut to which its next rows belong."""


class SessionTrigger(Protocol):
    """The condition on which a session fires."""

    def join_states(self, sessions: Sequence[RowSession], into: RowSession, row: int) -> None:
        """Merge what the trigger stores of sessions that a row joins, in the order of time."""
        ...

    def fires(self, session: RowSession, row: int) -> bool:
        """Whether a session fires now that this row belongs to it."""
        ...


@dataclass(frozen=True, slots=True)
class CountTrigger:
    """The trigger that fires after a number of new rows."""

    count: int

    def join_states(self, sessions: Sequence[RowSession], into: RowSession, row: int) -> None:
        """Do nothing: the numbers of new rows add up in any case."""

    def fires(self, session: RowSession, row: int) -> bool:
        """Whether there are enough new rows."""
        return session.new_rows >= self.count


@dataclass(frozen=True, slots=True)
class SessionRules:
    """The times and clauses by which rows form sessions."""

    gap_us: int
    lateness_us: int
    clock_us: int
    """The time up to which sessions have ended; the least time if none can have."""
    keeps_rows: bool

    @property
    def last_late_us(self) -> int:
        """The time up to which rows are late if no session is there that they belong to."""
        return max(NO_CLOCK_US, self.clock_us - self.gap_us - 1 - self.lateness_us)

    def is_over(self, end_us: int, lateness_us: int = 0) -> bool:
        """Whether a session with this last row has ended, and its allowed lateness too."""
        return end_us + self.gap_us + 1 + lateness_us <= self.clock_us


class CutLists:
    """The cuts of all sessions of some rows, and the results that are made of them."""

    def __init__(self) -> None:
        self.results: list[SessionResult] = []
        self.finished: list[list[int]] = []
        """The lists of cuts that belong to no session any more."""
        self.cut_count = 0

    def create_cut(self) -> int:
        """Return the number of a new cut."""
        self.cut_count += 1
        return self.cut_count - 1


class RowSessions:
    """Sessions of a key that are apart, while rows are added to them one by one."""

    def __init__(
        self, number: int, rules: SessionRules, trigger: SessionTrigger, cuts: CutLists
    ) -> None:
        self._number = number
        self._rules = rules
        self._trigger = trigger
        self._cuts = cuts
        self._starts: list[int] = []
        self.sessions: list[RowSession] = []
        """Sorted by time."""

    def add_session(self, session: RowSession) -> None:
        """Add a session that no other one touches."""
        at = bisect_right(self._starts, session.start_us)
        self._starts.insert(at, session.start_us)
        self.sessions.insert(at, session)

    def add_row(self, row: int, time_us: int) -> int | None:
        """Return the cut of a row that arrives; None if it is too late for any session."""
        rules = self._rules
        first, end = self._find_touched(time_us)
        if first == end and rules.is_over(time_us, rules.lateness_us):
            return None
        session = self._join(first, end, row, time_us)
        session.new_rows += 1
        if session.open_cut is None:
            session.open_cut = self._cuts.create_cut()
            session.cuts.append(session.open_cut)
        cut = session.open_cut
        # After its end, a session fires with each row without a call of the trigger.
        if rules.is_over(session.end_us) or self._trigger.fires(session, row):
            self.fire(session)
        return cut

    def fire(self, session: RowSession) -> None:
        """Emit the result of a session, which has rows."""
        cuts = (session.cuts[0], session.cuts[-1])
        result = SessionResult(self._number, session.start_us, session.end_us, cuts)
        self._cuts.results.append(result)
        session.new_rows, session.open_cut = 0, None
        if self._rules.keeps_rows:
            session.result = result
        else:
            self._cuts.finished.append(session.cuts)
            session.cuts, session.trigger_state = [], None

    def _find_touched(self, time_us: int) -> tuple[int, int]:
        """Return the range of sessions that are at most the gap from a time: at most two."""
        end = bisect_right(self._starts, time_us)
        first = end
        if end and time_us - self.sessions[end - 1].end_us <= self._rules.gap_us:
            first -= 1
        if end < len(self._starts) and self._starts[end] - time_us <= self._rules.gap_us:
            end += 1
        return first, end

    def _join(self, first: int, end: int, row: int, time_us: int) -> RowSession:
        """Return the session of a row: a new one, or one made of those that it touches."""
        touched = self.sessions[first:end]
        for session in touched:
            self._delete_result(session)
        joined = touched[0] if touched else RowSession(time_us, time_us)
        if len(touched) > 1:
            joined = self._merge(touched[0], touched[1], row)
        else:
            joined.start_us = min(joined.start_us, time_us)
            joined.end_us = max(joined.end_us, time_us)
        self.sessions[first:end] = [joined]
        self._starts[first:end] = [joined.start_us]
        return joined

    def _merge(self, left: RowSession, right: RowSession, row: int) -> RowSession:
        """Merge two sessions; of the shorter list of cuts, each is moved."""
        whole, other = (left, right) if len(left.cuts) >= len(right.cuts) else (right, left)
        whole.start_us, whole.end_us = left.start_us, right.end_us
        self._trigger.join_states((left, right), whole, row)
        whole.cuts += other.cuts
        whole.new_rows += other.new_rows
        whole.open_cut = other.open_cut if whole.open_cut is None else whole.open_cut
        return whole

    def _delete_result(self, session: RowSession) -> None:
        if session.result is not None:
            self._cuts.results.append(replace(session.result, is_deleted=True))
            session.result = None
