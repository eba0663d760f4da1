"""The base of the classes of `process`, and what their methods are handed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.process.columns import AllOut, AllState

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Row(msgspec.Struct, gc=False):
    """A row, for those who want their editor to know its columns.

        class Payment(Row):
            card: str
            amount: float

        def on_row(self, row: Payment, state, out): ...

    A row has these columns then, and no others are made. Without it a row has all that come.
    """


class Out(Protocol):
    """Where rows go: `out(card=..., why=...)` to those of the step, `out.audit(...)` to an output.

    Values stand in the order of the declared columns, or by name; none may be left out.
    """

    def __call__(self, *values: object, **columns: object) -> None:
        """Put out a row, with the time of the row or timer that is handled."""
        ...

    def __getattr__(self, output: str) -> Out:
        """A named output."""
        ...


class Here(Protocol):
    """Where the work stands: what a class may ask of it."""

    @property
    def key(self) -> Any:
        """The key that is handled."""
        ...

    @property
    def time_us(self) -> int | None:
        """The event time of the row or timer that is handled, if rows have one."""
        ...

    @property
    def times_of_all(self) -> pl.Series | None:
        """The event times of rows that are handled together, if they have any."""
        ...

    @property
    def watermark_us(self) -> int | None:
        """How far event time has come; None before anybody knows."""
        ...

    @property
    def timer(self) -> str | None:
        """The timer that has come; None where a row is handled."""
        ...

    def now_us(self) -> int:
        """The wall clock."""
        ...


class Process:
    """What is done with the rows of a key, one after the other, with what is remembered of it.

    A class has `on_row`, or `on_rows` for many rows of many keys at once, and `on_timer` if it
    declares timers. There is one object of it for all keys: what belongs to a key is in `state`.
    Beside a `broadcast` it has `on_rule`, which writes what all keys share.
    """

    __here: Here | None = None

    if TYPE_CHECKING:

        def on_row(self, row: Any, state: Any, out: Out) -> None:
            """A row has come. `state` is that of its key: annotate it with the class itself."""

        def on_rows(self, rows: Any, state: AllState, out: AllOut) -> None:
            """Rows of many keys have come, as a Polars DataFrame, in the order of their time."""

        def on_left(self, row: Any, state: Any, out: Out) -> None:
            """A row of the left input of `connect` has come."""

        def on_right(self, row: Any, state: Any, out: Out) -> None:
            """A row of the right input of `connect` has come."""

        def on_rule(self, rule: Any, state: Any) -> None:
            """A row of a `broadcast` has come: `state` is what is `shared` by all keys."""

        def on_timer(self, at: datetime, state: Any, out: Out) -> None:
            """The time has come that a timer was set to; it is not set any more."""

    @property
    def key(self) -> Any:
        """The key of the row or timer: a value, or a tuple where the step has several columns."""
        return self._there.key

    @property
    def event_time(self) -> datetime:
        """The event time of the row or timer."""
        found = self._there.time_us
        if found is None:
            raise RuntimeError("rows have no event time: say event_time of the source")
        return EPOCH + found * MICROSECOND

    @property
    def event_times(self) -> pl.Series:
        """In `on_rows` the event time of each row."""
        found = self._there.times_of_all
        if found is None:
            raise RuntimeError("in on_rows only, and where rows have an event time")
        return found

    @property
    def watermark(self) -> datetime | None:
        """How far event time has come. None before anybody knows, or when it is over."""
        return moment(self._there.watermark_us)

    @property
    def now(self) -> datetime:
        """The wall clock."""
        return EPOCH + self._there.now_us() * MICROSECOND

    @property
    def timer(self) -> str | None:
        """In `on_timer` the name of the timer that has come."""
        return self._there.timer

    @property
    def _there(self) -> Here:
        if self.__here is None:
            raise RuntimeError("nothing is handled yet: in __init__ there is no key and no time")
        return self.__here

    def _stand(self, here: Here) -> None:
        """Be told where the work stands."""
        self.__here = here


def moment(us: int | None) -> datetime | None:
    """A time, if people can say it: not that before the first, nor that behind the last."""
    try:
        return None if us is None else EPOCH + us * MICROSECOND
    except OverflowError:
        return None


def in_us(time: datetime) -> int:
    """Microseconds since the epoch; a time without a zone is UTC."""
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - EPOCH) // MICROSECOND
