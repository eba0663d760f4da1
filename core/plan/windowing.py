"""The conversion of a window of the document to a window of the plan."""

from __future__ import annotations

from datetime import timedelta

from headrace.core.pipeline import windows as document
from headrace.core.pipeline.keyed_rules import shape_of
from headrace.core.plan import windows
from headrace.core.plan.nodes import Dedup, Keyed


def still_timed(operation: Keyed, timed: bool) -> bool:
    """Whether the output of an operation has an event time.

    The output of windows by the wall clock has none: no watermark measures their progress.
    """
    window = None if isinstance(operation, Dedup) else operation.window
    return timed and not (window is not None and window.processing)


def _shape_name(shape: windows.Shape) -> str:
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


def needs_time(window: windows.Window) -> str:
    """Return the part of a window that needs event time; "" if none does."""
    if window.bounded and not window.processing:
        return _shape_name(window.shape)
    if window.trigger and window.trigger.every_us and not window.trigger.processing:
        return "trigger: every"
    if window.evict and window.evict.within_us and not window.processing:
        return "evict: within"
    return ""


def window_of(written: document.Window) -> windows.Window:
    """Return the window of the plan."""
    trigger, evict = written.trigger, written.evict
    early = seen = None
    if trigger is not None:
        of_clock = trigger.time == "processing"
        early = windows.Trigger(_some_us(trigger.every), trigger.count, of_clock)
    if evict is not None:
        seen = windows.Evict(evict.last, _some_us(evict.within))
    return windows.Window(
        shape=_shape(written),
        lateness_us=in_us(written.lateness),
        late_to=str(written.late_to) if written.late_to is not None else None,
        processing=written.time == "processing",
        trigger=early,
        accumulate=written.accumulate,
        evict=seen,
    )


def _shape(written: document.Window) -> windows.Shape:
    offset, every = in_us(written.offset), written.every
    every_us = in_us(every) if isinstance(every, timedelta) else 1
    match shape_of(written):
        case "tumble":
            return windows.Tumble(in_us(written.tumble), offset)
        case "slide":
            return windows.Slide(in_us(written.slide), every_us, offset)
        case "cumulate":
            return windows.Cumulate(in_us(written.cumulate), every_us, offset)
        case "session":
            return windows.Session(in_us(written.session))
        case "count":
            rows = written.count or 1
            return windows.Count(rows, every if isinstance(every, int) else rows)
    return windows.Global()


def in_us(length: timedelta | None) -> int:
    """Return a duration in microseconds; 0 for None."""
    return (length or timedelta()) // timedelta(microseconds=1)


def _some_us(length: timedelta | None) -> int | None:
    return None if length is None else in_us(length)
