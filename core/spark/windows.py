"""Time windows and key columns of Spark's rows, as headrace's operators group them.

Windows are arithmetic on microseconds, on the same grid as in streams. A row is copied for each of
its windows, with the window's number; rows of one key and number are the rows of a window. Spark's
own `window` and `session_window` support neither windows with gaps between them nor cumulating
windows, and are no faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.plan import nodes
from headrace.core.plan.nodes import WINDOW_BOUNDS
from headrace.core.plan.nodes.windows import (
    Count,
    Cumulate,
    Session,
    Slide,
    Ttl,
    Tumble,
    Window,
    WindowShape,
)
from headrace.core.spark.expressions import translate_column
from headrace.core.types.elements import EVENT_TIME
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


WINDOW_NUMBER = "__slot"
"""The number of a window: its start (microseconds), or its end if it cumulates."""


LAST_TIME = "__last"
"""The greatest event time in a window."""


EVENT_TIME_US = f"unix_micros({EVENT_TIME})"


@dataclass(frozen=True, slots=True)
class WindowedFrame:
    """Rows with their window's number, and its bounds as SQL over WINDOW_NUMBER and LAST_TIME."""

    rows: DataFrame
    start: str
    end: str
    last_time_aggregate: str | None = None
    """The aggregate for LAST_TIME, if a window's end depends on its rows."""

    @property
    def bounds(self) -> dict[str, str]:
        """The SQL of the window's bounds, by column name."""
        times = (f"timestamp_micros({us})" for us in (self.start, self.end))
        return dict(zip(WINDOW_BOUNDS, times, strict=True))

    @property
    def event_time(self) -> str:
        """The SQL of the event time of its results: the last instant in the window."""
        return f"timestamp_micros({self.end} - 1L)"


def assign_windows(
    rows: DataFrame, shape: WindowShape, keys: Sequence[str]
) -> WindowedFrame | None:
    """Assign rows to windows; None for windows that have no bounds."""
    match shape:
        case Tumble(size, offset):
            slotted = _add_window_number(rows, _interval_start(EVENT_TIME_US, size, offset))
            return WindowedFrame(slotted, WINDOW_NUMBER, f"{WINDOW_NUMBER} + {size}L")
        case Slide(size, every, offset):
            return WindowedFrame(
                _assign_sliding(rows, shape), WINDOW_NUMBER, f"{WINDOW_NUMBER} + {size}L"
            )
        case Cumulate(size, every, offset):
            first = f"{_interval_start(EVENT_TIME_US, every, offset)} + {every}L"
            longest = f"{_interval_start(EVENT_TIME_US, size, offset)} + {size}L"
            slotted = _add_window_number(rows, f"explode(sequence({first}, {longest}, {every}L))")
            return WindowedFrame(
                slotted, _interval_start(f"({WINDOW_NUMBER} - 1L)", size, offset), WINDOW_NUMBER
            )
        case Session(gap):
            return WindowedFrame(
                _assign_sessions(rows, gap, keys),
                WINDOW_NUMBER,
                f"{LAST_TIME} + {gap}L",
                f"max({EVENT_TIME_US})",
            )
    return None


def _assign_sliding(rows: DataFrame, shape: Slide) -> DataFrame:
    """Assign a row to the last window that starts before it, and to earlier ones containing it."""
    size, every = shape.size_us, shape.every_us
    last = _interval_start(EVENT_TIME_US, every, shape.offset_us)
    if every >= size:
        return _add_window_number(rows, last).where(f"{EVENT_TIME_US} < {WINDOW_NUMBER} + {size}L")
    return _add_window_number(
        rows, f"explode(sequence({last}, {EVENT_TIME_US} - {size - 1}L, -{every}L))"
    )


def _assign_sessions(rows: DataFrame, gap_us: int, keys: Sequence[str]) -> DataFrame:
    """Number sessions by the time of their first row, which follows a gap."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    of_key = Window.partitionBy(*keys).orderBy("__at")
    begins = f"case when __before is null or __at - __before > {gap_us}L then __at end"
    return (
        rows.withColumn("__at", f.expr(EVENT_TIME_US))
        .withColumn("__before", f.lag("__at").over(of_key))
        .withColumn(WINDOW_NUMBER, f.max(f.expr(begins)).over(of_key))
        .drop("__at", "__before")
    )


def _interval_start(time: str, length_us: int, offset_us: int) -> str:
    """Return the SQL for the start of the interval of that length that contains a time."""
    return f"({time} - pmod({time} - {offset_us % length_us}L, {length_us}L))"


def _add_window_number(rows: DataFrame, slot: str) -> DataFrame:
    from pyspark.sql import functions as f

    return rows.withColumn(WINDOW_NUMBER, f.expr(slot))


MAX_WINDOWS_PER_ROW = 64
"""Spark copies a row for each of its windows; headrace's operators merge panes instead."""


def is_native_grouping(window: Window | None, ttl: Ttl | None) -> bool:
    """Whether Spark can group the rows: by their values, not by their number or arrival time."""
    if window is None or ttl is not None:
        return ttl is None
    parts = window.trigger is not None and not window.keeps_rows
    special = window.uses_processing_time or window.evict is not None or parts
    return not special and _is_native_shape(window.shape)


def _is_native_shape(shape: WindowShape) -> bool:
    match shape:
        case Slide(size, every) | Cumulate(size, every):
            return size <= every * MAX_WINDOWS_PER_ROW
    return not isinstance(shape, Count)


def key_column_names(operation: nodes.KeyedOperation) -> tuple[str, ...]:
    """Return the names of the key columns while rows are grouped."""
    return tuple(f"__k{at}" for at in range(len(operation.key)))


def add_key_columns(rows: DataFrame, key: Sequence[nodes.ComputedColumn]) -> DataFrame | None:
    """Add the key columns to the rows; None if Spark cannot compute one of them."""
    from pyspark.sql import functions as f

    texts = {f"__k{at}": translate_column(each) for at, each in enumerate(key)}
    columns = {name: f.expr(text) for name, text in texts.items() if text is not None}
    if len(columns) < len(texts):
        return None
    return rows.withColumns(columns) if columns else rows
