"""Session joins: rows of both sides that form a session together.

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

from headrace.core.api.state import NO_CLOCK_US, SLOT, RunsLayout, SortedRuns
from headrace.core.operators.joins.join_sides import (
    LEFT,
    RIGHT,
    SIDE_STATES,
    JoinSideColumns,
    SymmetricJoin,
)
from headrace.core.operators.joins.matched_pairs import WindowJoinOutput
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import (
    ClocklessOperator,
    Output,
    WriteThroughOperator,
    request_offload,
)
from headrace.core.operators.sessions.fragments import (
    FRAGMENT_END,
    FRAGMENT_START,
    ROW_NUMBER,
    find_continued,
    merge_fragments,
)
from headrace.core.operators.sessions.late_rows import find_late_rows
from headrace.core.operators.sessions.row_sessions import SessionRules
from headrace.core.plan import nodes
from headrace.core.plan.nodes.windows import Session, Window
from headrace.core.types.data_types import BIGINT, to_polars
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.frames import concat_chunks, select_columns

if TYPE_CHECKING:
    import polars as pl


EMITTED_PREFIX = "shown_"
"""The prefix of the name of the state of emitted rows."""


EMITTED_STARTS = ("__left_was", "__right_was")
"""The start of the session in which a row was emitted; null if it was not. Only with lateness."""


class SessionSideBuffer:
    """Stored rows with the columns of their side, including their time, and SLOT.

    An open row is stored under the time at which its session closes, as far as is known; an emitted
    row under the time until which rows may touch its session.
    """

    def __init__(
        self,
        operation: nodes.Join,
        which: int,
        context: KeyedContext,
        gap_us: int,
        lateness_us: int,
    ) -> None:
        self.side = side = JoinSideColumns(operation, which, ordered=context.is_ordered)
        self.key = side.key
        self._closes_us, self._over_us = gap_us + 1, gap_us + 1 + lateness_us
        self._emitted_columns = (EMITTED_STARTS[which],) if lateness_us else ()
        types = {**side.types, **dict.fromkeys(self._emitted_columns, to_polars(BIGINT))}
        self._types = {**types, SLOT: to_polars(BIGINT)}
        layout = RunsLayout(types, side.key, lambda rows: rows)
        self.open_rows = context.state.open_runs(SIDE_STATES[which], layout)
        self._emitted: SortedRuns | None = None
        if lateness_us:
            self._emitted = context.state.open_runs(EMITTED_PREFIX + SIDE_STATES[which], layout)
        numbers = () if side.number is None else (side.number,)
        self._output_columns = (*side.columns, *numbers, *self._emitted_columns)

    @property
    def row_count(self) -> int:
        """The number of stored rows."""
        return self.open_rows.rows + (0 if self._emitted is None else self._emitted.rows)

    def count_deferred_rows(self, *, for_lookup: bool) -> int:
        """Return the number of earlier rows that storing rows, or a lookup of keys, works on."""
        emitted_work = (
            0 if self._emitted is None else self._emitted.estimate_deferred_rows(for_lookup=True)
        )
        return emitted_work + self.open_rows.estimate_deferred_rows(for_lookup=for_lookup)

    def project_input(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Convert input rows to stored rows."""
        import polars as pl

        none = [pl.lit(None, dtype=pl.Int64).alias(name) for name in self._emitted_columns]
        closes = (pl.col(self.side.time) + self._closes_us).alias(SLOT)
        return self.side.project_input(frame).with_columns(*none, closes)

    def project_output(self, rows: pl.DataFrame, *more: pl.Expr) -> pl.DataFrame:
        """Return the output columns of rows, and the given expressions."""
        return select_columns(rows, *self._output_columns, *more)

    def take_due(self, until_us: int) -> pl.DataFrame:
        """Remove and return the open rows stored up to this time."""
        import polars as pl

        due = self.open_rows.take(until_us)
        return pl.DataFrame(schema=self._types) if due is None else due.select(*self._types)

    def read_fragments(self, keys: pl.DataFrame, after_us: int = NO_CLOCK_US) -> pl.DataFrame:
        """Return the rows of these keys, open after this time or emitted, as fragments."""
        import polars as pl

        runs = (self.open_rows,) if self._emitted is None else (self.open_rows, self._emitted)
        found = [rows for each in runs if (rows := each.read_keys(keys, after_us)) is not None]
        return build_fragments(
            self, concat_chunks(found) if found else pl.DataFrame(schema=self._types)
        )

    def split_closed(self, rows: pl.DataFrame, until_us: int) -> pl.DataFrame:
        """Return the rows of closed sessions, whose ends they have; store the others again."""
        import polars as pl

        closes = pl.col(FRAGMENT_END) + self._closes_us
        rows = rows.with_columns(closes.alias(SLOT))
        self.open_rows.add(rows.filter(pl.col(SLOT) > until_us).select(*self._types))
        return rows.filter(pl.col(SLOT) <= until_us)

    def store_emitted(self, rows: pl.DataFrame, clock_us: int) -> None:
        """Store rows of emitted sessions as long as these may be touched."""
        import polars as pl

        if self._emitted is None:
            return
        was = [pl.col(FRAGMENT_START).alias(name) for name in self._emitted_columns]
        until = (pl.col(FRAGMENT_END) + self._over_us).alias(SLOT)
        emitted_rows = rows.with_columns(*was, until).select(*self._types)
        self._emitted.add(emitted_rows.filter(pl.col(SLOT) > clock_us))

    def take_emitted(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Remove and return the emitted rows of these keys, with the bounds of their sessions."""
        import polars as pl

        emitted_rows = None if self._emitted is None else self._emitted.take_keys(keys)
        if emitted_rows is None:
            return None
        end = (pl.col(SLOT) - self._over_us).alias(FRAGMENT_END)
        return emitted_rows.with_columns(
            *[pl.col(name).alias(FRAGMENT_START) for name in self._emitted_columns], end
        )

    def reopen(self, rows: pl.DataFrame | None, touched: pl.DataFrame) -> None:
        """Reopen the rows of touched sessions; store the others as emitted again."""
        import polars as pl

        if rows is None or self._emitted is None:
            return
        by = [*self.key, FRAGMENT_START, FRAGMENT_END]
        names = [*self._types]
        self._emitted.add(rows.join(touched, on=by, how="anti", nulls_equal=True).select(names))
        again = rows.join(touched, on=by, how="semi", nulls_equal=True)
        self.open_rows.add(
            again.with_columns((pl.col(FRAGMENT_END) + self._closes_us).alias(SLOT)).select(names)
        )

    def drop(self, until_us: int) -> None:
        """Forget the emitted rows stored up to this time: no row can touch them."""
        if self._emitted is not None:
            self._emitted.drop(until_us)


def build_fragments(
    spans: SessionSideBuffer, rows: pl.DataFrame, *, all: bool = False
) -> pl.DataFrame:
    """Return the rows as session fragments of one row each; with `all`, including other columns."""
    import polars as pl

    time = pl.col(spans.side.time)
    columns = rows.columns if all else spans.key
    return select_columns(rows, *columns, time.alias(FRAGMENT_START), time.alias(FRAGMENT_END))


class SessionJoin(SymmetricJoin, ClocklessOperator, WriteThroughOperator):
    """The operator of a join over sessions."""

    def __init__(self, operation: nodes.Join, window: Window, context: KeyedContext) -> None:
        import polars as pl

        assert isinstance(window.shape, Session)
        self._late_to = operation.late_to
        self._context, self._state = context, context.state
        self._gap_us, self._lateness_us = window.shape.gap_us, window.lateness_us
        self._buffers = tuple(
            SessionSideBuffer(operation, which, context, self._gap_us, self._lateness_us)
            for which in (LEFT, RIGHT)
        )
        self._key = self._buffers[LEFT].key
        bounds = pl.col(FRAGMENT_START), pl.col(FRAGMENT_END) + self._gap_us
        self._output = WindowJoinOutput(
            operation, context, self._buffers, (*self._key, FRAGMENT_START), bounds
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
            sum(spans.count_deferred_rows(for_lookup=False) for spans in self._buffers)
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
        numbered = build_fragments(own, rows).with_columns(pl.int_range(pl.len()).alias(ROW_NUMBER))
        lacks = own.side.find_null_keys(rows)
        known = numbered if lacks is None else numbered.filter(~lacks)
        rules = SessionRules(self._gap_us, lateness_us, clock_us, keeps_rows=True)
        late = find_late_rows(known, self._read_stored, self._key, rules)
        over = pl.repeat(False, rows.height, dtype=pl.Boolean, eager=True).scatter(late, True)
        return over if lacks is None else over | (lacks & alone)

    def _read_stored(self, keys: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Yield the fragments of keys, of both sides."""
        return (spans.read_fragments(keys) for spans in self._buffers)

    def _reopen_sessions(self, pieces: pl.DataFrame) -> None:
        """Reopen the emitted sessions that these fragments touch."""
        keys = pieces.select(self._key).unique()
        emitted_rows = [spans.take_emitted(keys) for spans in self._buffers]
        by = [*self._key, FRAGMENT_START, FRAGMENT_END]
        sessions = [rows.select(by) for rows in emitted_rows if rows is not None]
        if sessions:
            whole = concat_chunks(sessions).unique()
            touched = find_continued(whole, pieces, self._key, self._gap_us).select(by)
            for spans, rows in zip(self._buffers, emitted_rows, strict=True):
                spans.reopen(rows, touched)

    def _emit_closed(self, until_us: int) -> Iterator[Output]:
        """Emit the sessions that closed up to this time."""
        firsts = [
            at for spans in self._buffers if (at := spans.open_rows.get_first_slot()) is not None
        ]
        if not firsts or min(firsts) > until_us:
            return
        yield from request_offload(
            sum(spans.count_deferred_rows(for_lookup=True) for spans in self._buffers)
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
