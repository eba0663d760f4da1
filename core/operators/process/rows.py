"""Rows handled one by one, with the timers that come between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.core.elements import EVENT_TIME, HIDDEN
from headrace.core.frames import microseconds
from headrace.core.operators.map import FailedRow
from headrace.core.operators.process.failing import Failing
from headrace.core.operators.process.loaded import Unlisted
from headrace.core.operators.process.outs import Outs
from headrace.core.operators.process.timers import Timers
from headrace.core.operators.process.work import EVERY, Work
from headrace.core.process.process import moment
from headrace.core.state import NO_CLOCK_US
from headrace.core.user_code import UserCodeError

if TYPE_CHECKING:
    import polars as pl

PIECE = 1 << 14
"""So many rows are objects at once."""
MOST = 100_000
"""So often timers of one key may come at one time, and behind the last row of all."""
ENDLESS = "a timer that sets itself again and again has no end here: leave it unset at some time"

Call = Callable[[Any, Any, Any], object]


@dataclass(slots=True)
class Came:
    """Rows to handle, in their order."""

    rows: Iterable[Any]
    """To be gone through once: they may be made then."""
    cells: list[Any]
    times: pl.Series | None
    """Their event times in microseconds."""
    shown: Callable[[int], dict[str, Any]]
    """One of them as people see it."""
    call: Call | None
    """What handles all of them; None: `calls` has it for each."""
    each: Iterable[Call] = ()

    @property
    def calls(self) -> Iterable[Call]:
        """What handles each."""
        return self.each if self.call is None else repeat(self.call)


class Moment(NamedTuple):
    """A timer that was handled."""

    event_us: int
    """The time of what it puts out."""
    cell: Any
    timer: str
    at_us: int


class RowByRow:
    """Calls the methods of a class; what they put out is gathered for `Outs`."""

    def __init__(
        self,
        process: Any,
        work: Work,
        outs: Outs,
        failing: Failing,
        *,
        careful: bool,
        tells_rules: bool = True,
    ) -> None:
        """`careful`: a row that fails is left out, and what it has done is undone.

        Of those that all subtasks see one `tells_rules` that failed.
        """
        self._on_timer: Call | None = getattr(process, "on_timer", None)
        self._work = work
        self._outs = outs
        self._failing = failing
        self._careful = careful
        self._tells_rules = tells_rules
        self.moments: list[Moment] = []
        """The timers that were handled since the last rows."""
        self.failures: list[FailedRow] = []
        self._ended: dict[object, int] = {}
        self._at_us = NO_CLOCK_US
        self._at_once: dict[object, int] = {}
        """How often timers of a key came while no time has passed."""
        self._rows = 0

    def begin(self) -> None:
        """No rows are handled next one by one, and timers alone."""
        self._rows, self.moments = 0, []

    def go_on(self) -> None:
        """Time goes on, be it by event time or by the wall clock."""
        self._at_us, self._at_once = NO_CLOCK_US, {}

    def handle(self, rows: Came, timers: Timers | None) -> None:
        """Handle rows in their order, and before each the timers that come before it."""
        work = self._work
        work.begin(rows.cells, rows.times)
        self._rows, self.moments = len(rows.cells), []
        numbers = count()
        try:
            if self._careful:
                self._carefully(rows, numbers, timers)
            elif timers is None or (times := work.times) is None:
                self._all(rows, numbers)
            else:
                self._in_time(rows, numbers, times, timers)
            if rows.cells and work.at != len(rows.cells) - 1:
                raise RuntimeError("the class of rows raised StopIteration")
        except (_Told, Unlisted, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            at = next(numbers) - 1  # `work.at` is another where it could not be made
            told = self._failing.of_row(error, rows.cells[at]._id, rows.shown(at))
            raise told from error

    def _all(self, rows: Came, numbers: Iterator[int]) -> None:
        work, out, call = self._work, self._outs.out, rows.call
        if call is None:
            for at, each, row, cell in zip(
                numbers, rows.calls, rows.rows, rows.cells, strict=False
            ):
                work.at = at
                if (found := each(row, cell, out)) is not None:
                    raise self._failing.returned(found, each.__name__)
            return
        for at, row, cell in zip(numbers, rows.rows, rows.cells, strict=False):
            work.at = at
            if (found := call(row, cell, out)) is not None:
                raise self._failing.returned(found, call.__name__)

    def _in_time(
        self, rows: Came, numbers: Iterator[int], times: list[int], timers: Timers
    ) -> None:
        work, out, calls = self._work, self._outs.out, rows.calls
        for at, call, row, cell, time_us in zip(
            numbers, calls, rows.rows, rows.cells, times, strict=False
        ):
            if time_us > timers.next_us:
                self.fire(timers.due(time_us))
            work.at = at
            if (found := call(row, cell, out)) is not None:
                raise self._failing.returned(found, call.__name__)

    def _carefully(self, rows: Came, numbers: Iterator[int], timers: Timers | None) -> None:
        work, made = self._work, iter(rows.rows)
        times = None if timers is None else work.times
        for at, call, cell in zip(numbers, rows.calls, rows.cells, strict=False):
            if timers is not None and times is not None and times[at] > timers.next_us:
                self.fire(timers.due(times[at]))
            work.at = at
            self._try(cell, call, made.__next__, partial(rows.shown, at))

    def _try(
        self, cell: Any, call: Call, what: Callable[[], Any], of: Callable[[], dict[str, Any]]
    ) -> None:
        """Do something to a cell, or nothing, and note what has failed.

        What is no Exception fails the job: sys.exit(), or a panic of Polars.
        """
        saved, marked = cell._cells.saved(cell), self._outs.marked()
        try:
            found = call(what(), cell, self._outs.out)
            if found is not None:
                raise self._failing.returned(found, call.__name__)
            self._outs.check(marked)
        except Unlisted:
            raise
        except Exception as error:
            cell._cells.restore(cell, saved)
            self._outs.back_to(marked)
            if self._tells_rules or cell._id is not EVERY:
                self.failures.append(self._failing.letter(error, of()))

    def fire(
        self,
        due: Iterable[tuple[int, Any, str]],
        *,
        event_us: int | None = None,
        is_end: bool = False,
    ) -> None:
        """Handle timers that have come.

        What they put out has their time, or `event_us` where they go by the wall clock. At the end
        of all rows and at one time none may come for ever.
        """
        work, out = self._work, self._outs.out
        for at_us, cell, name in due:
            work.cell, work.timer = cell, name
            work.moment_us = at_us if event_us is None else event_us
            work.at = self._rows + len(self.moments)
            self.moments.append(Moment(work.moment_us, cell, name, at_us))
            try:
                self._call(cell, name, at_us, out)
            finally:
                work.timer = work.cell = None
            if at_us > self._at_us:
                self._at_us, self._at_once = at_us, {}
            self._count(self._at_once, cell, name, at_us)
            if is_end:
                self._count(self._ended, cell, name, None)

    def _call(self, cell: Any, name: str, at_us: int, out: Any) -> None:
        call, at = self._on_timer, moment(at_us)
        assert call is not None, "only a class with on_timer may declare timers"
        row = {"key": cell._id, "timer": name, "at": at}
        try:
            if self._careful:
                self._try(cell, call, lambda: at, lambda: row)
            elif (found := call(at, cell, out)) is not None:
                raise self._failing.returned(found, "on_timer")
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            told = self._failing.of_timer(error, cell._id, name, at)
            raise _Told(told.message, told.hint) from error

    def _count(self, counted: dict[object, int], cell: Any, name: str, at_us: int | None) -> None:
        """Timers that are set again and again would come for ever: at one time, or at the end."""
        times = counted[cell._id] = counted.get(cell._id, 0) + 1
        if times > MOST:
            when = "at the end" if at_us is None else f"while it was {moment(at_us)}"
            what = f'timer "{name}" of the key {cell._id!r}'
            raise _Told(f"{self._failing.shown}: {what} came {times} times {when}", ENDLESS)


class _Told(UserCodeError):
    """A failure of a timer, which is not the row's."""


def times_of(frame: pl.DataFrame) -> pl.Series | None:
    """The event times of rows in microseconds, if they have any."""
    return microseconds(frame[EVENT_TIME]) if EVENT_TIME in frame.columns else None


def shown_in(frame: pl.DataFrame) -> Callable[[int], dict[str, Any]]:
    """A row as people see it, by its number."""

    def shown(at: int) -> dict[str, Any]:
        row = frame.row(at, named=True)
        return {n: value for n, value in row.items() if n not in HIDDEN and not n.startswith("__k")}

    return shown
