"""Rows handled one by one, with the timers that fire between them.

Their output is frames: each row has the time and position of its origin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.core.api.state import NO_CLOCK_US
from headrace.core.api.user_code import UserCodeError, reraise_interrupt
from headrace.core.api.user_metrics import MetricValues
from headrace.core.operators.operator import FailedRow
from headrace.core.operators.process.call_context import EVERY_KEY, CallContext
from headrace.core.operators.process.cell_cache import KeyCodec
from headrace.core.operators.process.cell_class import CellFactory
from headrace.core.operators.process.collector import Collectors, add_hidden_columns
from headrace.core.operators.process.timers import TimerHeap
from headrace.core.operators.process.user_class import UnlistableColumn, UserClassErrors
from headrace.core.process.process import to_datetime
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import EVENT_TIME, HIDDEN_COLUMNS, ORDER
from headrace.core.types.frames import pick_columns, to_integers
from headrace.core.types.key_groups import compute_key_groups
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.row_order import ORDER_TYPE

if TYPE_CHECKING:
    import polars as pl


CHUNK_ROWS = 1 << 14
"""The number of rows that are Python objects at a time."""


MAX_FIRINGS = 100_000
"""The number of times that timers of one key may fire at one time, or after the last row."""


ENDLESS_TIMER_HINT = (
    "a timer that always sets itself again never ends: stop setting it at some point"
)


Call = Callable[[Any, Any, Any], object]


@dataclass(slots=True)
class RowBatch:
    """Rows to handle, in their order."""

    rows: Iterable[Any]
    """The row objects; they may be created lazily, so iterate only once."""
    cells: list[Any]
    times: pl.Series | None
    """Their event times in microseconds."""
    describe_row: Callable[[int], dict[str, Any]]
    """Returns a row as messages show it."""
    call: Call | None
    """The method that handles all rows; None: `row_calls` has one for each row."""
    row_calls: Iterable[Call] = ()

    @property
    def calls(self) -> Iterable[Call]:
        """The method for each row."""
        return self.row_calls if self.call is None else repeat(self.call)


class FiredTimer(NamedTuple):
    """A timer that was handled."""

    event_us: int
    """The time of the rows that the timer emitted."""
    cell: Any
    timer: str
    at_us: int


class RowCaller:
    """The caller of a user class's methods, whose output is collected in `Collectors`."""

    def __init__(
        self,
        process: Any,
        call_context: CallContext,
        outs: Collectors,
        failing: UserClassErrors,
        metrics: MetricValues,
        *,
        careful: bool,
        tells_rules: bool = True,
    ) -> None:
        """`careful`: a row that fails is skipped, and its changes are undone.

        Of the subtasks, which all handle the broadcast rules, the one with `tells_rules` reports
        failed ones.
        """
        self._on_timer: Call | None = getattr(process, "on_timer", None)
        self._call_context = call_context
        self._collectors = outs
        self._errors = failing
        self._metrics = metrics
        self._careful = careful
        self._reports_rules = tells_rules
        self.fired_timers: list[FiredTimer] = []
        """The timers that were handled since the last rows."""
        self.failures: list[FailedRow] = []
        self._end_firings: dict[object, int] = {}
        self._at_us = NO_CLOCK_US
        self._firings: dict[object, int] = {}
        """The number of timers of each key that fired at the same time."""
        self._row_count = 0

    def start_timers(self) -> None:
        """Prepare to handle timers without rows."""
        self._row_count, self.fired_timers = 0, []

    def advance_time(self) -> None:
        """Note that event time or the wall clock advances."""
        self._at_us, self._firings = NO_CLOCK_US, {}

    def handle(self, rows: RowBatch, timers: TimerHeap | None) -> None:
        """Handle rows in their order, and before each row the timers due before it."""
        context = self._call_context
        context.start_batch(rows.cells, rows.times)
        self._row_count, self.fired_timers = len(rows.cells), []
        numbers = count()
        try:
            if self._careful:
                self._handle_carefully(rows, numbers, timers)
            elif timers is None or (times := context.times) is None:
                self._handle_all(rows, numbers)
            else:
                self._handle_in_time(rows, numbers, times, timers)
            if rows.cells and context.at != len(rows.cells) - 1:
                raise RuntimeError("the class of rows raised StopIteration")
        except (_TimerError, UnlistableColumn):
            raise
        except BaseException as error:
            reraise_interrupt(error)
            at = next(numbers) - 1  # `context.at` differs if the row object could not be created
            failure = self._errors.build_row_error(error, rows.cells[at]._id, rows.describe_row(at))
            raise failure from error

    def _handle_all(self, rows: RowBatch, numbers: Iterator[int]) -> None:
        context, out, call = self._call_context, self._collectors.out, rows.call
        if call is None:
            for at, each, row, cell in zip(
                numbers, rows.calls, rows.rows, rows.cells, strict=False
            ):
                context.at = at
                if (found := each(row, cell, out)) is not None:
                    raise self._errors.build_return_error(found, each.__name__)
            return
        for at, row, cell in zip(numbers, rows.rows, rows.cells, strict=False):
            context.at = at
            if (found := call(row, cell, out)) is not None:
                raise self._errors.build_return_error(found, call.__name__)

    def _handle_in_time(
        self, rows: RowBatch, numbers: Iterator[int], times: list[int], timers: TimerHeap
    ) -> None:
        context, out, calls = self._call_context, self._collectors.out, rows.calls
        for at, call, row, cell, time_us in zip(
            numbers, calls, rows.rows, rows.cells, times, strict=False
        ):
            if time_us > timers.next_us:
                self.fire(timers.pop_due(time_us))
            context.at = at
            if (found := call(row, cell, out)) is not None:
                raise self._errors.build_return_error(found, call.__name__)

    def _handle_carefully(
        self, rows: RowBatch, numbers: Iterator[int], timers: TimerHeap | None
    ) -> None:
        context, made = self._call_context, iter(rows.rows)
        times = None if timers is None else context.times
        for at, call, cell in zip(numbers, rows.calls, rows.cells, strict=False):
            if timers is not None and times is not None and times[at] > timers.next_us:
                self.fire(timers.pop_due(times[at]))
            context.at = at
            self._try_call(cell, call, made.__next__, partial(rows.describe_row, at))

    def _try_call(
        self, cell: Any, call: Call, what: Callable[[], Any], of: Callable[[], dict[str, Any]]
    ) -> None:
        """Handle one row or timer for a cell; on failure undo its changes and record it.

        BaseExceptions fail the job: sys.exit(), or a panic of Polars.
        """
        cells: CellFactory = cell._cells
        saved, marked = cells.save(cell), self._collectors.get_marks()
        metrics = self._metrics.copy()
        try:
            found = call(what(), cell, self._collectors.out)
            if found is not None:
                raise self._errors.build_return_error(found, call.__name__)
            self._collectors.validate(marked)
        except UnlistableColumn:
            raise
        except Exception as error:
            cells.restore(cell, saved)
            self._metrics.assign(metrics)
            self._collectors.truncate(marked)
            if self._reports_rules or cell._id is not EVERY_KEY:
                self.failures.append(self._errors.build_failed_row(error, of()))

    def fire(
        self,
        due: Iterable[tuple[int, Any, str]],
        *,
        event_us: int | None = None,
        is_end: bool = False,
    ) -> None:
        """Handle timers that are due.

        The rows that they emit have their time, or `event_us` for wall-clock timers. At the end of
        input, and at one time, their number is limited.
        """
        context, out = self._call_context, self._collectors.out
        for at_us, cell, name in due:
            context.timer_cell, context.timer = cell, name
            context.timer_event_us = at_us if event_us is None else event_us
            context.at = self._row_count + len(self.fired_timers)
            self.fired_timers.append(FiredTimer(context.timer_event_us, cell, name, at_us))
            try:
                self._fire_one(cell, name, at_us, out)
            finally:
                context.timer = context.timer_cell = None
            if at_us > self._at_us:
                self._at_us, self._firings = at_us, {}
            self._count_firing(self._firings, cell, name, at_us)
            if is_end:
                self._count_firing(self._end_firings, cell, name, None)

    def _fire_one(self, cell: Any, name: str, at_us: int, out: Any) -> None:
        call, at = self._on_timer, to_datetime(at_us)
        assert call is not None, "only a class with on_timer may declare timers"
        row = {"key": cell._id, "timer": name, "at": at}
        try:
            if self._careful:
                self._try_call(cell, call, lambda: at, lambda: row)
            elif (found := call(at, cell, out)) is not None:
                raise self._errors.build_return_error(found, "on_timer")
        except BaseException as error:
            reraise_interrupt(error)
            failure = self._errors.build_timer_error(error, cell._id, name, at)
            raise _TimerError(failure.message, failure.hint) from error

    def _count_firing(
        self, counted: dict[object, int], cell: Any, name: str, at_us: int | None
    ) -> None:
        """Count the firings of a key's timers at one time, or at the end of input.

        Raises an error at the limit: timers that are always set again would fire for ever.
        """
        times = counted[cell._id] = counted.get(cell._id, 0) + 1
        if times > MAX_FIRINGS:
            when = "at the end" if at_us is None else f"while it was {to_datetime(at_us)}"
            what = f'timer "{name}" of the key {cell._id!r}'
            raise _TimerError(
                f"{self._errors.display_name}: {what} fired {times} times {when}",
                ENDLESS_TIMER_HINT,
            )


class _TimerError(UserCodeError):
    """A failure of a timer, which is not attributed to a row."""


def get_event_times(frame: pl.DataFrame) -> pl.Series | None:
    """Return the event times of rows in microseconds, if they have any."""
    return to_integers(frame[EVENT_TIME]) if EVENT_TIME in frame.columns else None


def build_row_display(frame: pl.DataFrame) -> Callable[[int], dict[str, Any]]:
    """Return a function that gives a row, by its number, as messages show it."""

    def describe(at: int) -> dict[str, Any]:
        row = frame.row(at, named=True)
        return {
            n: value
            for n, value in row.items()
            if n not in HIDDEN_COLUMNS and not n.startswith("__k")
        }

    return describe


class OutputFrames:
    """The emitted rows as frames with their hidden columns."""

    def __init__(
        self, outs: Collectors, keys: KeyCodec, streams: dict[str, str], ordered: frozenset[str]
    ) -> None:
        """`streams` are the stream names of the outputs, by output name."""
        self._collectors = outs
        self._keys = keys
        self._streams = streams
        self._ordered = ordered

    def build_frames(
        self, input_rows: pl.DataFrame, fired_timers: list[FiredTimer]
    ) -> Iterator[tuple[str, pl.DataFrame]]:
        """Iterate over the rows of each output. Raises OutputValueError."""
        import polars as pl

        names = (EVENT_TIME, ORDER) if self._ordered else (EVENT_TIME,)
        hidden = pick_columns(input_rows, (name for name in names if name in input_rows.columns))
        if fired_timers:
            hidden = _append_timers(hidden, fired_timers, self._keys)
        for each in self._collectors:
            if not len(each):
                continue
            frame, origin = each.take()
            stream = self._streams[each.name]
            needs = names if stream in self._ordered else (EVENT_TIME,)
            of = pick_columns(hidden, (name for name in needs if name in hidden.columns))
            yield stream, add_hidden_columns(frame, pl.Series("of", origin, dtype=pl.UInt32), of)


def _append_timers(hidden: pl.DataFrame, moments: list[FiredTimer], keys: KeyCodec) -> pl.DataFrame:
    """Append the hidden columns of timers, positioned by time and key, to those of rows."""
    import polars as pl

    if not hidden.width:
        return hidden
    times = pl.Series(EVENT_TIME, [each.event_us for each in moments], dtype=pl.Int64)
    columns = [times.cast(to_polars(TIMESTAMP))]
    if ORDER in hidden.columns:
        encoded = keys.encode_cells(each.cell for each in moments)
        numbers = compute_key_groups(encoded, 1 << 31).cast(pl.Int64)
        place = {"time": times, "at": numbers, "part": pl.repeat(0, len(times), eager=True)}
        columns.append(pl.DataFrame(place).to_struct(ORDER).cast(to_polars(ORDER_TYPE)))
    return pl.concat([hidden, pl.DataFrame(columns).select(hidden.columns)])
