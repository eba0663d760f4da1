"""Joins of the rows of one session, which the rows of both sides make together.

A row is kept under the time at which its session would close if nothing followed. What is due is
put together with all that is kept of its keys: a row whose session goes on is filed again, under
the time at which that would close. Where rows may come late, those of sessions that went out are
kept beside, each with the start that its session had; if one is touched, its rows are open again,
and of what goes out then only the pairs are new whose rows were not in the same session before.
A row with a null in its key is in a session of its own, and goes out at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, FOREVER_US
from headrace.core.frames import together
from headrace.core.operators.joins.beside import Beside, without
from headrace.core.operators.joins.bounds import goes_alone
from headrace.core.operators.joins.pairs import Pairs
from headrace.core.operators.joins.probing import Probe
from headrace.core.operators.joins.sides import LEFT, RIGHT
from headrace.core.operators.joins.spans import WAS, Spans, pieces_of
from headrace.core.operators.operator import Output, aside
from headrace.core.operators.place import Place
from headrace.core.operators.sessions.pieces import END, START, continued, joined
from headrace.core.plan import nodes
from headrace.core.plan.windows import Session, Window
from headrace.core.state import NO_CLOCK_US, SLOT
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl


class SessionJoin:
    """The operator of a join over sessions."""

    def __init__(self, operation: nodes.Join, window: Window, place: Place) -> None:
        assert isinstance(window.shape, Session)
        self._type = operation.type
        self._late_to = operation.late_to
        self._place, self._state = place, place.state
        self._gap_us, self._lateness_us = window.shape.gap_us, window.lateness_us
        self._spans = tuple(
            Spans(operation, which, place, self._gap_us, self._lateness_us)
            for which in (LEFT, RIGHT)
        )
        self._key = self._spans[LEFT].key
        self._alone_of = [which for which in (LEFT, RIGHT) if goes_alone(operation.type, which)]
        ordered = place.ordered
        self._pairs = Pairs(operation, place.stream, ordered=ordered, bounds=nodes.BOUNDS)
        self.behind_us = 1 + self._lateness_us

    @property
    def held(self) -> int:
        """The rows that are kept."""
        return sum(spans.rows for spans in self._spans)

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Left rows wait for the end of their sessions."""
        yield from self._take(LEFT, frame)

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """So do right rows."""
        yield from self._take(RIGHT, frame)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Sessions close whose gap has passed."""
        self._state.clock_us = max(self._state.clock_us, watermark_us)
        yield from self._close(watermark_us)
        for spans in self._spans:
            spans.drop(watermark_us)

    def due_us(self) -> int | None:
        """The wall clock means nothing to it."""
        return None

    def tick(self, now_us: int) -> Iterator[Output]:
        """The wall clock means nothing to it."""
        return iter(())

    def settle(self) -> None:
        """All is filed as it comes."""

    def _take(self, which: int, frame: pl.DataFrame) -> Iterator[Output]:
        """Keep the rows that are not too late; what they reach of sessions that closed, again."""
        own = self._spans[which]
        rows = own.of(frame)
        late, lacks = self._late(own, rows), own.side.lacks_key(rows)
        if late is not None:
            yield from self._place.left_out(self._late_to[which], frame.filter(late))
            rows = rows.filter(~late)
            lacks = None if lacks is None else lacks.filter(~late)
        if lacks is not None:
            if which in self._alone_of:
                yield from self._out(which, pieces_of(own, rows.filter(lacks), all=True))
            rows = rows.filter(~lacks)
        if not rows.height:
            return
        yield from aside(sum(spans.owed(asking=False) for spans in self._spans))
        if self._lateness_us:
            self._open_again(pieces_of(own, rows))
        own.open.add(rows)
        yield from self._close(self._state.clock_us)

    def _late(self, own: Spans, rows: pl.DataFrame) -> pl.Series | None:
        """The rows whose session is over, with all its time for late ones; None: there are none."""
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
        for spans in self._spans:
            kept = spans.pieces(sessions.select(self._key).unique())
            saved = continued(sessions, kept, self._key, self._gap_us)
            sessions = sessions.join(saved, on=by, how="anti", nulls_equal=True)
        late = suspects.join(sessions, on=by, how="semi", nulls_equal=True)["__row"]
        over = pl.repeat(False, rows.height, dtype=pl.Boolean, eager=True).scatter(late, True)
        return over if lacks is None else over | (lacks & alone)

    def _open_again(self, pieces: pl.DataFrame) -> None:
        """Open sessions again that went out, and that these touch."""
        keys = pieces.select(self._key).unique()
        went = [spans.taken(keys) for spans in self._spans]
        by = [*self._key, START, END]
        sessions = [rows.select(by) for rows in went if rows is not None]
        if sessions:
            whole = together(sessions).unique()
            touched = continued(whole, pieces, self._key, self._gap_us).select(by)
            for spans, rows in zip(self._spans, went, strict=True):
                spans.open_again(rows, touched)

    def _close(self, until_us: int) -> Iterator[Output]:
        """Put out the sessions that closed up to then."""
        firsts = [at for spans in self._spans if (at := spans.open.first()) is not None]
        if not firsts or min(firsts) > until_us:
            return
        yield from aside(sum(spans.owed(asking=True) for spans in self._spans))
        due = [spans.due(until_us) for spans in self._spans]
        pieces = [pieces_of(spans, rows) for spans, rows in zip(self._spans, due, strict=True)]
        whole = self._whole(together(pieces), until_us)
        closed, start = [], 0
        for spans, rows in zip(self._spans, due, strict=True):
            found = rows.hstack(whole.slice(start, rows.height))
            start += rows.height
            closed.append(spans.closed(found, until_us))
        yield from self._fired((closed[LEFT], closed[RIGHT]))
        for spans, rows in zip(self._spans, closed, strict=True):
            spans.show(rows, self._state.clock_us)

    def _whole(self, pieces: pl.DataFrame, until_us: int) -> pl.DataFrame:
        """The start and the end of the session that each of the pieces is in."""
        import polars as pl

        rows = pl.int_range(pl.len(), dtype=pl.UInt32)
        numbered = [pieces.with_columns(rows.alias("__row"))]
        if until_us != FOREVER_US:
            keys = pieces.select(self._key).unique()
            later = (spans.pieces(keys, until_us) for spans in self._spans)
            none = pl.lit(None, dtype=pl.UInt32).alias("__row")
            numbered += [each.with_columns(none) for each in later]
        whole = joined(together(numbered), self._key, self._gap_us)
        return whole.drop_nulls("__row").sort("__row").select(START, END)

    def _fired(self, sides: tuple[pl.DataFrame, pl.DataFrame]) -> Iterator[Output]:
        """What goes out of whole sessions."""
        asked = self._asked(LEFT, sides)
        if self._type == "semi":
            yield from self._out(LEFT, sides[LEFT][asked.met()])
        elif self._type != "anti":
            for pairs in asked.rows():
                yield from self._pairs.rows(self._new(pairs))
        for which in self._alone_of:
            met = (asked if which == LEFT else self._asked(RIGHT, sides)).met()
            yield from self._out(which, without(sides[which], met))

    def _new(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """The pairs whose rows were not in the same session when that went out."""
        import polars as pl

        if not self._lateness_us:
            return pairs
        same = pl.col(WAS[LEFT]) == pl.col(WAS[RIGHT])
        return pairs.filter(~same.fill_null(False))

    def _asked(self, which: int, sides: tuple[pl.DataFrame, pl.DataFrame]) -> Beside:
        own, other = sides[which], sides[1 - which]
        there = self._spans[1 - which].shown(other)
        probe = Probe(own, other, (*self._key, START))
        return Beside(self._pairs, probe, self._shown(which, own), there)

    def _out(self, which: int, rows: pl.DataFrame) -> Iterator[Output]:
        return self._pairs.rows(self._shown(which, rows))

    def _shown(self, which: int, rows: pl.DataFrame) -> pl.DataFrame:
        """What goes out of rows in whole sessions."""
        import polars as pl

        stamp, end = to_polars(TIMESTAMP), pl.col(END) + self._gap_us
        start_and_end = zip(nodes.BOUNDS, (pl.col(START), end), strict=True)
        bounds = [at.cast(stamp).alias(name) for name, at in start_and_end]
        return self._spans[which].shown(rows, *bounds, (end - 1).alias(EVENT_TIME))
