"""The open sessions, stored as fragments: rows of a key known to belong together.

A fragment is stored under the time at which it would close. Fragments that are due are merged for
all keys at once; a fragment continued by a later one is stored again, under the later one's time.

Emitted sessions that may change: rows may continue them, come late, or join two of them.

They are complete and do not touch each other, so they are never merged. They are stored under the
time up to which rows may arrive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.api.state import NO_CLOCK_US, SLOT, RunsLayout, SortedRuns, StepState
from headrace.core.operators.folds import ROW_COUNT, CountingFold, Fold
from headrace.core.operators.keyed_context import GroupingKey
from headrace.core.operators.sessions.fragments import (
    FRAGMENT_END,
    FRAGMENT_START,
    SESSION_END,
    find_continued,
    merge_fragments,
)
from headrace.core.plan.nodes.windows import Session, Window
from headrace.core.types.elements import MAX_WATERMARK_US

if TYPE_CHECKING:
    import polars as pl


OPEN_STATE = "open"
"""The name of the runs in the state."""


MIN_COMPACTION_ROWS = 8192
"""The number of fragments below which they are not compacted."""


class OpenSessions:
    """Sessions that later rows may continue, and that were not emitted since their last row.

    Sessions are frames with the `group_columns`, SLOT, and the columns of the fold; ROW_COUNT is
    the number of rows of a session since it was last emitted.
    """

    def __init__(self, state: StepState, grouping: GroupingKey, fold: Fold, gap_us: int) -> None:
        import polars as pl

        self._fold = CountingFold(fold, (SLOT,))
        self._gap_us = gap_us
        self.key = grouping.internal_names
        self.group_columns = (*self.key, FRAGMENT_START, FRAGMENT_END)
        bounds = {FRAGMENT_START: pl.Int64(), FRAGMENT_END: pl.Int64()}
        columns = {**grouping.types, **self._fold.state_columns, **bounds}
        del columns[SLOT]
        self.layout = RunsLayout(columns, self.key, self._merge_fragments)
        self.columns = (*self.group_columns, *self._fold.state_columns)
        """The columns of stored fragments, in their order."""
        self._runs = state.open_runs(OPEN_STATE, self.layout)
        self._compacted_count = 0
        """The number of fragments after the last compaction, which decides about the next."""

    @property
    def fragment_count(self) -> int:
        """The number of fragments."""
        return self._runs.rows

    def find_first_due(self) -> int | None:
        """Return the time at which the first fragment is due."""
        return self._runs.get_first_slot()

    def count_deferred_rows(self, *, for_lookup: bool) -> int:
        """Return on how many earlier rows `add_fragments` works, or a lookup of keys."""
        return self._runs.estimate_deferred_rows(for_lookup=for_lookup)

    @property
    def deferred_closing_rows(self) -> int:
        """The number of rows that `take_closed` works on, due or not."""
        return (
            self._runs.rows
            if self._should_compact
            else self._runs.estimate_deferred_rows(for_lookup=True)
        )

    def fold_fragments(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Fold rows, which have the start and end of their fragment, to fragments."""
        return self._fold.begin(rows.with_columns(self._build_close_time()), self.group_columns)

    def add_fragments(self, pieces: pl.DataFrame) -> None:
        """Store fragments."""
        self._runs.add(pieces)

    def reopen(self, sessions: pl.DataFrame) -> None:
        """Store sessions that were emitted before."""
        self._runs.add(sessions.with_columns(self._build_close_time()))

    def read_keys(self, sessions: pl.DataFrame) -> pl.DataFrame | None:
        """Return the fragments of the keys of these sessions."""
        return self._runs.read_keys(self._select_keys(sessions), NO_CLOCK_US)

    def take_closed(self, until_us: int) -> pl.DataFrame | None:
        """Remove and return the sessions that close up to this time."""
        if self._should_compact:
            self._compact()
        due = self._runs.take(until_us)
        return (
            due
            if due is None or until_us == MAX_WATERMARK_US
            else self._defer_continued(due, until_us)
        )

    def take_all(self) -> pl.DataFrame | None:
        """Remove and return all sessions."""
        return self._runs.take(MAX_WATERMARK_US)

    def take_touched(self, pieces: pl.DataFrame) -> pl.DataFrame:
        """Remove and return the sessions that these fragments touch."""
        return _take_touched(self._runs, self.layout, pieces, self._gap_us)

    def take_keys(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Remove and return the sessions of these keys."""
        return _or_empty(self._runs.take_keys(keys), self.layout)

    def add_sessions(self, sessions: pl.DataFrame) -> None:
        """Store whole sessions, which have ROW_COUNT."""
        whole = sessions.with_columns(self._build_close_time())
        self._runs.add(whole.select(self.columns))

    @property
    def _should_compact(self) -> bool:
        return self._runs.rows > 2 * self._compacted_count + MIN_COMPACTION_ROWS

    def _compact(self) -> None:
        """Merge the accumulated fragments to sessions: a long session has many."""
        whole = self._runs.take(MAX_WATERMARK_US)
        if whole is not None:
            self._runs.add(whole)
        self._compacted_count = self._runs.rows

    def _defer_continued(self, due: pl.DataFrame, until_us: int) -> pl.DataFrame:
        """Return the due sessions that no later fragment continues; store the others again."""
        import polars as pl

        later = self._runs.read_keys(self._select_keys(due), until_us)
        if later is None:
            return due
        continuing = find_continued(due.select(self.group_columns), later, self.key, self._gap_us)
        if not continuing.height:
            return due
        again = due.join(continuing, on=self.group_columns, nulls_equal=True)
        again = again.with_columns((pl.col(SESSION_END) + self._gap_us + 1).alias(SLOT)).drop(
            SESSION_END
        )
        self._runs.add(again.select(due.columns))
        return due.join(continuing, on=self.group_columns, how="anti", nulls_equal=True)

    def _merge_fragments(self, pieces: pl.DataFrame) -> pl.DataFrame:
        """Merge fragments to sessions, as far as they are known to belong together.

        They are stored under the latest of their times; a session that waits for another fragment
        may be stored later than it would close by itself.
        """
        whole = merge_fragments(pieces, self.key, self._gap_us)
        return self._fold.merge(whole, self.group_columns).select(pieces.columns)

    def _build_close_time(self) -> pl.Expr:
        import polars as pl

        return (pl.col(FRAGMENT_END) + (self._gap_us + 1)).alias(SLOT)

    def _select_keys(self, sessions: pl.DataFrame) -> pl.DataFrame:
        return sessions.select(self.key).unique()


def _or_empty(found: pl.DataFrame | None, layout: RunsLayout) -> pl.DataFrame:
    """Return the frame that was found, or an empty one."""
    import polars as pl

    return pl.DataFrame(schema={**layout.columns, SLOT: pl.Int64()}) if found is None else found


def _take_touched(
    runs: SortedRuns, layout: RunsLayout, pieces: pl.DataFrame, gap_us: int
) -> pl.DataFrame:
    """Remove and return the sessions of these runs that fragments touch."""
    found = _or_empty(runs.take_keys(pieces.select(layout.key).unique()), layout)
    if not found.height:
        return found
    by = (*layout.key, FRAGMENT_START, FRAGMENT_END)
    touched = find_continued(found.select(by), pieces, layout.key, gap_us)
    runs.add(found.join(touched, on=by, how="anti", nulls_equal=True))
    return found.join(touched, on=by, how="semi", nulls_equal=True)


EMITTED_STATE = "shown"
"""The name of the runs in the state."""
DISCARDED_STATE = "fired"
"""The same where sessions discard their rows."""


class EmittedSessions:
    """Emitted sessions, which become open again when rows touch them.

    Of sessions that discard their rows, only the times are stored.
    """

    def __init__(
        self, state: StepState, window: Window, opened: OpenSessions, *, keeps_rows: bool = True
    ) -> None:
        assert isinstance(window.shape, Session)
        self._columns = opened.columns if keeps_rows else (*opened.group_columns, SLOT)
        columns = {n: type for n, type in opened.layout.columns.items() if n in self._columns}
        self._layout = RunsLayout(columns, opened.key, lambda sessions: sessions)
        self._runs = state.open_runs(EMITTED_STATE if keeps_rows else DISCARDED_STATE, self._layout)
        self._state = state
        self._key = opened.key
        self._gap_us = window.shape.gap_us
        self._kept_us = window.shape.gap_us + 1 + window.lateness_us

    @property
    def session_count(self) -> int:
        """The number of sessions."""
        return self._runs.rows

    @property
    def deferred_rows(self) -> int:
        """The number of rows that a lookup of keys works on."""
        return self._runs.estimate_deferred_rows(for_lookup=True) if self._runs.rows else 0

    def add(self, sessions: pl.DataFrame) -> None:
        """Store sessions that were emitted."""
        import polars as pl

        until = (pl.col(FRAGMENT_END) + self._kept_us).alias(SLOT)
        shown = sessions.with_columns(until, pl.lit(0, dtype=pl.Int64).alias(ROW_COUNT))
        shown = shown.filter(pl.col(SLOT) > self._state.clock_us)
        self._runs.add(shown.select(self._columns))

    def read_keys(self, sessions: pl.DataFrame) -> pl.DataFrame | None:
        """Return the emitted sessions of the keys of these sessions."""
        return self._runs.read_keys(sessions.select(self._key).unique(), NO_CLOCK_US)

    def take_touched(self, pieces: pl.DataFrame) -> pl.DataFrame:
        """Remove and return the sessions that these fragments touch."""
        return _take_touched(self._runs, self._layout, pieces, self._gap_us)

    def take_keys(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Remove and return the sessions of these keys."""
        return _or_empty(self._runs.take_keys(keys), self._layout)

    def drop(self, until_us: int) -> None:
        """Forget the sessions stored up to this time: no row can touch them."""
        self._runs.drop(until_us)
