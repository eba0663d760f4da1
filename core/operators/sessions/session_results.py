"""The results of sessions to which rows are added one by one, as frames.

Rows are taken in the order of their arrival, in Python, to find the cuts of each result; then the
cuts are folded, and the states of all results are merged, for all sessions at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.operators.folds import ROW_COUNT, ROW_TIME, Fold
from headrace.core.operators.sessions.fragments import (
    FRAGMENT_END,
    FRAGMENT_START,
    ROW_NUMBER,
)
from headrace.core.operators.sessions.merged_spans import (
    OFFSET,
    POSITION,
    SPAN,
    SPAN_END,
    SPAN_LENGTH,
    merge_spans,
)
from headrace.core.operators.sessions.row_sessions import (
    CutLists,
    RowSession,
    RowSessions,
    SessionResult,
    SessionRules,
    SessionTrigger,
)
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

COMPONENT = "__component"
"""The number of a group of rows and sessions that touch each other."""
CUT = "__cut"
"""The number of the cut to which a row or a stored session belongs; null: no state."""
IS_DELETED = "__gone"
"""Whether a result is deleted, and not emitted; null for a session."""
HAS_FIRED = "__fired"
"""Whether a session has no rows since it fired; null for a result."""


@dataclass(frozen=True, slots=True)
class TouchedSessions:
    """Rows of a batch, and the stored sessions that they touch, each with its COMPONENT."""

    rows: pl.DataFrame
    """In the order of their arrival."""
    open: pl.DataFrame
    fired: pl.DataFrame
    """Sessions without rows since they fired; without states if they discarded their rows."""

    def select(self, components: pl.Series, *, inverted: bool = False) -> TouchedSessions:
        """Return the rows and sessions of these components, or of all others."""
        import polars as pl

        wanted = pl.col(COMPONENT).is_in(components.implode())
        wanted = ~wanted if inverted else wanted
        return TouchedSessions(
            *(each.filter(wanted) for each in (self.rows, self.open, self.fired))
        )


@dataclass(frozen=True, slots=True)
class MergedSessions:
    """The results of rows in their order, and the sessions as they are after the last row."""

    results: pl.DataFrame
    """With IS_DELETED."""
    open: pl.DataFrame
    """With ROW_COUNT, the number of rows since they last fired."""
    fired: pl.DataFrame
    late_rows: list[int]
    """The numbers of the rows that are too late for any session."""
    first_span: int
    """The SPAN of the first session: it counts on from those of the results."""
    trigger_states: list[Any]
    """The stored trigger state of each session, from that of the first one."""

    def get_states(self, sessions: pl.DataFrame) -> list[Any]:
        """Return what the trigger stores of some of the sessions."""
        return [self.trigger_states[span - self.first_span] for span in sessions[SPAN]]


class SessionMerger:
    """The merger of rows of a batch with the sessions that they touch."""

    def __init__(
        self,
        rules: SessionRules,
        trigger: SessionTrigger,
        key: Sequence[str],
        fold: Fold,
        read_states: Callable[[pl.DataFrame], Sequence[Any]] | None = None,
    ) -> None:
        """`read_states` returns what the trigger stored of sessions."""
        self._read_states = read_states
        self._rules = rules
        self._trigger = trigger
        self._key = key
        self._fold = fold
        self._cuts = CutLists()
        self._groups: dict[int, RowSessions] = {}

    def merge(self, found: TouchedSessions) -> MergedSessions:
        """Add the rows one by one."""
        import polars as pl

        stored = [self._add_stored(found.open), self._add_stored(found.fired, fired=True)]
        rows = self._add_rows(found.rows)
        spans = self._list_spans()
        columns = (*self._key, CUT, *self._fold.state_columns)
        begun = self._fold.begin(rows.filter(pl.col(CUT).is_not_null()), (*self._key, CUT))
        stored = [each for each in stored if each.height]
        states = pl.concat([each.select(columns) for each in (begun, *stored)])
        wanted = spans.filter(pl.col(SPAN_END).is_not_null())
        merged = merge_spans(self._place_cuts(states), wanted, self._fold, self._key)
        keys = rows.select(COMPONENT, *self._key).unique(COMPONENT)
        whole = spans.join(keys, on=COMPONENT).join(
            merged.select(SPAN, *self._fold.state_columns), on=SPAN, how="left"
        )
        is_result, has_fired = pl.col(IS_DELETED).is_not_null(), pl.col(HAS_FIRED)
        return MergedSessions(
            whole.filter(is_result).sort(SPAN),
            whole.filter(~is_result & ~has_fired),
            whole.filter(~is_result & has_fired),
            rows.filter(pl.col(CUT).is_null())[ROW_NUMBER].to_list(),
            len(self._cuts.results),
            [each.trigger_state for group in self._groups.values() for each in group.sessions],
        )

    def _add_stored(self, sessions: pl.DataFrame, *, fired: bool = False) -> pl.DataFrame:
        """Add stored sessions; return their states, if they have one, each as a cut."""
        import polars as pl

        has_state = ROW_COUNT in sessions.columns
        new_rows = sessions[ROW_COUNT] if has_state else [0] * sessions.height
        states: Sequence[Any] = [None] * sessions.height
        if has_state and self._read_states is not None:
            states = self._read_states(sessions)
        numbers = list[int]()
        times = sessions.select(COMPONENT, FRAGMENT_START, FRAGMENT_END).rows()
        for (group, start_us, end_us), new, state in zip(times, new_rows, states, strict=True):
            session = RowSession(start_us, end_us, new_rows=new, trigger_state=state)
            if has_state:
                session.cuts.append(self._cuts.create_cut())
                numbers += session.cuts
            if has_state and fired:
                cut = session.cuts[0]
                session.result = SessionResult(group, start_us, end_us, (cut, cut))
            self._get_group(group).add_session(session)
        return sessions.head(len(numbers)).with_columns(pl.Series(CUT, numbers, pl.Int64))

    def _get_group(self, number: int) -> RowSessions:
        found = self._groups.get(number)
        if found is None:
            found = RowSessions(number, self._rules, self._trigger, self._cuts)
            self._groups[number] = found
        return found

    def _add_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add rows to their sessions; return them with their CUT."""
        import polars as pl

        cuts = [
            self._get_group(group).add_row(at, time_us)
            for at, (group, time_us) in enumerate(rows.select(COMPONENT, ROW_TIME).iter_rows())
        ]
        return rows.with_columns(pl.Series(CUT, cuts, pl.Int64))

    def _list_spans(self) -> pl.DataFrame:
        """Return the cuts of each result, and of each session as it is now."""
        import polars as pl

        places = self._list_places()
        rows = list[tuple[object, ...]]()
        for each in self._cuts.results:
            first, last = (places[cut][0] for cut in each.cuts)
            bounds = (each.start_us, each.end_us)
            rows.append((each.group, *bounds, each.is_deleted, None, None, last, last - first + 1))
        for number, group in self._groups.items():
            for session in group.sessions:
                last_cut = places[session.cuts[-1]][0] if session.cuts else None
                has_fired = session.result is not None or not session.cuts
                bounds = (session.start_us, session.end_us)
                now = (None, has_fired, session.new_rows, last_cut, len(session.cuts))
                rows.append((number, *bounds, *now))
        names = (COMPONENT, FRAGMENT_START, FRAGMENT_END, IS_DELETED, HAS_FIRED, ROW_COUNT)
        schema = dict.fromkeys((*names, SPAN_END, SPAN_LENGTH), pl.Int64()) | {
            IS_DELETED: pl.Boolean(),
            HAS_FIRED: pl.Boolean(),
        }
        return pl.DataFrame(rows, schema, orient="row").with_columns(
            pl.int_range(pl.len(), dtype=pl.Int64).alias(SPAN)
        )

    def _list_places(self) -> dict[int, tuple[int, int]]:
        """Return the position of each cut, and its offset in its list."""
        sessions = (each.cuts for group in self._groups.values() for each in group.sessions)
        places = dict[int, tuple[int, int]]()
        for cuts in (*self._cuts.finished, *sessions):
            for offset, cut in enumerate(cuts):
                places[cut] = (len(places), offset)
        return places

    def _place_cuts(self, states: pl.DataFrame) -> pl.DataFrame:
        """Return the states of cuts with their POSITION and OFFSET."""
        import polars as pl

        places = [(cut, *place) for cut, place in self._list_places().items()]
        schema = dict.fromkeys((CUT, POSITION, OFFSET), pl.Int64())
        return states.join(pl.DataFrame(places, schema, orient="row"), on=CUT).drop(CUT)
