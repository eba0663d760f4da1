"""The open sessions, stored as fragments: rows of a key known to belong together.

A fragment is stored under the time at which it would close. Fragments that are due are merged for
all keys at once; a fragment continued by a later one is stored again, under the later one's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.elements import FOREVER_US
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.numbered import ROWS, Numbered
from headrace.core.operators.sessions.pieces import END, LAST, START, continued, joined
from headrace.core.state import NO_CLOCK_US, SLOT, RunsLayout, StepState

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.operators.folds import Fold

OPEN = "open"
"""The name of the runs in the state."""

FEW_ROWS = 8192
"""The number of fragments below which they are not compacted."""


class Opened:
    """Sessions that later rows may continue, and that were not emitted since their last row.

    Sessions are frames with the `group_columns`, SLOT, and the columns of the fold; ROW_COUNT is
    the number of rows of a session since it was last emitted.
    """

    def __init__(self, state: StepState, grouping: Grouping, fold: Fold, gap_us: int) -> None:
        import polars as pl

        self._fold = Numbered(fold, (SLOT,))
        self._gap_us = gap_us
        self.key = grouping.inside
        self.by = (*self.key, START, END)
        bounds = {START: pl.Int64(), END: pl.Int64()}
        columns = {**grouping.types, **self._fold.columns, **bounds}
        del columns[SLOT]
        self.layout = RunsLayout(columns, self.key, self._merged)
        self._runs = state.runs(OPEN, self.layout)
        self._compacted_count = 0
        """The number of fragments after the last compaction, which decides about the next."""

    @property
    def rows(self) -> int:
        """The number of fragments."""
        return self._runs.rows

    def first(self) -> int | None:
        """Return the time at which the first fragment is due."""
        return self._runs.first()

    def owed(self, *, asking: bool) -> int:
        """Return on how many earlier rows `add_fragments` works, or a lookup of keys."""
        return self._runs.owed(asking=asking)

    @property
    def owed_closing(self) -> int:
        """The number of rows that `take_closed` works on, due or not."""
        return self._runs.rows if self._gathered else self._runs.owed(asking=True)

    def pieces(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Fold rows, which have the start and end of their fragment, to fragments."""
        return self._fold.begin(rows.with_columns(self._closes()), self.by)

    def add(self, pieces: pl.DataFrame) -> None:
        """Store fragments."""
        self._runs.add(pieces)

    def add_again(self, sessions: pl.DataFrame) -> None:
        """Store sessions that were emitted before."""
        self._runs.add(sessions.with_columns(self._closes()))

    def of_keys(self, sessions: pl.DataFrame) -> pl.DataFrame | None:
        """Return the fragments of the keys of these sessions."""
        return self._runs.of_keys(self._keys(sessions), NO_CLOCK_US)

    def closed(self, until_us: int) -> pl.DataFrame | None:
        """Remove and return the sessions that close up to this time."""
        if self._gathered:
            self._put_together()
        due = self._runs.take(until_us)
        return due if due is None or until_us == FOREVER_US else self._over(due, until_us)

    def all(self) -> pl.DataFrame | None:
        """Remove and return all sessions."""
        return self._runs.take(FOREVER_US)

    def full(self, pieces: pl.DataFrame, count: int) -> pl.DataFrame | None:
        """Remove and return the sessions, of the keys of these, with at least `count` new rows."""
        import polars as pl

        sessions = self._runs.take_keys(self._keys(pieces))
        if sessions is None:
            return None
        self._runs.add(sessions.filter(pl.col(ROWS) < count))
        return sessions.filter(pl.col(ROWS) >= count)

    @property
    def _gathered(self) -> bool:
        return self._runs.rows > 2 * self._compacted_count + FEW_ROWS

    def _put_together(self) -> None:
        """Merge the accumulated fragments to sessions: a long session has many."""
        whole = self._runs.take(FOREVER_US)
        if whole is not None:
            self._runs.add(whole)
        self._compacted_count = self._runs.rows

    def _over(self, due: pl.DataFrame, until_us: int) -> pl.DataFrame:
        """Return the due sessions that no later fragment continues; store the others again."""
        import polars as pl

        later = self._runs.of_keys(self._keys(due), until_us)
        if later is None:
            return due
        continuing = continued(due.select(self.by), later, self.key, self._gap_us)
        if not continuing.height:
            return due
        again = due.join(continuing, on=self.by, nulls_equal=True)
        again = again.with_columns((pl.col(LAST) + self._gap_us + 1).alias(SLOT)).drop(LAST)
        self._runs.add(again.select(due.columns))
        return due.join(continuing, on=self.by, how="anti", nulls_equal=True)

    def _merged(self, pieces: pl.DataFrame) -> pl.DataFrame:
        """Merge fragments to sessions, as far as they are known to belong together.

        They are stored under the latest of their times; a session that waits for another fragment
        may be stored later than it would close by itself.
        """
        whole = joined(pieces, self.key, self._gap_us)
        return self._fold.merge(whole, self.by).select(pieces.columns)

    def _closes(self) -> pl.Expr:
        import polars as pl

        return (pl.col(END) + (self._gap_us + 1)).alias(SLOT)

    def _keys(self, sessions: pl.DataFrame) -> pl.DataFrame:
        return sessions.select(self.key).unique()
