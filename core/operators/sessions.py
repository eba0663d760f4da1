"""Session windows: rows of a key that follow each other at most the gap apart make one window.

A row exactly at the end of a session still belongs to it, so that a session closes when the
watermark is past its end, and not when it is there. What it puts out is then that much older than
the watermark: `behind_us`.

State is pieces of sessions: rows of one key that belong together as far as was known when they were
filed, under the time at which they would close. What is due is put together for all keys at once; a
piece that a later one continues is filed again under the later one's time, and waits with it.

A window that may change after it was put out (`lateness`, `trigger`) is kept among the shown ones.
A row that touches one takes it back: its row is deleted, and the session is put out again when it
is due. So a window's row is gone as soon as there is no such window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, EVENT_TIME, FOREVER_US
from headrace.core.operators.folds import AT
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.operator import Output, aside
from headrace.core.operators.outgoing import WINDOW_END, WINDOW_START, Outgoing
from headrace.core.operators.place import Place
from headrace.core.operators.sessionizing import END, LAST, START, continued, joined
from headrace.core.operators.windows.make import fold_of
from headrace.core.operators.windows.triggers import Rings
from headrace.core.plan.nodes import Aggregate, Top
from headrace.core.plan.windows import Session
from headrace.core.state import NO_CLOCK_US, SLOT, RunsLayout

if TYPE_CHECKING:
    import polars as pl

OPEN = "open"
"""What the runs of pieces are called in the state."""

FEW_ROWS = 8192
"""So many pieces may wait, however few sessions they are of."""
ROWS = "__rows"
"""How many rows have come to a session since it was last put out."""


class Sessions:
    """The operator of `window: {session: ...}`."""

    def __init__(
        self, operation: Aggregate | Top, place: Place, types: Mapping[str, pl.DataType]
    ) -> None:
        """`types` are those of the columns that rows come with; only `top` keeps them all."""
        import polars as pl

        window, state = operation.window, place.state
        assert window is not None and isinstance(window.shape, Session)
        self._window = window
        self._grouping = grouping = Grouping(operation.key)
        self._fold = fold = fold_of(operation, grouping, types)
        self._shows_bounds = isinstance(operation, Aggregate)
        self._out = Outgoing(operation, place.stream, ordered=place.ordered)
        self._late = place.late
        self._now_us = place.now_us
        self._gap_us = window.shape.gap_us
        self._open_us = window.shape.gap_us + 1
        self._state = state
        self._key = grouping.inside
        self._by = (*grouping.inside, START, END)
        extra = {START: pl.Int64(), END: pl.Int64(), ROWS: pl.Int64()}
        columns = {**grouping.types, **fold.columns, **extra}
        self._open = state.runs(OPEN, RunsLayout(columns, self._key, self._merged))
        # Sessions that were shown are whole, and apart from each other: nothing is to be merged.
        shown = RunsLayout(columns, self._key, lambda sessions: sessions)
        self._shown = state.runs("shown", shown) if window.fires_again else None
        self._together = 0
        self._rings = Rings(window, place.now_us)
        if self._open.first() is not None:
            self._rings.came()

    behind_us = 1

    @property
    def held(self) -> int:
        """The pieces of sessions that go on."""
        return self._open.rows

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Rows become pieces; those that come too late for any session are told apart."""
        if not frame.height:
            return
        rows = self._joined(frame)
        suspects = self._suspects(rows)
        yield from aside(self._owed(asking=suspects is not None))
        late = None if suspects is None else self._too_late(suspects)
        if late is not None and late.height:
            yield from self._leave_out(frame, late)
            rows = rows.join(late, on="__row", how="anti", maintain_order="left")
        if not rows.height:
            return
        self._rings.came()
        pieces = self._pieces(rows)
        if self._shown is not None and self._shown.rows:
            touched = self._taken_back(pieces)
            yield from self._out.rows(self._finished(touched, deleted=True))
        self._open.add(pieces)
        if not self._window.processing:
            yield from self._close(self._state.clock_us)
        trigger = self._window.trigger
        if trigger and trigger.count:
            yield from self._show_full(pieces, trigger.count)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Sessions close whose gap has passed."""
        if self._window.processing and watermark_us < FOREVER_US:
            return
        before_us, self._state.clock_us = (
            self._state.clock_us,
            max(self._state.clock_us, watermark_us),
        )
        yield from self._close(watermark_us)
        if self._rings.passes(before_us, watermark_us):
            yield from self._show(self._open.take(FOREVER_US))
        if self._shown is not None:
            self._shown.drop(watermark_us)

    def due_us(self) -> int | None:
        """When the next session closes by the wall clock, or is to be shown."""
        closes = self._open.first() if self._window.processing else None
        due = [at for at in (closes, self._rings.due_us()) if at is not None]
        return min(due, default=None)

    def tick(self, now_us: int) -> Iterator[Output]:
        """The wall clock has come this far."""
        if self._window.processing:
            yield from self._close(now_us)
            if self._shown is not None:
                self._shown.drop(now_us)
        if self._rings.rings(now_us):
            yield from self._show(self._open.take(FOREVER_US))

    def settle(self) -> None:
        """All is filed as it comes."""

    def _joined(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows, each with the start and end of the session it is part of among these."""
        import polars as pl

        rows = self._grouping.rows(frame, self._fold.reads)
        if self._window.processing:
            time = pl.lit(self._now_us(), dtype=pl.Int64)
        else:
            time = pl.col(EVENT_TIME).cast(pl.Int64)
        times = (time.alias(START), time.alias(END), time.alias(AT))
        numbered = rows.with_columns(*times, pl.int_range(pl.len()).alias("__row"))
        return joined(numbered, self._key, self._gap_us)

    def _pieces(self, rows: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        sizes = rows.group_by(self._by).agg(pl.len().cast(pl.Int64).alias(ROWS))
        states = self._fold.begin(rows.drop("__row"), self._by)
        pieces = states.join(sizes, on=self._by, nulls_equal=True)
        return pieces.with_columns(self._closes())

    def _closes(self) -> pl.Expr:
        """When a piece is due."""
        import polars as pl

        return (pl.col(END) + self._open_us).alias(SLOT)

    def _merged(self, pieces: pl.DataFrame) -> pl.DataFrame:
        """The pieces put together to sessions, as far as they show; filed under their close."""
        import polars as pl

        whole = joined(pieces, self._key, self._gap_us)
        sizes = whole.group_by(self._by).agg(pl.col(ROWS).sum())
        states = self._fold.merge(whole.drop(ROWS, SLOT), self._by)
        merged = states.join(sizes, on=self._by, nulls_equal=True).with_columns(self._closes())
        return merged.select(pieces.columns)

    def _owed(self, *, asking: bool) -> int:
        """On how many rows of before work is to be done when rows come."""
        count = self._window.trigger is not None and self._window.trigger.count is not None
        rows = self._open.owed(asking=asking or count)
        if self._shown is not None and self._shown.rows:
            rows += self._shown.owed(asking=True)
        return rows

    def _suspects(self, rows: pl.DataFrame) -> pl.DataFrame | None:
        """The rows whose session would be over, with all its lateness, were they alone in it."""
        import polars as pl

        clock_us = self._state.clock_us
        if self._window.processing or clock_us == NO_CLOCK_US:
            return None
        over = pl.col(END) + (self._open_us + self._window.lateness_us) <= clock_us
        suspects = rows.filter(over)
        return suspects if suspects.height else None

    def _too_late(self, suspects: pl.DataFrame) -> pl.DataFrame:
        """The numbers of the rows whose session is over."""
        sessions = suspects.select(self._by).unique()
        kept = [
            runs.of_keys(sessions.select(self._key).unique(), NO_CLOCK_US)
            for runs in (self._open, self._shown)
            if runs is not None
        ]
        for pieces in kept:
            if pieces is not None:
                saved = continued(sessions, pieces, self._key, self._gap_us)
                sessions = sessions.join(saved, on=self._by, how="anti", nulls_equal=True)
        return suspects.join(sessions, on=self._by, how="semi", nulls_equal=True).select("__row")

    def _leave_out(self, frame: pl.DataFrame, late: pl.DataFrame) -> Iterator[Output]:
        """Count late rows, and hand them to whoever reads them."""
        self._state.counts.late += late.height
        if self._late:
            assert self._window.late_to is not None
            yield self._window.late_to, frame[late["__row"].sort()]

    def _close(self, until_us: int) -> Iterator[Output]:
        """Put out the sessions that closed up to then."""
        first = self._open.first()
        if first is None or first > until_us:
            return
        gathered = self._open.rows > 2 * self._together + FEW_ROWS
        yield from aside(self._open.rows if gathered else self._open.owed(asking=True))
        if gathered:
            self._put_together()
        due = self._open.take(until_us)
        if due is None:
            return
        if until_us < FOREVER_US:
            due = self._waiting(due, until_us)
        yield from self._show(due)

    def _put_together(self) -> None:
        """Make sessions of the pieces that have gathered: of a key that goes on there are many."""
        whole = self._open.take(FOREVER_US)
        if whole is not None:
            self._open.add(whole)
        self._together = self._open.rows

    def _waiting(self, due: pl.DataFrame, until_us: int) -> pl.DataFrame:
        """The due sessions without those that later pieces continue: these are filed again."""
        import polars as pl

        later = self._open.of_keys(due.select(self._key).unique(), until_us)
        if later is None:
            return due
        going_on = continued(due.select(self._by), later, self._key, self._gap_us)
        if not going_on.height:
            return due
        again = due.join(going_on, on=self._by, nulls_equal=True)
        again = again.with_columns((pl.col(LAST) + self._open_us).alias(SLOT)).drop(LAST)
        self._open.add(again.select(due.columns))
        return due.join(going_on, on=self._by, how="anti", nulls_equal=True)

    def _show(self, sessions: pl.DataFrame | None) -> Iterator[Output]:
        """Put sessions out, and keep those that may still change."""
        import polars as pl

        if sessions is None or not sessions.height:
            return
        yield from self._out.rows(self._finished(sessions, deleted=False))
        if self._shown is not None:
            kept_until = pl.col(END) + (self._open_us + self._window.lateness_us)
            shown = sessions.with_columns(
                kept_until.alias(SLOT), pl.lit(0, dtype=pl.Int64).alias(ROWS)
            )
            self._shown.add(shown.filter(pl.col(SLOT) > self._state.clock_us))

    def _show_full(self, pieces: pl.DataFrame, count: int) -> Iterator[Output]:
        """Put out the sessions to which so many rows have come since they were last put out."""
        import polars as pl

        sessions = self._open.take_keys(pieces.select(self._key).unique())
        if sessions is not None:
            self._open.add(sessions.filter(pl.col(ROWS) < count))
            yield from self._show(sessions.filter(pl.col(ROWS) >= count))

    def _taken_back(self, pieces: pl.DataFrame) -> pl.DataFrame:
        """The shown sessions that these pieces touch: they are open again."""
        assert self._shown is not None
        shown = self._shown.take_keys(pieces.select(self._key).unique())
        if shown is None:
            return pieces.clear()
        touched = continued(shown.select(self._by), pieces, self._key, self._gap_us)
        self._shown.add(shown.join(touched, on=self._by, how="anti", nulls_equal=True))
        back = shown.join(touched, on=self._by, how="semi", nulls_equal=True)
        self._open.add(back.with_columns(self._closes()))
        return back

    def _finished(self, sessions: pl.DataFrame, *, deleted: bool) -> pl.DataFrame:
        """The results of whole sessions."""
        import polars as pl

        if not sessions.height:
            return sessions
        done = self._fold.finish(sessions.drop(SLOT, ROWS), self._by)
        stamp = pl.Datetime("us", "UTC")
        end = pl.col(END) + self._gap_us
        if self._shows_bounds:
            start = pl.col(START).cast(stamp)
            done = done.with_columns(start.alias(WINDOW_START), end.cast(stamp).alias(WINDOW_END))
        if not self._window.processing:
            done = done.with_columns((end - 1).cast(stamp).alias(EVENT_TIME))
        return done.with_columns(pl.lit(deleted).alias(DELETE)) if deleted else done
