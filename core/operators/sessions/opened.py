"""The open sessions, as pieces: rows of a key that belong together as far as was known.

A piece is filed under the time at which it would close. What is due is put together for all keys at
once; a piece that a later one continues is filed again under the later one's time, and waits.
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
"""What the runs are called in the state."""

FEW_ROWS = 8192
"""So many pieces may wait, however few sessions they are of."""


class Opened:
    """Sessions that later rows may go on, and that have not been put out since rows last came.

    Sessions are frames with the columns `by`, SLOT, and those of the fold; ROWS is how many rows
    have come to a session since it was last put out.
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
        self._together = 0
        """How many there were when they were last put together; that only says when it pays."""

    @property
    def rows(self) -> int:
        """How many pieces there are."""
        return self._runs.rows

    def first(self) -> int | None:
        """When the first of them is due."""
        return self._runs.first()

    def owed(self, *, asking: bool) -> int:
        """On how many rows `add` works that had come before, or who asks for keys."""
        return self._runs.owed(asking=asking)

    @property
    def owed_closing(self) -> int:
        """On how many rows `closed` works, due or not."""
        return self._runs.rows if self._gathered else self._runs.owed(asking=True)

    def pieces(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The pieces of rows, which have the start and the end of theirs."""
        return self._fold.begin(rows.with_columns(self._closes()), self.by)

    def add(self, pieces: pl.DataFrame) -> None:
        """File pieces."""
        self._runs.add(pieces)

    def add_again(self, sessions: pl.DataFrame) -> None:
        """File sessions that were put out before."""
        self._runs.add(sessions.with_columns(self._closes()))

    def of_keys(self, sessions: pl.DataFrame) -> pl.DataFrame | None:
        """The pieces of the keys of these sessions."""
        return self._runs.of_keys(self._keys(sessions), NO_CLOCK_US)

    def closed(self, until_us: int) -> pl.DataFrame | None:
        """The sessions that close up to then; they are open no more."""
        if self._gathered:
            self._put_together()
        due = self._runs.take(until_us)
        return due if due is None or until_us == FOREVER_US else self._over(due, until_us)

    def all(self) -> pl.DataFrame | None:
        """All there are; they are open no more."""
        return self._runs.take(FOREVER_US)

    def full(self, pieces: pl.DataFrame, count: int) -> pl.DataFrame | None:
        """Of the keys of these, the sessions to which so many rows have come."""
        import polars as pl

        sessions = self._runs.take_keys(self._keys(pieces))
        if sessions is None:
            return None
        self._runs.add(sessions.filter(pl.col(ROWS) < count))
        return sessions.filter(pl.col(ROWS) >= count)

    @property
    def _gathered(self) -> bool:
        return self._runs.rows > 2 * self._together + FEW_ROWS

    def _put_together(self) -> None:
        """Make sessions of the pieces that have gathered: of a key that goes on there are many."""
        whole = self._runs.take(FOREVER_US)
        if whole is not None:
            self._runs.add(whole)
        self._together = self._runs.rows

    def _over(self, due: pl.DataFrame, until_us: int) -> pl.DataFrame:
        """The due sessions without those that later pieces continue: these are filed again."""
        import polars as pl

        later = self._runs.of_keys(self._keys(due), until_us)
        if later is None:
            return due
        going_on = continued(due.select(self.by), later, self.key, self._gap_us)
        if not going_on.height:
            return due
        again = due.join(going_on, on=self.by, nulls_equal=True)
        again = again.with_columns((pl.col(LAST) + self._gap_us + 1).alias(SLOT)).drop(LAST)
        self._runs.add(again.select(due.columns))
        return due.join(going_on, on=self.by, how="anti", nulls_equal=True)

    def _merged(self, pieces: pl.DataFrame) -> pl.DataFrame:
        """The pieces put together to sessions, as far as they show.

        They are filed under the latest of their times; one that waits for another piece may be
        filed later than it would close by itself.
        """
        whole = joined(pieces, self.key, self._gap_us)
        return self._fold.merge(whole, self.by).select(pieces.columns)

    def _closes(self) -> pl.Expr:
        import polars as pl

        return (pl.col(END) + (self._gap_us + 1)).alias(SLOT)

    def _keys(self, sessions: pl.DataFrame) -> pl.DataFrame:
        return sessions.select(self.key).unique()
