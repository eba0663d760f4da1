"""The operator of `process` for a class that handles its rows one by one (`on_row`).

With `order: event_time` rows are buffered until the watermark has passed them; then they and the
timers between them are handled in the order of time. With `order: arrival` rows are handled as they
arrive, and event-time timers when the watermark has passed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from headrace.core.blame import blamed
from headrace.core.elements import EVENT_TIME, FOREVER_US, ORDER
from headrace.core.operators.grouping import Grouping
from headrace.core.operators.operator import Output, Timely, aside
from headrace.core.operators.place import Place
from headrace.core.operators.process.around import Around
from headrace.core.operators.process.cells import Cells
from headrace.core.operators.process.due import Due
from headrace.core.operators.process.failing import Failing
from headrace.core.operators.process.gathering import Gathering
from headrace.core.operators.process.held import Held
from headrace.core.operators.process.kept import Kept
from headrace.core.operators.process.keys import Keys
from headrace.core.operators.process.loaded import Rows, check
from headrace.core.operators.process.outs import MAIN, Misfit, Outs
from headrace.core.operators.process.rows import (
    PIECE,
    Came,
    RowByRow,
    shown_in,
    times_of,
)
from headrace.core.operators.process.timers import NEVER_US, Timers
from headrace.core.operators.process.work import Work
from headrace.core.ordinals import ORDER_TYPE
from headrace.core.plan import nodes
from headrace.core.plan.states import DUE, HELD, WAITS
from headrace.core.process.declared import Declared, Kind
from headrace.core.process.process import Process, moment
from headrace.core.state import NO_CLOCK_US
from headrace.core.types import TIMESTAMP, Schema, to_polars

if TYPE_CHECKING:
    import polars as pl


class Processing(Timely):
    """The operator of a class with `on_row`."""

    method = "on_row"

    def __init__(self, operation: nodes.Process, place: Place, around: Around) -> None:
        self._operation = operation
        self._context = place
        self._user_context = around
        self._grouping = grouping = Grouping(operation.key)
        self._keys = Keys(grouping.types)
        code, states = around.code, dict(operation.body.states)
        kind = code.load()
        check(kind, code.shown, (self.method,), states)
        self._call_context = work = Work(place.now_us)
        work.clock_us = place.state.clock_us
        timers, waits = (
            Timers([n for n, declared in states.items() if declared.processing is by_clock])
            for by_clock in (False, True)
        )
        own = {name: declared for name, declared in states.items() if not declared.shared}
        self._cells = cells = Cells(own, work, timers, waits, self._sharing(states))
        self._cache = Kept(own, cells, place.state, self._keys, code.shown)
        outputs = {MAIN: operation.body.returns, **dict(operation.body.outputs)}
        self._collectors = Outs(outputs, work)
        self._errors = Failing(code, self._collectors, states)
        process: Process = self._made(kind)
        process._stand(work)
        self._process: Any = process
        self._row_factory = self._making_rows()
        self._caller = RowByRow(
            process,
            work,
            self._collectors,
            self._errors,
            careful=around.failed is not None,
            tells_rules=place.is_first,
        )
        streams = around.streams(operation.body, place.stream)
        self._output_frames = Gathering(self._collectors, self._keys, streams, around.ordered)
        clocks = {
            declared.processing for declared in states.values() if declared.kind is Kind.TIMER
        }
        self._event_timers = self._timers(DUE, timers) if False in clocks else None
        self._clock_timers = self._timers(WAITS, waits) if True in clocks else None
        self._buffer = self._holding(HELD, operation.columns) if operation.body.in_time else None
        self._newest_us = NO_CLOCK_US
        self._next_expiry_us: int | None = None
        """The next time to look for states that expire by the wall clock."""
        self._wake()

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer or handle rows."""
        if not frame.height:
            return
        with blamed(self._user_context.step):
            if self._buffer is None:
                yield from self._handled(self._keyed(frame), None)
                self._let_go()
                return
            frame = yield from self._context.in_time(frame, self._operation.late_to)
            if frame.height:
                self._buffer.hold(self._keyed(frame))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Handle the rows and timers that the watermark has passed."""
        with blamed(self._user_context.step):
            yield from aside(self.held)
            self._caller.go_on()
            state = self._context.state
            before_us = max(watermark_us, state.clock_us)
            timers = None if self._event_timers is None else self._event_timers.timers
            self._call_up(before_us)
            released = self._released(before_us)
            if released is not None:
                yield from self._handled(released, timers, before_us)
            if timers is not None:
                yield from self._fired(timers, before_us, None)
            state.clock_us = self._call_context.clock_us = before_us
            self._cache.forget(self._context.now_us(), state.clock_us)
            self._let_go()

    def due_us(self) -> int | None:
        """Return the time of the first wall-clock timer or expiry."""
        if self._context.state.clock_us == FOREVER_US:
            return None
        waits_us = NEVER_US if self._clock_timers is None else self._clock_timers.next_us
        found = min(waits_us, NEVER_US if self._next_expiry_us is None else self._next_expiry_us)
        return None if found == NEVER_US else found

    def tick(self, now_us: int) -> Iterator[Output]:
        """Fire wall-clock timers, and remove expired states."""
        with blamed(self._user_context.step):
            if self._clock_timers is not None:
                self._caller.go_on()
                self._clock_timers.call_up(now_us + 1)
                yield from self._fired(
                    self._clock_timers.timers, now_us + 1, self._moment_us(now_us)
                )
            if self._next_expiry_us is not None and self._next_expiry_us <= now_us:
                self._next_expiry_us = None
            self._cache.forget(now_us, self._context.state.clock_us)
            self._let_go()

    def settle(self) -> None:
        """Write buffered rows, states and timers to the state."""
        with blamed(self._user_context.step):
            if self._buffer is not None:
                self._buffer.file()
            for due in (self._event_timers, self._clock_timers):
                if due is not None:
                    due.file(self._keys.columns)
            self._cache.put_back()

    @property
    def held(self) -> int:
        """The number of buffered rows and of timers."""
        rows = 0 if self._buffer is None else len(self._buffer)
        return rows + (0 if self._event_timers is None else len(self._event_timers))

    def cell_of(self, key: object) -> Any:
        """Return the state of a key, for test harnesses."""
        return self._cache.cells([key])[0]

    def _sharing(self, states: Mapping[str, Declared]) -> Mapping[str, property]:
        """Return the shared states as cells see them: none without a broadcast."""
        return {}

    def _making_rows(self) -> Rows:
        """Build the factory of row objects for the class."""
        operation = self._operation
        call = getattr(self._process, self.method)
        return Rows.of(call, operation.columns, self._user_context.code.shown)

    def _made(self, kind: Any) -> Any:
        try:
            return kind()
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            raise self._errors.of_making(error) from error

    def _timers(self, name: str, timers: Timers) -> Due:
        return Due(name, timers, self._grouping.types, self._context.state, self._cells_of)

    def _holding(self, name: str, rows: Schema) -> Held:
        columns = {field.name: to_polars(field.type) for field in rows}
        time, order = to_polars(TIMESTAMP), to_polars(ORDER_TYPE)
        layout = {**self._grouping.types, **columns, EVENT_TIME: time, ORDER: order}
        return Held(name, layout, self._grouping.inside, self._context.state)

    def _keyed(self, frame: pl.DataFrame) -> pl.DataFrame:
        return self._grouping.rows(frame, self._operation.columns.names)

    def _cells_of(self, keys: pl.DataFrame) -> list[Any]:
        return self._cache.cells(self._keys.ids(keys))

    def _handled(self, frame: Any, timers: Timers | None, before_us: int = 0) -> Iterator[Output]:
        """Handle rows in their order, and emit the output."""
        for start in range(0, frame.height, PIECE):
            self._make_room(start, timers, before_us)
            piece = frame.slice(start, PIECE)
            times = times_of(piece)
            if times is not None and self._clock_timers is not None:
                self._newest_us = max(self._newest_us, int(times.max()))  # type: ignore[arg-type]
            rows, cells = self._row_factory.made(piece), self._cells_of(piece)
            came = Came(rows, cells, times, shown_in(piece), getattr(self._process, self.method))
            self._caller.handle(came, timers)
            yield from self._gathered(piece, came.shown)

    def _make_room(self, start: int, timers: Timers | None, before_us: int) -> None:
        """Evict cells between two chunks of rows if there are too many."""
        if start and self._cache.is_full():
            self._let_go()
            if timers is not None:
                self._call_up(before_us)

    def _released(self, before_us: int) -> Any:
        """Return the buffered rows before a time, for `_handle_rows`; None if there are none."""
        return None if self._buffer is None else self._buffer.released(before_us)

    def _call_up(self, before_us: int) -> None:
        """Load the timers that may fire between the rows into the heap."""
        if self._event_timers is not None:
            self._event_timers.call_up(before_us)

    def _fired(self, timers: Timers, before_us: int, event_us: int | None) -> Iterator[Output]:
        """Fire the timers before a time, and emit the output."""
        nothing = self._nothing()
        while timers.next_us < before_us:
            self._caller.begin()
            due = islice(timers.due(before_us), PIECE)
            self._caller.fire(due, event_us=event_us, is_end=before_us == FOREVER_US)
            yield from self._gathered(nothing, shown_in(nothing))

    def _gathered(
        self, piece: pl.DataFrame, shown: Callable[[int], dict[str, Any]]
    ) -> Iterator[Output]:
        """Emit the collected output of rows, whose hidden columns the chunk has, and of timers."""
        handling = self._caller
        if handling.failures:
            failures, handling.failures = handling.failures, []
            assert self._user_context.failed is not None, "without a target, failures are raised"
            yield from self._user_context.failed(failures)
        try:
            found = list(self._output_frames.frames(piece, handling.moments))
        except Misfit as misfit:
            if misfit.at < piece.height:
                key = self._call_context.cells[misfit.at]._id
                raise self._errors.of_row(misfit, key, shown(misfit.at)) from None
            of = handling.moments[misfit.at - piece.height]
            at = moment(of.at_us)
            raise self._errors.of_timer(misfit, of.cell._id, of.timer, at) from None
        yield from found

    def _nothing(self) -> pl.DataFrame:
        """Return an empty frame with the hidden columns of rows."""
        import polars as pl

        time = {EVENT_TIME: to_polars(TIMESTAMP)} if self._operation.timed else {}
        order = {ORDER: to_polars(ORDER_TYPE)} if self._user_context.ordered else {}
        return pl.DataFrame(schema={**time, **order})

    def _moment_us(self, now_us: int) -> int:
        """Return the event time of rows emitted by wall-clock timers: the current event time."""
        clock_us = self._context.state.clock_us
        return next((us for us in (clock_us, self._newest_us) if us != NO_CLOCK_US), now_us)

    def _wake(self) -> None:
        """Schedule the next look at states that expire by the wall clock."""
        ttl_us = self._cache.by_clock_us() if self._next_expiry_us is None else None
        if ttl_us is not None:
            self._next_expiry_us = self._context.now_us() + ttl_us + 1

    def _let_go(self) -> None:
        """Evict cells if there are too many in memory."""
        self._wake()
        if self._cache.is_full():
            for due in (self._event_timers, self._clock_timers):
                if due is not None:
                    due.file(self._keys.columns)
            self._cache.put_back()
            self._cache.let_go()
