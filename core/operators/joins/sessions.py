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

from headrace.core.elements import MAX_WATERMARK_US
from headrace.core.frames import concat_chunks
from headrace.core.operators.joins.both_sides import SymmetricJoin
from headrace.core.operators.joins.sides import LEFT, RIGHT
from headrace.core.operators.joins.spans import EMITTED_STARTS, SessionSideBuffer, build_fragments
from headrace.core.operators.joins.whole import WindowJoinOutput
from headrace.core.operators.operator import (
    ClocklessOperator,
    Output,
    WriteThroughOperator,
    request_offload,
)
from headrace.core.operators.place import KeyedContext
from headrace.core.operators.sessions.pieces import (
    FRAGMENT_END,
    FRAGMENT_START,
    find_continued,
    merge_fragments,
)
from headrace.core.plan import nodes
from headrace.core.plan.windows import Session, Window
from headrace.core.state import NO_CLOCK_US, SLOT

if TYPE_CHECKING:
    import polars as pl


class SessionJoin(SymmetricJoin, ClocklessOperator, WriteThroughOperator):
    """The operator of a join over sessions."""

    def __init__(self, operation: nodes.Join, window: Window, place: KeyedContext) -> None:
        import polars as pl

        assert isinstance(window.shape, Session)
        self._late_to = operation.late_to
        self._context, self._state = place, place.state
        self._gap_us, self._lateness_us = window.shape.gap_us, window.lateness_us
        self._buffers = tuple(
            SessionSideBuffer(operation, which, place, self._gap_us, self._lateness_us)
            for which in (LEFT, RIGHT)
        )
        self._key = self._buffers[LEFT].key
        bounds = pl.col(FRAGMENT_START), pl.col(FRAGMENT_END) + self._gap_us
        self._output = WindowJoinOutput(
            operation, place, self._buffers, (*self._key, FRAGMENT_START), bounds
        )
        self._new_pairs: pl.Expr | None = None
        """Selects the pairs whose rows were not in the same emitted session."""
        if self._lateness_us:
            self._new_pairs = ~(
                pl.col(EMITTED_STARTS[LEFT]) == pl.col(EMITTED_STARTS[RIGHT])
            ).fill_null(False)
        self.watermark_delay_us = 1 + self._lateness_us

    @property
    def pending_rows(self) -> int:
        """The number of stored rows."""
        return sum(spans.row_count for spans in self._buffers)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the sessions whose gap has passed."""
        self._state.clock_us = max(self._state.clock_us, watermark_us)
        yield from self._emit_closed(watermark_us)
        for spans in self._buffers:
            spans.drop(watermark_us)

    def _process_side(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        """Store the rows that are not too late, and reopen the sessions they touch."""
        own = self._buffers[which]
        rows = own.project_input(frame)
        late, lacks = self._find_late_rows(own, rows), own.side.find_null_keys(rows)
        if late is not None:
            yield from self._context.emit_late_rows(self._late_to[which], frame.filter(late))
            rows = rows.filter(~late)
            lacks = None if lacks is None else lacks.filter(~late)
        if lacks is not None:
            if which in self._output.unmatched_sides:
                yield from self._output.emit_alone(
                    which, build_fragments(own, rows.filter(lacks), all=True)
                )
            rows = rows.filter(~lacks)
        if not rows.height:
            return
        yield from request_offload(
            sum(spans.count_deferred_rows(asking=False) for spans in self._buffers)
        )
        if self._lateness_us:
            self._reopen_sessions(build_fragments(own, rows))
        own.open_rows.add(rows)
        yield from self._emit_closed(self._state.clock_us)

    def _find_late_rows(self, own: SessionSideBuffer, rows: pl.DataFrame) -> pl.Series | None:
        """Return which rows are too late for their session; None if none is."""
        import polars as pl

        clock_us, lateness_us = self._state.clock_us, self._lateness_us
        alone = rows[SLOT] + lateness_us <= clock_us
        if clock_us == NO_CLOCK_US or not alone.any():
            return None
        numbered = build_fragments(own, rows).with_row_index("__row")
        lacks = own.side.find_null_keys(rows)
        known = numbered if lacks is None else numbered.filter(~lacks)
        found = merge_fragments(known, self._key, self._gap_us)
        suspects = found.filter(pl.col(FRAGMENT_END) + (self._gap_us + 1 + lateness_us) <= clock_us)
        by = [*self._key, FRAGMENT_START, FRAGMENT_END]
        sessions = suspects.select(by).unique()
        for spans in self._buffers:
            kept = spans.read_fragments(sessions.select(self._key).unique())
            saved = find_continued(sessions, kept, self._key, self._gap_us)
            sessions = sessions.join(saved, on=by, how="anti", nulls_equal=True)
        late = suspects.join(sessions, on=by, how="semi", nulls_equal=True)["__row"]
        over = pl.repeat(False, rows.height, dtype=pl.Boolean, eager=True).scatter(late, True)
        return over if lacks is None else over | (lacks & alone)

    def _reopen_sessions(self, pieces: pl.DataFrame) -> None:
        """Reopen the emitted sessions that these fragments touch."""
        keys = pieces.select(self._key).unique()
        went = [spans.take_emitted(keys) for spans in self._buffers]
        by = [*self._key, FRAGMENT_START, FRAGMENT_END]
        sessions = [rows.select(by) for rows in went if rows is not None]
        if sessions:
            whole = concat_chunks(sessions).unique()
            touched = find_continued(whole, pieces, self._key, self._gap_us).select(by)
            for spans, rows in zip(self._buffers, went, strict=True):
                spans.reopen(rows, touched)

    def _emit_closed(self, until_us: int) -> Iterator[Output]:
        """Emit the sessions that closed up to this time."""
        firsts = [
            at for spans in self._buffers if (at := spans.open_rows.get_first_slot()) is not None
        ]
        if not firsts or min(firsts) > until_us:
            return
        yield from request_offload(
            sum(spans.count_deferred_rows(asking=True) for spans in self._buffers)
        )
        due = [spans.take_due(until_us) for spans in self._buffers]
        pieces = [
            build_fragments(spans, rows) for spans, rows in zip(self._buffers, due, strict=True)
        ]
        whole = self._find_sessions(concat_chunks(pieces), until_us)
        closed, start = [], 0
        for spans, rows in zip(self._buffers, due, strict=True):
            found = rows.hstack(whole.slice(start, rows.height))
            start += rows.height
            closed.append(spans.split_closed(found, until_us))
        yield from self._output.emit_window((closed[LEFT], closed[RIGHT]), self._new_pairs)
        for spans, rows in zip(self._buffers, closed, strict=True):
            spans.store_emitted(rows, self._state.clock_us)

    def _find_sessions(self, pieces: pl.DataFrame, until_us: int) -> pl.DataFrame:
        """Return the start and the end of the session of each fragment."""
        import polars as pl

        rows = pl.int_range(pl.len(), dtype=pl.UInt32)
        numbered = [pieces.with_columns(rows.alias("__row"))]
        if until_us != MAX_WATERMARK_US:
            keys = pieces.select(self._key).unique()
            later = (spans.read_fragments(keys, until_us) for spans in self._buffers)
            none = pl.lit(None, dtype=pl.UInt32).alias("__row")
            numbered += [each.with_columns(none) for each in later]
        whole = merge_fragments(concat_chunks(numbered), self._key, self._gap_us)
        return whole.drop_nulls("__row").sort("__row").select(FRAGMENT_START, FRAGMENT_END)
