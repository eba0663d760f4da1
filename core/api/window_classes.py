"""The API for user-defined aggregates and triggers: `from headrace import Aggregate`.

    class Spread(Aggregate):
        state = {"low": "double", "high": "double"}

        def partial(self, amounts):
            return {"low": amounts.min(), "high": amounts.max()}

        def merge(self, partials):
            return {
                "low": min((p["low"] for p in partials if p["low"] is not None), default=None),
                "high": max((p["high"] for p in partials if p["high"] is not None), default=None),
            }

        def finish(self, partial):
            return None if partial["low"] is None else partial["high"] - partial["low"]

The pipeline names the file and the class: `spread: {python: w.py:Spread, of: [amount], returns:
double}`. Methods of an aggregate are called once per group of rows, never per row; columns are
Polars Series. The method of a trigger is called for each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from headrace.core.types.lazy_dataclass import dataclass

P = TypeVar("P")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Window:
    """The key and the window of some rows: the columns of the key, and the window's start and end.

    A window of a number of rows, or of all rows, has no start and no end.
    """

    key: Mapping[str, Any]
    start: datetime | None
    end: datetime | None


NO_STATE: Mapping[str, str] = MappingProxyType({})


class Aggregate(Generic[P]):
    """A user-defined aggregate: `partial` of rows, `merge` of partials, `finish` of the last one.

    The rows of a group arrive in batches; the state of the group in between is its partial.
    Partials are merged in any order and grouping, so the result must not depend on either.

    `state` has the names and types of the columns of a partial, as in `{"n": "bigint", "all":
    "array<double>"}`; it is written in the class body, as a plain literal. A partial is then a dict
    with these keys: arrays are Series (a list may be returned as well), all others plain values.
    Without `state` a partial is any JSON value, and is stored as such.

    A class may define `retract`, which takes rows out of a partial. Over a table whose rows change,
    a group then has only its partial as state; otherwise it has its values as well, and a change
    computes partials of some of them again.

    One object serves all groups, and several threads may call it: it must store nothing itself.
    """

    state: ClassVar[Mapping[str, str]] = NO_STATE

    if TYPE_CHECKING:

        def retract(self, partial: P, removed: P) -> P:
            """Return a partial without rows, of which `removed` is the partial.

            A removal may arrive before its row: `partial` may be of fewer rows, even of none. What
            comes out must be right once the row has been merged.
            """

    def partial(self, *columns: Any, **_: Any) -> P:
        """Return the partial of some rows; each column of `of` is a Series, perhaps empty.

        The rows are in no particular order.
        """
        raise NotImplementedError

    def merge(self, partials: Sequence[P]) -> P:
        """Merge partials into one."""
        raise NotImplementedError

    def finish(self, partial: P) -> object:
        """Return the result, of the type in `returns`; None is null."""
        raise NotImplementedError


class TriggerContext(Protocol):
    """The context of a call of a trigger."""

    @property
    def timer(self) -> str | None:
        """The name of the timer that fired; None while a row is added."""
        ...

    @property
    def watermark_us(self) -> int | None:
        """The current watermark; None before the first one."""
        ...

    def now_us(self) -> int:
        """Return the time of the wall clock."""
        ...


class Trigger:
    """A user-defined trigger, which makes windows fire before they end.

    `state` has the names and types of the state per key and window; it is written in the class
    body, as a plain literal. Each value is None at first, and is removed with the window, or, with
    `accumulate: false`, whenever the window fires.

        class Settled(Trigger):
            state = {"rows": "bigint"}
            settled = timer()

            def on_row(self, row, state, window):
                state["rows"] = (state["rows"] or 0) + 1
                state["settled"] = row["at"] + timedelta(minutes=1)
                return False

            def on_timer(self, at, state, window):
                return state["rows"] > 10

    Timers are declared as those of `Process`, and set in `state`: to a time, or to None to delete
    them. They are removed with the window.

    One object serves all windows of a subtask: it must store nothing itself.
    """

    state: ClassVar[Mapping[str, str]] = NO_STATE
    __context: TriggerContext | None = None

    def on_row(self, row: dict[str, Any], state: dict[str, Any], window: Window) -> bool:
        """Return whether the window fires now that this row has been added to it.

        It is called for each row, in the order of arrival. `row` has the columns of `of`; `state`
        is the state of the key and window, to be modified in place.
        """
        raise NotImplementedError

    if TYPE_CHECKING:

        def on_timer(self, at: datetime, state: dict[str, Any], window: Window) -> bool:
            """Return whether the window fires now that a timer was due at the time `at`.

            The timer is no longer set, and `self.timer` is its name.
            """

        def merge(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
            """Return the state of a session that a row makes of several, in the order of time.

            It has the same names, with the timers. Only sessions need it.
            """

    @property
    def timer(self) -> str | None:
        """The name of the timer that fired, in `on_timer`."""
        return self._trigger_context.timer

    @property
    def watermark(self) -> datetime | None:
        """The current watermark; None before the first one, and after the end of the input."""
        try:
            watermark_us = self._trigger_context.watermark_us
            return None if watermark_us is None else EPOCH + timedelta(microseconds=watermark_us)
        except OverflowError:
            return None

    @property
    def now(self) -> datetime:
        """The time of the wall clock."""
        return EPOCH + timedelta(microseconds=self._trigger_context.now_us())

    @property
    def _trigger_context(self) -> TriggerContext:
        if self.__context is None:
            raise RuntimeError("no window is open: in __init__ there is no row and no time")
        return self.__context

    def _set_context(self, here: TriggerContext) -> None:
        """Set the context of the calls that follow."""
        self.__context = here
