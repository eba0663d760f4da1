"""The operator of a process class that handles rows one by one.

With `order: event_time` rows are buffered until the watermark has passed them; then they and the
timers between them are handled in the order of time. With `order: arrival` rows are handled as they
arrive, and event-time timers when the watermark has passed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from headrace.core.api.state import NO_CLOCK_US
from headrace.core.api.user_code import UserCode
from headrace.core.api.user_metrics import MetricValues
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.operators.keyed_context import KeyedContext
from headrace.core.operators.operator import FailedRow, Output, UndelayedOperator, request_offload
from headrace.core.operators.process.call_context import CallContext
from headrace.core.operators.process.collector import MAIN_OUTPUT, OutputValueError
from headrace.core.operators.process.keyed_user_state import KeyedUserState
from headrace.core.operators.process.row_calls import (
    CHUNK_ROWS,
    OutputFrames,
    RowCaller,
    build_row_display,
)
from headrace.core.operators.process.shared_state import SharedState
from headrace.core.operators.process.timers import NEVER_US, TimerHeap
from headrace.core.operators.process.user_class import UserClassErrors
from headrace.core.operators.process.user_inputs import UserInput, arrange_rows
from headrace.core.plan import nodes
from headrace.core.process.process import to_datetime
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import EVENT_TIME, MAX_WATERMARK_US, ORDER
from headrace.core.types.lazy_dataclass import dataclass
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


@dataclass(frozen=True, slots=True)
class ProcessComponents:
    """The collaborators of the operator of a user class, which its factory assembles."""

    body: nodes.ProcessBody
    context: KeyedContext
    user_context: UserCodeContext
    process: Any
    """The instance of the user class."""
    call_context: CallContext
    errors: UserClassErrors
    caller: RowCaller
    state: KeyedUserState
    shared_state: SharedState | None
    output_frames: OutputFrames
    has_event_time: bool


class ProcessOperator(UndelayedOperator):
    """The operator of a class that handles its rows one by one; it has one or two inputs."""

    method = "on_row"

    def __init__(self, parts: ProcessComponents, inputs: Sequence[UserInput]) -> None:
        self._parts = parts
        self._inputs = inputs
        self._context = parts.context
        self._step = parts.user_context.step
        self._caller = parts.caller
        self._state = parts.state
        self._newest_us = NO_CLOCK_US

    def process(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer or handle rows of the only or left input."""
        return self._process_input(0, frame)

    def process_right(self, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer or handle rows, or rules, of the right input."""
        return self._process_input(1, frame)

    def advance(self, watermark_us: int) -> Iterator[Output]:
        """Handle the rows and timers that the watermark has passed."""
        with attribute_errors_to(self._step):
            yield from request_offload(self.pending_rows)
            self._caller.advance_time()
            state = self._context.state
            before_us = max(watermark_us, state.clock_us)
            event_timers = self._state.event_timers
            timers = None if event_timers is None else event_timers.heap
            self._load_timers(before_us)
            released = [
                None if each.buffer is None else each.buffer.release(before_us)
                for each in self._inputs
            ]
            if any(rows is not None for rows in released):
                yield from self._handle_rows(released, timers, before_us)
            if timers is not None:
                yield from self._fire_timers(timers, before_us, None)
            state.clock_us = self._parts.call_context.clock_us = before_us
            self._state.expire(self._context.now_us(), state.clock_us)

    def next_tick_us(self) -> int | None:
        """Return the time of the first wall-clock timer or expiry."""
        found = self._state.next_tick_us
        ended = self._context.state.clock_us == MAX_WATERMARK_US
        return None if ended or found == NEVER_US else found

    def tick(self, now_us: int) -> Iterator[Output]:
        """Fire wall-clock timers, and remove expired states."""
        with attribute_errors_to(self._step):
            timers = self._state.clock_timers
            if timers is not None:
                self._caller.advance_time()
                timers.load_due(now_us + 1)
                yield from self._fire_timers(timers.heap, now_us + 1, self._get_event_us(now_us))
            self._state.record_tick(now_us)
            self._state.expire(now_us, self._context.state.clock_us)

    def flush_to_state(self) -> None:
        """Write buffered rows, states and timers to the state."""
        with attribute_errors_to(self._step):
            if self._parts.shared_state is not None:
                self._parts.shared_state.flush_to_state()
            for each in self._inputs:
                if each.buffer is not None:
                    each.buffer.flush_to_state()
            self._state.flush_to_state()

    @property
    def pending_rows(self) -> int:
        """The number of buffered rows and of timers."""
        timers = self._state.event_timers
        rows = sum(len(each.buffer) for each in self._inputs if each.buffer is not None)
        return rows + (0 if timers is None else len(timers))

    def get_cell(self, key: object) -> Any:
        """Return the state of a key, for test harnesses."""
        return self._state.cache.get_cells([key])[0]

    @property
    def metrics(self) -> MetricValues:
        """The metrics of the class, for test harnesses."""
        return self._context.state.counters.metrics

    @property
    def shared_cell(self) -> Any:
        """The state shared by all keys, for test harnesses; None without a broadcast."""
        shared = self._parts.shared_state
        return None if shared is None else shared.cell

    def _process_input(self, side: int, frame: pl.DataFrame) -> Iterator[Output]:
        """Buffer or handle rows of an input."""
        if not frame.height:
            return
        source = self._inputs[side]
        with attribute_errors_to(self._step):
            if source.buffer is None:
                frames: list[pl.DataFrame | None] = [None] * len(self._inputs)
                frames[side] = source.project_rows(frame)
                yield from self._handle_rows(frames, None)
                self._state.evict_if_full()
                return
            if source.drops_late:
                frame = yield from self._context.drop_late_rows(frame, source.late_to)
            if frame.height:
                source.buffer.add(source.project_rows(frame))

    def _handle_rows(
        self, frames: Sequence[pl.DataFrame | None], timers: TimerHeap | None, before_us: int = 0
    ) -> Iterator[Output]:
        """Handle rows of each input in their order, and emit the output."""
        rows = arrange_rows(self._inputs, frames)
        for start in range(0, rows.order.height, CHUNK_ROWS):
            self._make_room(start, timers, before_us)
            piece = rows.order.slice(start, CHUNK_ROWS)
            batch = rows.build_batch(piece)
            if (
                len(frames) == 1
                and batch.times is not None
                and self._state.clock_timers is not None
            ):
                self._newest_us = max(self._newest_us, int(batch.times.max()))  # type: ignore[arg-type]
            self._caller.handle(batch, timers)
            yield from self._emit_collected(piece, batch.describe_row)

    def _make_room(self, start: int, timers: TimerHeap | None, before_us: int) -> None:
        """Evict cells between two chunks of rows if there are too many."""
        if start and self._state.cache.is_full():
            self._state.evict_if_full()
            if timers is not None:
                self._load_timers(before_us)

    def _load_timers(self, before_us: int) -> None:
        """Load the timers that may fire between the rows into the heap."""
        if self._state.event_timers is not None:
            self._state.event_timers.load_due(before_us)

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
            assert self._parts.user_context.on_failure is not None, (
                "without a target, failures are raised"
            )
            yield from self._parts.user_context.on_failure(failures)
        try:
            frames = list(self._parts.output_frames.build_frames(piece, handling.fired_timers))
        except OutputValueError as misfit:
            if misfit.at < piece.height:
                key = self._parts.call_context.cells[misfit.at]._id
                raise self._parts.errors.build_row_error(misfit, key, shown(misfit.at)) from None
            of = handling.fired_timers[misfit.at - piece.height]
            at = to_datetime(of.at_us)
            raise self._parts.errors.build_timer_error(misfit, of.cell._id, of.timer, at) from None
        yield from frames

    def _build_empty_frame(self) -> pl.DataFrame:
        """Return an empty frame with the hidden columns of rows."""
        import polars as pl

        time = {EVENT_TIME: to_polars(TIMESTAMP)} if self._parts.has_event_time else {}
        order = {ORDER: to_polars(ORDER_TYPE)} if self._parts.user_context.ordered_streams else {}
        return pl.DataFrame(schema={**time, **order})

    def _get_event_us(self, now_us: int) -> int:
        """Return the event time of rows emitted by wall-clock timers: the current event time."""
        clock_us = self._context.state.clock_us
        return next((us for us in (clock_us, self._newest_us) if us != NO_CLOCK_US), now_us)
