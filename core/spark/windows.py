"""Time windows as columns: arithmetic on microseconds, on the same grid as in streams.

A row is copied for each of its windows, with the window's number; rows of one key and number are
the rows of a window. Spark's own `window` and `session_window` support neither windows with gaps
between them nor cumulating windows, and are no faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME
from headrace.core.plan.nodes import BOUNDS
from headrace.core.plan.windows import Cumulate, Session, Shape, Slide, Tumble

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SLOT = "__slot"
"""The number of a window: its start (microseconds), or its end if it cumulates."""
LAST = "__last"
"""The greatest event time in a window."""
AT = f"unix_micros({EVENT_TIME})"


@dataclass(frozen=True, slots=True)
class Windowed:
    """Rows with their window's number, and its bounds as SQL over WINDOW_NUMBER and LAST_TIME."""

    rows: DataFrame
    start: str
    end: str
    last: str | None = None
    """The aggregate for LAST_TIME, if a window's end depends on its rows."""

    @property
    def bounds(self) -> dict[str, str]:
        """The SQL of the window's bounds, by column name."""
        times = (f"timestamp_micros({us})" for us in (self.start, self.end))
        return dict(zip(BOUNDS, times, strict=True))

    @property
    def time(self) -> str:
        """The SQL of the event time of its results: the last instant in the window."""
        return f"timestamp_micros({self.end} - 1L)"


def windowed(rows: DataFrame, shape: Shape, keys: Sequence[str]) -> Windowed | None:
    """Assign rows to windows; None for windows that have no bounds."""
    match shape:
        case Tumble(size, offset):
            slotted = _with_slot(rows, _start(AT, size, offset))
            return Windowed(slotted, SLOT, f"{SLOT} + {size}L")
        case Slide(size, every, offset):
            return Windowed(_slid(rows, shape), SLOT, f"{SLOT} + {size}L")
        case Cumulate(size, every, offset):
            first = f"{_start(AT, every, offset)} + {every}L"
            longest = f"{_start(AT, size, offset)} + {size}L"
            slotted = _with_slot(rows, f"explode(sequence({first}, {longest}, {every}L))")
            return Windowed(slotted, _start(f"({SLOT} - 1L)", size, offset), SLOT)
        case Session(gap):
            return Windowed(_sessions(rows, gap, keys), SLOT, f"{LAST} + {gap}L", f"max({AT})")
    return None


def _slid(rows: DataFrame, shape: Slide) -> DataFrame:
    """Assign a row to the last window that starts before it, and to earlier ones containing it."""
    size, every = shape.size_us, shape.every_us
    last = _start(AT, every, shape.offset_us)
    if every >= size:
        return _with_slot(rows, last).where(f"{AT} < {SLOT} + {size}L")
    return _with_slot(rows, f"explode(sequence({last}, {AT} - {size - 1}L, -{every}L))")


def _sessions(rows: DataFrame, gap_us: int, keys: Sequence[str]) -> DataFrame:
    """Number sessions by the time of their first row, which follows a gap."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    of_key = Window.partitionBy(*keys).orderBy("__at")
    begins = f"case when __before is null or __at - __before > {gap_us}L then __at end"
    return (
        rows.withColumn("__at", f.expr(AT))
        .withColumn("__before", f.lag("__at").over(of_key))
        .withColumn(SLOT, f.max(f.expr(begins)).over(of_key))
        .drop("__at", "__before")
    )


def _start(time: str, length_us: int, offset_us: int) -> str:
    """Return the SQL for the start of the interval of that length that contains a time."""
    return f"({time} - pmod({time} - {offset_us % length_us}L, {length_us}L))"


def _with_slot(rows: DataFrame, slot: str) -> DataFrame:
    from pyspark.sql import functions as f

    return rows.withColumn(SLOT, f.expr(slot))
