"""Joins of the rows of one session, which the rows of both sides form together.

A row is stored under the time at which its session would close if nothing followed. Rows that are
due are merged with all stored rows of their keys: a row whose session continues is stored again,
under the session's new closing time. With allowed lateness, the rows of emitted sessions are stored
as well, each with the start of its session; if a late row touches one, its rows are open again, and
then only the pairs are emitted whose rows were not in the same session before. A row with a null in
its key forms its own session, and is emitted at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import FOREVER_US
from headrace.core.frames import together
from headrace.core.operators.joins.both_sides import BothSides
from headrace.core.operators.joins.sides import LEFT, RIGHT
from headrace.core.operators.joins.spans import WAS, Spans, pieces_of
from headrace.core.operators.joins.whole import Whole
from headrace.core.operators.operator import Clockless, Filed, Output, aside
from headrace.core.operators.place import Place
from headrace.core.operators.sessions.pieces import END, START, continued, joined
from headrace.core.plan import nodes
from headrace.core.plan.windows import Session, Window
from headrace.core.state import NO_CLOCK_US, SLOT

if TYPE_CHECKING:
    import polars as pl


class SessionJoin(BothSides, Clockless, Filed):
    """The operator of a join over sessions."""

    def __init__(self, operation: nodes.Join, window: Window, place: Place) -> None:
        import polars as pl

        assert isinstance(window.shape, Session)
        self._late_to = operation.late_to
        self._context, self._state = place, place.state
        self._gap_us, self._lateness_us = window.shape.gap_us, window.lateness_us
        self._buffers = tuple(
            Spans(operation, which, place, self._gap_us, self._lateness_us)
            for which in (LEFT, RIGHT)
        )
        self._key = self._buffers[LEFT].key
        bounds = pl.col(START), pl.col(END) + self._gap_us
        self._output = Whole(operation, place, self._buffers, (*self._key, START), bounds)
        self._new_pairs: pl.Expr | None = None
        """Selects the pairs whose rows were not in the same emitted session."""
        if self._lateness_us:
            self._new_pairs = ~(pl.col(WAS[LEFT]) == pl.col(WAS[RIGHT])).fill_null(False)
        self.behind_us = 1 + self._lateness_us

    @property
    def held(self) -> int:
        """The number of stored rows."""
        return sum(spans.rows for spans in self._buffers)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the sessions whose gap has passed."""
        self._state.clock_us = max(self._state.clock_us, watermark_us)
        yield from self._close(watermark_us)
        for spans in self._buffers:
            spans.drop(watermark_us)

    def _take(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        """Store the rows that are not too late, and reopen the sessions they touch."""
        own = self._buffers[which]
        rows = own.of(frame)
        late, lacks = self._late(own, rows), own.side.lacks_key(rows)
        if late is not None:
            yield from self._context.left_out(self._late_to[which], frame.filter(late))
            rows = rows.filter(~late)
            lacks = None if lacks is None else lacks.filter(~late)
        if lacks is not None:
            if which in self._output.alone_of:
                yield from self._output.out(which, pieces_of(own, rows.filter(lacks), all=True))
            rows = rows.filter(~lacks)
        if not rows.height:
            return
        yield from aside(sum(spans.owed(asking=False) for spans in self._buffers))
        if self._lateness_us:
            self._open_again(pieces_of(own, rows))
        own.open.add(rows)
        yield from self._close(self._state.clock_us)

    def _late(self, own: Spans, rows: pl.DataFrame) -> pl.Series | None:
        """Return which rows are too late for their session; None if none is."""
        import polars as pl

        clock_us, lateness_us = self._state.clock_us, self._lateness_us
        alone = rows[SLOT] + lateness_us <= clock_us
        if clock_us == NO_CLOCK_US or not alone.any():
            return None
        numbered = pieces_of(own, rows).with_row_index("__row")
        lacks = own.side.lacks_key(rows)
        known = numbered if lacks is None else numbered.filter(~lacks)
        found = joined(known, self._key, self._gap_us)
        suspects = found.filter(pl.col(END) + (self._gap_us + 1 + lateness_us) <= clock_us)
        by = [*self._key, START, END]
        sessions = suspects.select(by).unique()
        for spans in self._buffers:
            kept = spans.pieces(sessions.select(self._key).unique())
            saved = continued(sessions, kept, self._key, self._gap_us)
            sessions = sessions.join(saved, on=by, how="anti", nulls_equal=True)
        late = suspects.join(sessions, on=by, how="semi", nulls_equal=True)["__row"]
        over = pl.repeat(False, rows.height, dtype=pl.Boolean, eager=True).scatter(late, True)
        return over if lacks is None else over | (lacks & alone)

    def _open_again(self, pieces: pl.DataFrame) -> None:
        """Reopen the emitted sessions that these fragments touch."""
        keys = pieces.select(self._key).unique()
        went = [spans.taken(keys) for spans in self._buffers]
        by = [*self._key, START, END]
        sessions = [rows.select(by) for rows in went if rows is not None]
        if sessions:
            whole = together(sessions).unique()
            touched = continued(whole, pieces, self._key, self._gap_us).select(by)
            for spans, rows in zip(self._buffers, went, strict=True):
                spans.open_again(rows, touched)

    def _close(self, until_us: int) -> Iterator[Output]:
        """Emit the sessions that closed up to this time."""
        firsts = [at for spans in self._buffers if (at := spans.open.first()) is not None]
        if not firsts or min(firsts) > until_us:
            return
        yield from aside(sum(spans.owed(asking=True) for spans in self._buffers))
        due = [spans.due(until_us) for spans in self._buffers]
        pieces = [pieces_of(spans, rows) for spans, rows in zip(self._buffers, due, strict=True)]
        whole = self._sessions(together(pieces), until_us)
        closed, start = [], 0
        for spans, rows in zip(self._buffers, due, strict=True):
            found = rows.hstack(whole.slice(start, rows.height))
            start += rows.height
            closed.append(spans.closed(found, until_us))
        yield from self._output.fired((closed[LEFT], closed[RIGHT]), self._new_pairs)
        for spans, rows in zip(self._buffers, closed, strict=True):
            spans.show(rows, self._state.clock_us)

    def _sessions(self, pieces: pl.DataFrame, until_us: int) -> pl.DataFrame:
        """Return the start and the end of the session of each fragment."""
        import polars as pl

        rows = pl.int_range(pl.len(), dtype=pl.UInt32)
        numbered = [pieces.with_columns(rows.alias("__row"))]
        if until_us != FOREVER_US:
            keys = pieces.select(self._key).unique()
            later = (spans.pieces(keys, until_us) for spans in self._buffers)
            none = pl.lit(None, dtype=pl.UInt32).alias("__row")
            numbered += [each.with_columns(none) for each in later]
        whole = joined(together(numbered), self._key, self._gap_us)
        return whole.drop_nulls("__row").sort("__row").select(START, END)
