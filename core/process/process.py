"""The base class of `process` classes, and the arguments of their methods, for rows and for
batches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from headrace.core.api.user_metrics import Metrics

if TYPE_CHECKING:
    import polars as pl


class KeyedColumn(Protocol):
    """One state or timer of the keys of the current rows.

    A list state is a list column, a map state a list of structs of `key` and `value`.
    """

    def get(self) -> pl.Series:
        """Return for each row, in order, the value that its key had before these rows."""
        ...

    def set(self, values: pl.Series) -> None:
        """Set a value for each row; a key keeps the value of its last row. Null clears it."""
        ...


class AllState(Protocol):
    """The states of the keys of the current rows, by their declared names."""

    def __getattr__(self, name: str) -> KeyedColumn:
        """Return the column of a state or a timer."""
        ...


class AllOut(Protocol):
    """The output of rows: `out(frame)` emits to the step, `out.audit(frame)` to a named output."""

    def __call__(self, frame: pl.DataFrame, of: pl.Series | None = None) -> None:
        """Emit rows of the declared columns, each with the time of an input row.

        `of` assigns output rows to input rows: either the input row's index for each output row, in
        ascending order, or a boolean for each input row, whether it has an output row. Without it
        there is one output row for each input row.
        """
        ...

    def __getattr__(self, output: str) -> AllOut:
        """Return a named output."""
        ...


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


MICROSECOND = timedelta(microseconds=1)


class Row(msgspec.Struct, gc=False):
    """A base class for typed rows, so that editors and type checkers know the columns.

        class Payment(Row):
            card: str
            amount: float

        def on_row(self, row: Payment, state, out): ...

    Rows then have only these columns. Without the annotation a row has all columns of the input.
    """


class Out(Protocol):
    """The output of rows: `out(card=..., why=...)` emits to the step, `out.audit(...)` elsewhere.

    Values are given in the order of the declared columns, or by name; none may be left out.
    """

    def __call__(self, *values: object, **columns: object) -> None:
        """Emit a row, with the time of the current row or timer."""
        ...

    def __getattr__(self, output: str) -> Out:
        """Return a named output."""
        ...


class ProcessContext(Protocol):
    """The context of a call of user code."""

    @property
    def key(self) -> Any:
        """The current key."""
        ...

    @property
    def time_us(self) -> int | None:
        """The event time of the current row or timer; None: rows have no event time."""
        ...

    @property
    def batch_times(self) -> pl.Series | None:
        """The event times of a batch of rows; None: there is no batch, or no event time."""
        ...

    @property
    def watermark_us(self) -> int | None:
        """The current watermark; None before the first one."""
        ...

    @property
    def timer(self) -> str | None:
        """The name of the timer that fired; None while a row is processed."""
        ...

    def now_us(self) -> int:
        """Return the time of the wall clock."""
        ...


class Process:
    """The base class of user-defined processing by key, with state and timers.

    A subclass defines `on_row`, or `on_rows` for batches of rows of many keys, and `on_timer` if it
    declares timers. With a `broadcast` it defines `on_rule`, which writes the broadcast state. One
    object serves all keys: data that belongs to a key is in `state`.
    """

    __context: ProcessContext | None = None
    __metrics: Metrics | None = None

    if TYPE_CHECKING:

        def on_row(self, row: Any, state: Any, out: Out) -> None:
            """Process a row. `state` is the state of its key: annotate it with the class itself."""

        def on_rows(self, rows: Any, state: AllState, out: AllOut) -> None:
            """Process rows of many keys, a Polars DataFrame in the order of their time."""

        def on_left(self, row: Any, state: Any, out: Out) -> None:
            """Process a row of the left input of `connect`."""

        def on_right(self, row: Any, state: Any, out: Out) -> None:
            """Process a row of the right input of `connect`."""

        def on_rule(self, rule: Any, state: Any) -> None:
            """Process a row of a `broadcast`: `state` has the `shared` states of all keys."""

        def on_timer(self, at: datetime, state: Any, out: Out) -> None:
            """Process a timer that was set to the time `at`; it is no longer set."""

    @property
    def key(self) -> Any:
        """The key of the row or timer: a value, or a tuple if the step has several key columns."""
        return self._process_context.key

    @property
    def event_time(self) -> datetime:
        """The event time of the row or timer."""
        found = self._process_context.time_us
        if found is None:
            raise RuntimeError("rows have no event time: set event_time of the source")
        return EPOCH + found * MICROSECOND

    @property
    def event_times(self) -> pl.Series:
        """The event time of each row, in `on_rows`."""
        found = self._process_context.batch_times
        if found is None:
            raise RuntimeError("event_times needs rows with event time, and on_rows")
        return found

    @property
    def watermark(self) -> datetime | None:
        """The current watermark; None before the first one, and after the end of the input."""
        return to_datetime(self._process_context.watermark_us)

    @property
    def now(self) -> datetime:
        """The time of the wall clock."""
        return EPOCH + self._process_context.now_us() * MICROSECOND

    @property
    def timer(self) -> str | None:
        """The name of the timer that fired, in `on_timer`."""
        return self._process_context.timer

    @cached_property  # so that a class may have an attribute of that name
    def metrics(self) -> Metrics:
        """The counters and gauges of the class: `self.metrics.counter("seen").add()`."""
        return self._get_metrics()

    @property
    def _process_context(self) -> ProcessContext:
        if self.__context is None:
            raise RuntimeError("no row is being processed: in __init__ there is no key and no time")
        return self.__context

    def _get_metrics(self) -> Metrics:
        if self.__metrics is None:
            self.__metrics = Metrics()
        return self.__metrics

    def _set_context(self, here: ProcessContext) -> None:
        """Set the context of the calls that follow."""
        self.__context = here


def to_datetime(us: int | None) -> datetime | None:
    """Return microseconds since the epoch as a datetime; None if out of its range."""
    try:
        return None if us is None else EPOCH + us * MICROSECOND
    except OverflowError:
        return None


def to_microseconds(time: datetime) -> int:
    """Return a time as microseconds since the epoch; without a zone it is UTC."""
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - EPOCH) // MICROSECOND
