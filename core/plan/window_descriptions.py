"""Descriptions of windows in words: their shape, triggers and evictors, one line a clause."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.plan.formatting import (
    format_microseconds,
)
from headrace.core.plan.nodes.windows import (
    Count,
    Cumulate,
    Evict,
    Global,
    Session,
    Slide,
    Trigger,
    Tumble,
    Window,
    WindowShape,
)

BY_WALL_CLOCK = " by the wall clock"


def describe_window(window: Window) -> str:
    """Describe a window: how rows are grouped, when it fires, and where late rows go."""
    return ", ".join(_describe_window_clauses(window))


def _describe_window_clauses(window: Window) -> Iterator[str]:
    yield describe_window_shape(window.shape)
    if window.uses_processing_time:
        yield "by the wall clock"
    if window.lateness_us:
        yield f"lateness {format_microseconds(window.lateness_us)}"
    if window.late_to:
        yield f"late rows to {window.late_to}"
    if window.trigger:
        at_end = "" if window.fires_at_end else ", not at its end"
        yield f"fires {_describe_trigger(window.trigger)}{at_end}"
        if not window.keeps_rows:
            yield "and then discards the fired rows"
    elif not window.keeps_rows:
        yield "discards fired rows"
    if window.evict:
        yield f"sees {describe_evictor(window.evict)}"


def describe_window_shape(shape: WindowShape) -> str:
    """Describe the shape of a window; checkpoints store this text."""
    match shape:
        case Tumble(size, offset):
            return f"tumble {format_microseconds(size)}{_format_offset(offset)}"
        case Slide(size, every, offset):
            return (
                f"slide {format_microseconds(size)} every "
                f"{format_microseconds(every)}{_format_offset(offset)}"
            )
        case Cumulate(size, every, offset):
            return (
                f"cumulate {format_microseconds(size)} every "
                f"{format_microseconds(every)}{_format_offset(offset)}"
            )
        case Session(gap):
            return f"session {format_microseconds(gap)}"
        case Count(rows, every):
            return f"count {rows}" + (f" every {every}" if every != rows else "")
        case Global():
            return "global"


def _format_offset(offset_us: int) -> str:
    return f" offset {format_microseconds(offset_us)}" if offset_us else ""


def _describe_trigger(trigger: Trigger) -> str:
    if trigger.code is not None and trigger.input_columns is not None:
        return f"when {trigger.code} says so, by {', '.join(trigger.input_columns.names)}"
    if trigger.every_us is None:
        return f"every {trigger.count} rows"
    return f"every {format_microseconds(trigger.every_us)}" + (
        BY_WALL_CLOCK if trigger.uses_processing_time else ""
    )


def describe_evictor(evict: Evict) -> str:
    """Describe the rows of a window that are used; checkpoints store this text."""
    if evict.code is not None and evict.input_columns is not None:
        return f"what {evict.code} keeps, by {', '.join(evict.input_columns.names)}"
    if evict.within_us is None:
        return f"the last {evict.last} rows"
    return f"the last {format_microseconds(evict.within_us)}"
