"""Session windows: rows of a key that follow each other at most the gap apart make one window.

A row exactly at the end of a session still belongs to it, so a session closes when the watermark is
past its end, and not at its end. Its output is then that much older than the watermark:
`watermark_delay_us`.

A window that may change after it was emitted (`lateness`, `trigger`) is stored among the emitted
sessions. A row that touches it retracts it: its row is deleted, and the session is emitted again
when it is due. So a window's row is deleted as soon as the window no longer exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.core.elements import DELETE, EVENT_TIME, FOREVER_US
from headrace.core.operators.folds import AT
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.numbered import ROWS
from headrace.core.operators.operator import Filed, Output, aside
from headrace.core.operators.outgoing import WINDOW_END, WINDOW_START, Outgoing
from headrace.core.operators.place import Place
from headrace.core.operators.sessions.opened import Opened
from headrace.core.operators.sessions.pieces import END, START, continued, joined
from headrace.core.operators.sessions.shown import Shown
from headrace.core.operators.windows.make import fold_of
from headrace.core.operators.windows.triggers import Rings
from headrace.core.plan.nodes import Top, Windowed
from headrace.core.plan.windows import Session
from headrace.core.state import NO_CLOCK_US, SLOT

if TYPE_CHECKING:
    import polars as pl

ROW = "__row"
"""The number of a row in its batch."""


class Sessions(Filed):
    """The operator of `window: {session: ...}`."""

    def __init__(self, operation: Windowed, place: Place, types: Mapping[str, pl.DataType]) -> None:
        """`types` are the types of the input columns; only `top` keeps all of them."""
        window, state = operation.window, place.state
        assert window is not None and isinstance(window.shape, Session)
        self._window = window
        self._count = window.trigger.count if window.trigger else None
        self._gap_us = window.shape.gap_us
        self._context, self._state = place, state
        self._grouping = grouping = Grouping(operation.key)
        self._fold = fold = fold_of(operation, grouping, types)
        self._shows_bounds = not isinstance(operation, Top)
        self._out = Outgoing(operation, place.stream, ordered=place.ordered)
        self._open = Opened(state, grouping, fold, self._gap_us)
        self._emitted = Shown(state, window, self._open) if window.fires_again else None
        self._group_columns = self._open.by
        self._trigger = Rings(window, place.now_us)
        if self._open.first() is not None:
            self._trigger.came()

    behind_us = 1

    @property
    def held(self) -> int:
        """The number of fragments of open sessions."""
        return self._open.rows

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Store rows as fragments; rows too late for any session are left out."""
        if not frame.height:
            return
        rows = self._joined(frame)
        suspects = self._suspects(rows)
        yield from aside(self._owed(asking=suspects is not None))
        late = None if suspects is None else self._too_late(suspects)
        if late is not None and late.height:
            yield from self._context.left_out(self._window.late_to, frame[late[ROW].sort()])
            rows = rows.join(late, on=ROW, how="anti", maintain_order="left")
        if rows.height:
            self._trigger.came()
            yield from self._file(self._open.pieces(rows))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Emit the sessions whose gap has passed."""
        if self._window.processing and watermark_us < FOREVER_US:
            return
        before_us = self._state.clock_us
        self._state.clock_us = max(before_us, watermark_us)
        yield from self._close(watermark_us)
        if self._trigger.passes(before_us, watermark_us):
            yield from self._show(self._open.all())
        if self._emitted is not None:
            self._emitted.drop(watermark_us)

    def due_us(self) -> int | None:
        """Return the wall-clock time at which a session closes or the trigger fires."""
        closes = self._open.first() if self._window.processing else None
        due = [at for at in (closes, self._trigger.due_us()) if at is not None]
        return min(due, default=None)

    def tick(self, now_us: int) -> Iterator[Output]:
        """Advance the wall clock."""
        if self._window.processing:
            yield from self._close(now_us)
            if self._emitted is not None:
                self._emitted.drop(now_us)
        if self._trigger.rings(now_us):
            yield from self._show(self._open.all())

    def _joined(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Give each row the start and end of its session among these rows."""
        import polars as pl

        rows = self._grouping.rows(frame, self._fold.reads)
        if self._window.processing:
            time = pl.lit(self._context.now_us(), dtype=pl.Int64)
        else:
            time = pl.col(EVENT_TIME).cast(pl.Int64)
        times = (time.alias(START), time.alias(END), time.alias(AT))
        numbered = rows.with_columns(*times, pl.int_range(pl.len()).alias(ROW))
        return joined(numbered, self._open.key, self._gap_us)

    def _owed(self, *, asking: bool) -> int:
        """Return the number of earlier rows that the arrival of rows works on."""
        rows = self._open.owed(asking=asking or self._count is not None)
        return rows if self._emitted is None else rows + self._emitted.owed

    def _suspects(self, rows: pl.DataFrame) -> pl.DataFrame | None:
        """Return the rows that would be too late if they were alone in their session."""
        import polars as pl

        clock_us = self._state.clock_us
        if self._window.processing or clock_us == NO_CLOCK_US:
            return None
        over = pl.col(END) + (self._gap_us + 1 + self._window.lateness_us) <= clock_us
        suspects = rows.filter(over)
        return suspects if suspects.height else None

    def _too_late(self, suspects: pl.DataFrame) -> pl.DataFrame:
        """Return the numbers of the rows whose session is over."""
        sessions = suspects.select(self._group_columns).unique()
        kept = [each.of_keys(sessions) for each in (self._open, self._emitted) if each is not None]
        for pieces in kept:
            if pieces is not None:
                saved = continued(sessions, pieces, self._open.key, self._gap_us)
                sessions = sessions.join(
                    saved, on=self._group_columns, how="anti", nulls_equal=True
                )
        return suspects.join(sessions, on=self._group_columns, how="semi", nulls_equal=True).select(
            ROW
        )

    def _file(self, pieces: pl.DataFrame) -> Iterator[Output]:
        """Store fragments, and emit the changes that they cause at once."""
        if self._emitted is not None and self._emitted.rows:
            touched = self._emitted.touched(pieces)
            if touched is not None:
                self._open.add_again(touched)
                yield from self._out.rows(self._finished(touched, deleted=True))
        self._open.add(pieces)
        if not self._window.processing:
            yield from self._close(self._state.clock_us)
        if self._count is not None:
            yield from self._show(self._open.full(pieces, self._count))

    def _close(self, until_us: int) -> Iterator[Output]:
        """Emit the sessions that closed up to this time."""
        first = self._open.first()
        if first is not None and first <= until_us:
            yield from aside(self._open.owed_closing)
            yield from self._show(self._open.closed(until_us))

    def _show(self, sessions: pl.DataFrame | None) -> Iterator[Output]:
        """Emit sessions, and store those that may still change."""
        if sessions is None or not sessions.height:
            return
        yield from self._out.rows(self._finished(sessions, deleted=False))
        if self._emitted is not None:
            self._emitted.add(sessions)

    def _finished(self, sessions: pl.DataFrame, *, deleted: bool) -> pl.DataFrame:
        """Return the results of complete sessions."""
        import polars as pl

        if not sessions.height:
            return sessions
        done = self._fold.finish(sessions.drop(SLOT, ROWS), self._group_columns)
        stamp = pl.Datetime("us", "UTC")
        end = pl.col(END) + self._gap_us
        if self._shows_bounds:
            start = pl.col(START).cast(stamp)
            done = done.with_columns(start.alias(WINDOW_START), end.cast(stamp).alias(WINDOW_END))
        if not self._window.processing:
            done = done.with_columns((end - 1).cast(stamp).alias(EVENT_TIME))
        return done.with_columns(pl.lit(deleted).alias(DELETE)) if deleted else done
