"""The operator of `process` for a class that handles batches of rows (`on_rows`).

The class gets rows of many keys in the order of time; states and timers are columns, read and
written in bulk. Timers are handled one by one. The rows of a key that come after one of its timers
wait until the timer has been handled, so that each key sees everything in the order of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from headrace.core.elements import EVENT_TIME, FOREVER_US, HIDDEN, ORDER
from headrace.core.frames import microseconds
from headrace.core.operators.operator import MOST_ROWS, Output
from headrace.core.operators.place import Place
from headrace.core.operators.process.around import Around
from headrace.core.operators.process.emitted import ManyOuts
from headrace.core.operators.process.loaded import Rows
from headrace.core.operators.process.outs import MAIN, timed
from headrace.core.operators.process.processing import Processing
from headrace.core.operators.process.rows import PIECE, shown_in
from headrace.core.operators.process.timers import Timers
from headrace.core.operators.process.together import ManyStates, Together, columns_of, told_apart
from headrace.core.plan import nodes
from headrace.core.state import SLOT
from headrace.core.user_code import UserCodeError

if TYPE_CHECKING:
    import polars as pl


class ProcessingMany(Processing):
    """The operator of a class with `on_rows`."""

    method = "on_rows"

    def __init__(self, operation: nodes.Process, place: Place, around: Around) -> None:
        super().__init__(operation, place, around)
        if around.failed is not None:
            message = f"{around.code.shown}: on_rows fails with all of its rows"
            raise UserCodeError(message, "on_error: skip and to are for classes with on_row")
        body = operation.body
        self._state_columns = columns_of(
            dict(body.states),
            self._cache.tables,
            place.now_us,
            lambda declared: self._clock_timers if declared.processing else self._event_timers,
        )
        self._states = ManyStates(self._state_columns)
        self._frame_collector = ManyOuts({MAIN: body.returns, **dict(body.outputs)})
        self._streams = around.streams(body, place.stream)

    def _making_rows(self) -> Rows:
        return Rows.none()

    def _handled(self, frame: Any, timers: Timers | None, before_us: int = 0) -> Iterator[Output]:
        rest: pl.DataFrame | None = frame
        while rest is not None:
            first = None if timers is None else self._first(before_us)
            now, rest = (rest, None) if first is None else self._parted(rest, first)
            for start in range(0, now.height, MOST_ROWS):
                yield from self._together(now.slice(start, MOST_ROWS))
            if first is not None and timers is not None:
                yield from self._round(timers, before_us)

    def _fired(self, timers: Timers, before_us: int, event_us: int | None) -> Iterator[Output]:
        for due in (self._event_timers, self._clock_timers):
            if due is not None and due.timers is timers:
                while due.next_us < before_us:
                    due.call_up(before_us)
                    yield from super()._fired(timers, before_us, event_us)
                    self._write()

    def _call_up(self, before_us: int) -> None:
        """Do nothing: timers are loaded round by round, as rows set them."""

    def _first(self, before_us: int) -> pl.DataFrame | None:
        """Return the first timer of each key that has one before that time."""
        assert self._event_timers is not None
        return self._event_timers.first_of_keys(before_us)

    def _parted(
        self, rows: pl.DataFrame, first: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """Split rows into those before the first timer of their key, and the others."""
        key = self._grouping.inside
        named = told_apart(first.select(key)).with_columns(first[SLOT])
        by = told_apart(rows.select(key))
        found = by.join(named, on=by.columns, how="left", nulls_equal=True, maintain_order="left")
        waits = (microseconds(rows[EVENT_TIME]) > found[SLOT]).fill_null(False)
        later = rows.filter(waits)
        return rows.filter(~waits), later if later.height else None

    def _round(self, timers: Timers, before_us: int) -> Iterator[Output]:
        """Handle the first timer of each key that has one before that time."""
        assert self._event_timers is not None
        self._event_timers.call_up_first(before_us)
        due = list(timers.due(before_us))
        nothing = self._nothing()
        for start in range(0, len(due), PIECE):
            self._caller.begin()
            some = islice(due, start, start + PIECE)
            self._caller.fire(some, is_end=before_us == FOREVER_US)
            yield from self._gathered(nothing, shown_in(nothing))
        self._write()

    def _write(self) -> None:
        """Write all changes of cells and timers to the state."""
        for due in (self._event_timers, self._clock_timers):
            if due is not None:
                due.file(self._keys.columns)
        self._cache.put_back()
        self._cache.let_go()

    def _together(self, rows: pl.DataFrame) -> Iterator[Output]:
        together = Together(rows, self._grouping.inside, self._call_context.clock_us)
        keys = together.encoded
        for column in self._state_columns.values():
            column.begin(together, keys)
        self._frame_collector.begin(rows.height)
        self._call_context.frame = rows
        hidden = {*HIDDEN, *self._grouping.inside}
        shown = rows.drop(name for name in rows.columns if name in hidden)
        try:
            found = self._process.on_rows(shown, self._states, self._frame_collector.out)
            if found is not None:
                raise self._errors.returned(found, self.method)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            raise self._errors.of_many(error, rows.height) from error
        finally:
            self._call_context.frame = None
        for column in self._state_columns.values():
            column.end()
        for name, frame, of in self._frame_collector.frames:
            stream = self._streams[name]
            ordered = stream in self._user_context.ordered
            yield stream, timed(frame, of, rows if ordered else rows.drop(ORDER, strict=False))
