"""The context of a user class in an operator.

The operator of `process` for a class that handles its rows one by one (`on_row`).

With `order: event_time` rows are buffered until the watermark has passed them; then they and the
timers between them are handled in the order of time. With `order: arrival` rows are handled as they
arrive, and event-time timers when the watermark has passed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from headrace.core.api.state import NO_CLOCK_US
from headrace.core.api.user_code import UserCode
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.operators.keyed_context import GroupingKey, KeyedContext
from headrace.core.operators.operator import FailedRow, Output, UndelayedOperator, request_offload
from headrace.core.operators.process.call_context import CallContext
from headrace.core.operators.process.cell_cache import CellCache, KeyCodec
from headrace.core.operators.process.cell_class import CellFactory
from headrace.core.operators.process.collector import MAIN_OUTPUT, Collectors, OutputValueError
from headrace.core.operators.process.row_buffer import RowBuffer
from headrace.core.operators.process.row_calls import (
    CHUNK_ROWS,
    OutputFrames,
    RowBatch,
    RowCaller,
    build_row_display,
    get_event_times,
)
from headrace.core.operators.process.timers import NEVER_US, TimerHeap, TimerService
from headrace.core.operators.process.user_class import RowFactory, UserClassErrors, validate_class
from headrace.core.plan import nodes
from headrace.core.plan.states import EVENT_TIMERS, HELD_ROWS, WALL_CLOCK_TIMERS
from headrace.core.process.declarations import Declared, Kind
from headrace.core.process.process import Process, to_datetime
from headrace.core.types.data_types import TIMESTAMP, Schema, to_polars
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US, ORDER
from headrace.core.types.row_order import ORDER_TYPE

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class UserCodeContext:
    """The step, code and outputs of a user class, in addition to its KeyedContext."""

    step: str
    code: UserCode
    on_failure: Callable[[list[FailedRow]], Iterator[Output]] | None
    """Takes the rows on which the class fails; without it they fail the job."""
    ordered_streams: frozenset[str]
    """The streams whose rows must carry their position in the row order."""

    def name_streams(self, body: nodes.ProcessBody, main: str) -> dict[str, str]:
        """Return the stream names of the outputs, by output name."""
        return {MAIN_OUTPUT: main} | {name: f"{self.step}.{name}" for name, _ in body.outputs}


class ProcessOperator(UndelayedOperator):
    """The operator of a class with `on_row`."""

    method = "on_row"

    def __init__(
        self, operation: nodes.Process, place: KeyedContext, around: UserCodeContext
    ) -> None:
        self._operation = operation
        self._context = place
        self._user_context = around
        self._grouping = grouping = GroupingKey(operation.key)
        self._keys = KeyCodec(grouping.types)
        code, states = around.code, dict(operation.body.states)
        kind = code.load()
        validate_class(kind, code.display_name, (self.method,), states)
        self._call_context = work = CallContext(place.now_us)
        work.clock_us = place.state.clock_us
        timers, waits = (
            TimerHeap([n for n, declared in states.items() if declared.processing is by_clock])
            for by_clock in (False, True)
        )
        own = {name: declared for name, declared in states.items() if not declared.shared}
        self._cells = cells = CellFactory(
            own, work, timers, waits, self._build_shared_properties(states)
        )
        self._cache = CellCache(own, cells, place.state, self._keys, code.display_name)
        outputs = {MAIN_OUTPUT: operation.body.returns, **dict(operation.body.outputs)}
        self._collectors = Collectors(outputs, work)
        self._errors = UserClassErrors(code, self._collectors, states)
        process: Process = self._create_instance(kind)
        process._set_context(work)
        self._process: Any = process
        self._row_factory = self._build_row_factory()
        self._caller = RowCaller(
            process,
            work,
            self._collectors,
            self._errors,
            careful=around.on_failure is not None,
            tells_rules=place.is_first,
        )
        streams = around.name_streams(operation.body, place.stream)
        self._output_frames = OutputFrames(
            self._collectors, self._keys, streams, around.ordered_streams
        )
        clocks = {
            declared.processing for declared in states.values() if declared.kind is Kind.TIMER
        }
        self._event_timers = (
            self._build_timer_service(EVENT_TIMERS, timers) if False in clocks else None
        )
        self._clock_timers = (
            self._build_timer_service(WALL_CLOCK_TIMERS, waits) if True in clocks else None
        )
        self._buffer = (
            self._build_buffer(HELD_ROWS, operation.columns)
            if operation.body.uses_event_time
            else None
        )
        self._newest_us = NO_CLOCK_US
        self._next_expiry_us: int | None = None
        """The next time to look for states that expire by the wall clock."""
        self._schedule_expiry()

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer or handle rows."""
        if not frame.height:
            return
        with attribute_errors_to(self._user_context.step):
            if self._buffer is None:
                yield from self._handle_rows(self._project_rows(frame), None)
                self._evict_if_full()
                return
            frame = yield from self._context.drop_late_rows(frame, self._operation.late_to)
            if frame.height:
                self._buffer.add(self._project_rows(frame))

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Handle the rows and timers that the watermark has passed."""
        with attribute_errors_to(self._user_context.step):
            yield from request_offload(self.pending_rows)
            self._caller.advance_time()
            state = self._context.state
            before_us = max(watermark_us, state.clock_us)
            timers = None if self._event_timers is None else self._event_timers.heap
            self._load_timers(before_us)
            released = self._release_rows(before_us)
            if released is not None:
                yield from self._handle_rows(released, timers, before_us)
            if timers is not None:
                yield from self._fire_timers(timers, before_us, None)
            state.clock_us = self._call_context.clock_us = before_us
            self._cache.expire(self._context.now_us(), state.clock_us)
            self._evict_if_full()

    def next_tick_us(self) -> int | None:
        """Return the time of the first wall-clock timer or expiry."""
        if self._context.state.clock_us == MAX_WATERMARK_US:
            return None
        waits_us = NEVER_US if self._clock_timers is None else self._clock_timers.next_us
        found = min(waits_us, NEVER_US if self._next_expiry_us is None else self._next_expiry_us)
        return None if found == NEVER_US else found

    def tick(self, now_us: int) -> Iterator[Output]:
        """Fire wall-clock timers, and remove expired states."""
        with attribute_errors_to(self._user_context.step):
            if self._clock_timers is not None:
                self._caller.advance_time()
                self._clock_timers.load_due(now_us + 1)
                yield from self._fire_timers(
                    self._clock_timers.heap, now_us + 1, self._get_event_us(now_us)
                )
            if self._next_expiry_us is not None and self._next_expiry_us <= now_us:
                self._next_expiry_us = None
            self._cache.expire(now_us, self._context.state.clock_us)
            self._evict_if_full()

    def flush_to_state(self) -> None:
        """Write buffered rows, states and timers to the state."""
        with attribute_errors_to(self._user_context.step):
            if self._buffer is not None:
                self._buffer.flush_to_state()
            for due in (self._event_timers, self._clock_timers):
                if due is not None:
                    due.flush_to_state(self._keys.build_columns)
            self._cache.write_back()

    @property
    def pending_rows(self) -> int:
        """The number of buffered rows and of timers."""
        rows = 0 if self._buffer is None else len(self._buffer)
        return rows + (0 if self._event_timers is None else len(self._event_timers))

    def get_cell(self, key: object) -> Any:
        """Return the state of a key, for test harnesses."""
        return self._cache.get_cells([key])[0]

    def _build_shared_properties(self, states: Mapping[str, Declared]) -> Mapping[str, property]:
        """Return the shared states as cells see them: none without a broadcast."""
        return {}

    def _build_row_factory(self) -> RowFactory:
        """Build the factory of row objects for the class."""
        operation = self._operation
        call = getattr(self._process, self.method)
        return RowFactory.from_method(call, operation.columns, self._user_context.code.display_name)

    def _create_instance(self, kind: Any) -> Any:
        try:
            return kind()
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            raise self._errors.build_init_error(error) from error

    def _build_timer_service(self, name: str, timers: TimerHeap) -> TimerService:
        return TimerService(
            name, timers, self._grouping.types, self._context.state, self._find_cells
        )

    def _build_buffer(self, name: str, rows: Schema) -> RowBuffer:
        columns = {field.name: to_polars(field.type) for field in rows}
        time, order = to_polars(TIMESTAMP), to_polars(ORDER_TYPE)
        layout = {**self._grouping.types, **columns, EVENT_TIME: time, ORDER: order}
        return RowBuffer(name, layout, self._grouping.internal_names, self._context.state)

    def _project_rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        return self._grouping.project_rows(frame, self._operation.columns.names)

    def _find_cells(self, keys: pl.DataFrame) -> list[Any]:
        return self._cache.get_cells(self._keys.decode(keys))

    def _handle_rows(
        self, frame: Any, timers: TimerHeap | None, before_us: int = 0
    ) -> Iterator[Output]:
        """Handle rows in their order, and emit the output."""
        for start in range(0, frame.height, CHUNK_ROWS):
            self._make_room(start, timers, before_us)
            piece = frame.slice(start, CHUNK_ROWS)
            times = get_event_times(piece)
            if times is not None and self._clock_timers is not None:
                self._newest_us = max(self._newest_us, int(times.max()))  # type: ignore[arg-type]
            rows, cells = self._row_factory.create_rows(piece), self._find_cells(piece)
            came = RowBatch(
                rows, cells, times, build_row_display(piece), getattr(self._process, self.method)
            )
            self._caller.handle(came, timers)
            yield from self._emit_collected(piece, came.describe_row)

    def _make_room(self, start: int, timers: TimerHeap | None, before_us: int) -> None:
        """Evict cells between two chunks of rows if there are too many."""
        if start and self._cache.is_full():
            self._evict_if_full()
            if timers is not None:
                self._load_timers(before_us)

    def _release_rows(self, before_us: int) -> Any:
        """Return the buffered rows before a time, for `_handle_rows`; None if there are none."""
        return None if self._buffer is None else self._buffer.release(before_us)

    def _load_timers(self, before_us: int) -> None:
        """Load the timers that may fire between the rows into the heap."""
        if self._event_timers is not None:
            self._event_timers.load_due(before_us)

    def _fire_timers(
        self, timers: TimerHeap, before_us: int, event_us: int | None
    ) -> Iterator[Output]:
        """Fire the timers before a time, and emit the output."""
        nothing = self._build_empty_frame()
        while timers.next_us < before_us:
            self._caller.start_timers()
            due = islice(timers.pop_due(before_us), CHUNK_ROWS)
            self._caller.fire(due, event_us=event_us, is_end=before_us == MAX_WATERMARK_US)
            yield from self._emit_collected(nothing, build_row_display(nothing))

    def _emit_collected(
        self, piece: pl.DataFrame, shown: Callable[[int], dict[str, Any]]
    ) -> Iterator[Output]:
        """Emit the collected output of rows, whose hidden columns the chunk has, and of timers."""
        handling = self._caller
        if handling.failures:
            failures, handling.failures = handling.failures, []
            assert self._user_context.on_failure is not None, (
                "without a target, failures are raised"
            )
            yield from self._user_context.on_failure(failures)
        try:
            found = list(self._output_frames.build_frames(piece, handling.fired_timers))
        except OutputValueError as misfit:
            if misfit.at < piece.height:
                key = self._call_context.cells[misfit.at]._id
                raise self._errors.build_row_error(misfit, key, shown(misfit.at)) from None
            of = handling.fired_timers[misfit.at - piece.height]
            at = to_datetime(of.at_us)
            raise self._errors.build_timer_error(misfit, of.cell._id, of.timer, at) from None
        yield from found

    def _build_empty_frame(self) -> pl.DataFrame:
        """Return an empty frame with the hidden columns of rows."""
        import polars as pl

        time = {EVENT_TIME: to_polars(TIMESTAMP)} if self._operation.has_event_time else {}
        order = {ORDER: to_polars(ORDER_TYPE)} if self._user_context.ordered_streams else {}
        return pl.DataFrame(schema={**time, **order})

    def _get_event_us(self, now_us: int) -> int:
        """Return the event time of rows emitted by wall-clock timers: the current event time."""
        clock_us = self._context.state.clock_us
        return next((us for us in (clock_us, self._newest_us) if us != NO_CLOCK_US), now_us)

    def _schedule_expiry(self) -> None:
        """Schedule the next look at states that expire by the wall clock."""
        ttl_us = self._cache.find_clock_ttl_us() if self._next_expiry_us is None else None
        if ttl_us is not None:
            self._next_expiry_us = self._context.now_us() + ttl_us + 1

    def _evict_if_full(self) -> None:
        """Evict cells if there are too many in memory."""
        self._schedule_expiry()
        if self._cache.is_full():
            for due in (self._event_timers, self._clock_timers):
                if due is not None:
                    due.flush_to_state(self._keys.build_columns)
            self._cache.write_back()
            self._cache.evict()
