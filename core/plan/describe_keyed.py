"""Descriptions of keyed operations in words, one line for each clause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.core.plan.nodes import (
    Aggregate,
    Apply,
    ComputedColumn,
    Dedup,
    KeyedOperation,
    Process,
    ProcessBody,
    Top,
)
from headrace.core.plan.states import StepStateSummary, format_owners
from headrace.core.plan.windows import (
    Count,
    Cumulate,
    Evict,
    Global,
    Session,
    Slide,
    Trigger,
    Ttl,
    Tumble,
    Window,
    WindowShape,
)
from headrace.core.plan.wording import format_changelog_suffix, format_microseconds


def describe_keyed_operation(operation: KeyedOperation) -> Iterator[str]:
    """Yield the clauses of an operation, one per line."""
    match operation:
        case Dedup(key, keep, ttl):
            order = " by event time" if operation.uses_event_time else ""
            expiry = f", {_format_ttl(ttl)}" if ttl else ""
            late = f", late rows to {operation.late_to}" if operation.late_to else ""
            yield f"dedup by {_format_key(key)}, keep {keep}{order}{expiry}{late}"
        case Process():
            yield f"key {_format_key(operation.key)}"
            late = f", late rows to {operation.late_to}" if operation.late_to else ""
            yield from describe_process_body(operation.body, late)
        case Aggregate() | Apply() | Top():
            yield (
                f"key {_format_key(operation.key)}"
                if operation.key
                else "no key: one group of all rows"
            )
            if operation.window:
                yield f"window {describe_window(operation.window)}"
            if isinstance(operation, Top):
                by = ", ".join(ranking.text for ranking in operation.by)
                yield f"top {operation.rows} by {by}{format_changelog_suffix(operation.changelog_key)}"
            elif isinstance(operation, Apply):
                yield f"apply {operation.code} to {', '.join(operation.input_columns.names)}"
            else:
                columns = (f"{column.name} = {column.text}" for column in operation.columns)
                yield f"aggregate {', '.join(columns)}{format_changelog_suffix(operation.changelog_key)}"
                if operation.having:
                    yield f"having {operation.having.text}"
            if operation.ttl:
                yield _format_ttl(operation.ttl)


def describe_process_body(body: ProcessBody, late: str) -> Iterator[str]:
    """Yield the description of a user-defined class, and of its named outputs."""
    order = "event time" if body.uses_event_time else "arrival"
    yield f"process {body.file}:{body.name}, rows in the order of {order}{late}"
    for name, schema in body.outputs:
        yield f"output {name}: {', '.join(schema.names)}"


def _format_key(key: Iterable[ComputedColumn]) -> str:
    return ", ".join(e.name if e.text in ("", e.name) else f"{e.name} = {e.text}" for e in key)


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
        yield f"fires {_describe_trigger(window.trigger)}"
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
            return f"slide {format_microseconds(size)} every {format_microseconds(every)}{_format_offset(offset)}"
        case Cumulate(size, every, offset):
            return f"cumulate {format_microseconds(size)} every {format_microseconds(every)}{_format_offset(offset)}"
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
        _BY_WALL_CLOCK if trigger.uses_processing_time else ""
    )


def describe_evictor(evict: Evict) -> str:
    """Describe the rows of a window that are used; checkpoints store this text."""
    if evict.code is not None and evict.input_columns is not None:
        return f"what {evict.code} keeps, by {', '.join(evict.input_columns.names)}"
    if evict.within_us is None:
        return f"the last {evict.last} rows"
    return f"the last {format_microseconds(evict.within_us)}"


def _format_ttl(ttl: Ttl) -> str:
    return f"ttl {format_microseconds(ttl.after_us)}{_BY_WALL_CLOCK if ttl.uses_processing_time else ''}"


_BY_WALL_CLOCK = " by the wall clock"


def describe_state(kept: StepStateSummary) -> Iterator[str]:
    """Yield the states of a step, and the subtasks that own them."""
    for state in kept.states:
        if state.shape == "entries":
            columns = ", ".join(name for name, _ in state.columns)
            yield f"state {state.name}, rows of no key{f': {columns}' if columns else ''}"
            continue
        by = ", ".join(
            (*(("time",) if state.shape == "runs" and state.is_by_time else ()), *kept.key)
        )
        shape = "runs" if state.shape == "runs" else "a table" if kept.key else "one row"
        columns = ", ".join(name for name, _ in state.columns)
        what = f": {columns}" if columns else ""
        yield f"state {state.name}, {shape}{' by ' if by else ''}{by}{what}"
    if all(state.shape == "entries" for state in kept.states):
        return
    yield (
        f"key groups {format_owners(kept.key_group_ranges)}"
        if kept.key
        else f"all of it in subtask {kept.unkeyed_owner}"
    )
