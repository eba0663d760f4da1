"""Descriptions of keyed operations in words, one line for each clause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.core.plan.nodes import (
    Aggregate,
    Apply,
    Body,
    Computed,
    Dedup,
    Keyed,
    Process,
    Top,
)
from headrace.core.plan.states import Kept, ranges
from headrace.core.plan.windows import (
    Count,
    Cumulate,
    Evict,
    Global,
    Session,
    Shape,
    Slide,
    Trigger,
    Ttl,
    Tumble,
    Window,
)
from headrace.core.plan.wording import changes_said, us_said


def keyed_lines(operation: Keyed) -> Iterator[str]:
    """Yield the clauses of an operation, one per line."""
    match operation:
        case Dedup(key, keep, ttl):
            order = " by event time" if operation.in_time else ""
            expiry = f", {_ttl(ttl)}" if ttl else ""
            late = f", late rows to {operation.late_to}" if operation.late_to else ""
            yield f"dedup by {_key(key)}, keep {keep}{order}{expiry}{late}"
        case Process():
            yield f"key {_key(operation.key)}"
            late = f", late rows to {operation.late_to}" if operation.late_to else ""
            yield from body_lines(operation.body, late)
        case Aggregate() | Apply() | Top():
            yield f"key {_key(operation.key)}" if operation.key else "no key: one group of all rows"
            if operation.window:
                yield f"window {window_said(operation.window)}"
            if isinstance(operation, Top):
                by = ", ".join(ranking.text for ranking in operation.by)
                yield f"top {operation.rows} by {by}{changes_said(operation.changes)}"
            elif isinstance(operation, Apply):
                yield f"apply {operation.code} to {', '.join(operation.of.names)}"
            else:
                columns = (f"{column.name} = {column.text}" for column in operation.columns)
                yield f"aggregate {', '.join(columns)}{changes_said(operation.changes)}"
                if operation.having:
                    yield f"having {operation.having.text}"
            if operation.ttl:
                yield _ttl(operation.ttl)


def body_lines(body: Body, late: str) -> Iterator[str]:
    """Yield the description of a user-defined class, and of its named outputs."""
    order = "event time" if body.in_time else "arrival"
    yield f"process {body.file}:{body.name}, rows in the order of {order}{late}"
    for name, schema in body.outputs:
        yield f"output {name}: {', '.join(schema.names)}"


def _key(key: Iterable[Computed]) -> str:
    return ", ".join(e.name if e.text in ("", e.name) else f"{e.name} = {e.text}" for e in key)


def window_said(window: Window) -> str:
    """Describe a window: how rows are grouped, when it fires, and where late rows go."""
    return ", ".join(_window(window))


def _window(window: Window) -> Iterator[str]:
    yield shape_said(window.shape)
    if window.processing:
        yield "by the wall clock"
    if window.lateness_us:
        yield f"lateness {us_said(window.lateness_us)}"
    if window.late_to:
        yield f"late rows to {window.late_to}"
    if window.trigger:
        yield f"fires {_trigger(window.trigger)}"
        if not window.accumulate:
            yield "and then discards the fired rows"
    elif not window.accumulate:
        yield "discards fired rows"
    if window.evict:
        yield f"sees {evict_said(window.evict)}"


def shape_said(shape: Shape) -> str:
    """Describe the shape of a window; checkpoints store this text."""
    match shape:
        case Tumble(size, offset):
            return f"tumble {us_said(size)}{_offset(offset)}"
        case Slide(size, every, offset):
            return f"slide {us_said(size)} every {us_said(every)}{_offset(offset)}"
        case Cumulate(size, every, offset):
            return f"cumulate {us_said(size)} every {us_said(every)}{_offset(offset)}"
        case Session(gap):
            return f"session {us_said(gap)}"
        case Count(rows, every):
            return f"count {rows}" + (f" every {every}" if every != rows else "")
        case Global():
            return "global"


def _offset(offset_us: int) -> str:
    return f" offset {us_said(offset_us)}" if offset_us else ""


def _trigger(trigger: Trigger) -> str:
    if trigger.code is not None and trigger.of is not None:
        return f"when {trigger.code} says so, by {', '.join(trigger.of.names)}"
    if trigger.every_us is None:
        return f"every {trigger.count} rows"
    return f"every {us_said(trigger.every_us)}" + (_CLOCK if trigger.processing else "")


def evict_said(evict: Evict) -> str:
    """Describe the rows of a window that are used; checkpoints store this text."""
    if evict.code is not None and evict.of is not None:
        return f"what {evict.code} keeps, by {', '.join(evict.of.names)}"
    if evict.within_us is None:
        return f"the last {evict.last} rows"
    return f"the last {us_said(evict.within_us)}"


def _ttl(ttl: Ttl) -> str:
    return f"ttl {us_said(ttl.after_us)}{_CLOCK if ttl.processing else ''}"


_CLOCK = " by the wall clock"


def kept_lines(kept: Kept) -> Iterator[str]:
    """Yield the states of a step, and the subtasks that own them."""
    for state in kept.states:
        if state.shape == "entries":
            columns = ", ".join(name for name, _ in state.columns)
            yield f"state {state.name}, rows of no key{f': {columns}' if columns else ''}"
            continue
        by = ", ".join((*(("time",) if state.shape == "runs" and state.by_time else ()), *kept.key))
        shape = "runs" if state.shape == "runs" else "a table" if kept.key else "one row"
        columns = ", ".join(name for name, _ in state.columns)
        what = f": {columns}" if columns else ""
        yield f"state {state.name}, {shape}{' by ' if by else ''}{by}{what}"
    if all(state.shape == "entries" for state in kept.states):
        return
    yield f"key groups {ranges(kept.owners)}" if kept.key else f"all of it in subtask {kept.only}"
