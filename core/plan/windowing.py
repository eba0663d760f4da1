"""The conversion of a window of the document to a window of the plan."""

from __future__ import annotations

from datetime import timedelta

from headrace.core.pipeline import windows as document
from headrace.core.pipeline.keyed_rules import get_shape
from headrace.core.plan import windows
from headrace.core.plan.nodes import Dedup, KeyedOperation


def keeps_event_time(operation: KeyedOperation, timed: bool) -> bool:
    """Whether the output of an operation has an event time.

    The output of windows by the wall clock has none: no watermark measures their progress.
    """
    window = None if isinstance(operation, Dedup) else operation.window
    return timed and not (window is not None and window.uses_processing_time)


def _shape_name(shape: windows.WindowShape) -> str:
    match shape:
        case windows.Tumble():
            return "tumble"
        case windows.Slide():
            return "slide"
        case windows.Cumulate():
            return "cumulate"
        case windows.Session():
            return "session"
        case windows.Count():
            return "count"
        case windows.Global():
            return "global"


def find_event_time_use(window: windows.Window) -> str:
    """Return the part of a window that needs event time; "" if none does."""
    if window.has_bounds and not window.uses_processing_time:
        return _shape_name(window.shape)
    if window.trigger and window.trigger.every_us and not window.trigger.uses_processing_time:
        return "trigger: every"
    if window.evict and window.evict.within_us and not window.uses_processing_time:
        return "evict: within"
    return ""


def build_window(written: document.Window) -> windows.Window:
    """Return the window of the plan."""
    trigger, evict = written.trigger, written.evict
    early = seen = None
    if trigger is not None:
        of_clock = trigger.time == "processing"
        early = windows.Trigger(_to_optional_microseconds(trigger.every), trigger.count, of_clock)
    if evict is not None:
        seen = windows.Evict(evict.last, _to_optional_microseconds(evict.within))
    return windows.Window(
        shape=_build_shape(written),
        lateness_us=to_microseconds(written.lateness),
        late_to=str(written.late_to) if written.late_to is not None else None,
        uses_processing_time=written.time == "processing",
        trigger=early,
        keeps_rows=written.accumulate,
        evict=seen,
    )


def _build_shape(written: document.Window) -> windows.WindowShape:
    offset, every = to_microseconds(written.offset), written.every
    every_us = to_microseconds(every) if isinstance(every, timedelta) else 1
    match get_shape(written):
        case "tumble":
            return windows.Tumble(to_microseconds(written.tumble), offset)
        case "slide":
            return windows.Slide(to_microseconds(written.slide), every_us, offset)
        case "cumulate":
            return windows.Cumulate(to_microseconds(written.cumulate), every_us, offset)
        case "session":
            return windows.Session(to_microseconds(written.session))
        case "count":
            rows = written.count or 1
            return windows.Count(rows, every if isinstance(every, int) else rows)
    return windows.Global()


def to_microseconds(length: timedelta | None) -> int:
    """Return a duration in microseconds; 0 for None."""
    return (length or timedelta()) // timedelta(microseconds=1)


def _to_optional_microseconds(length: timedelta | None) -> int | None:
    return None if length is None else to_microseconds(length)
