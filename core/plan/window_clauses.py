"""The windows, aggregates and user code of a step's clauses, converted to parts of the plan."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.api.user_code import UserCode
from headrace.core.errors.problems import suggest_name
from headrace.core.pipeline.clause_rules import get_shape
from headrace.core.pipeline.clauses import windows as document
from headrace.core.pipeline.clauses.keyed import PythonAggregate
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.user_files.references import UserFunction
from headrace.core.plan.columns import KnownColumns, PlanProblems, type_column
from headrace.core.plan.nodes import (
    Aggregate,
    Apply,
    Dedup,
    KeyedOperation,
    Operation,
    Top,
    windows,
)
from headrace.core.types.data_types import TIMESTAMP, Field, Schema

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateExpression


def make_user_code(function: UserFunction, folder: Path) -> UserCode:
    """Return the reference to user code that the plan has for a function of the document."""
    return UserCode(Path(os.path.abspath(folder)), function.file, function.name)


def list_user_code(operation: Operation) -> tuple[UserCode, ...]:
    """Return the user code that a keyed operation runs."""
    if not isinstance(operation, Aggregate | Apply | Top):
        return ()
    calls = operation.columns if isinstance(operation, Aggregate) else ()
    found = [getattr(call, "code", None) for each in calls for call in each.expression.calls]
    found.append(getattr(operation, "code", None))
    if operation.window is not None:
        window = operation.window
        found += [each.code for each in (window.trigger, window.evict) if each is not None]
    return tuple(code for code in found if code is not None)


def get_passed_columns(
    names: Iterable[Text] | None, known: KnownColumns, report: PlanProblems
) -> Schema | None:
    """Return the columns that are passed to user code; None if they are not known."""
    if names is None:
        return known.schema if known.is_complete else None
    for name in names:
        if not known.may_have(name) and name not in known.schema:
            near = suggest_name(name, known.schema.names)
            hint = near or f"the columns are {', '.join(known.schema.names)}"
            report.add(f'unknown column "{name}"', name.locate(), hint)
    found = [known.schema.get(name) for name in names]
    fields = tuple(field for field in found if field is not None)
    return Schema(fields) if len(fields) == len(found) else None


def add_user_code(
    window: windows.Window, written: document.Window, known: KnownColumns, report: PlanProblems
) -> windows.Window:
    """Return the window with the user code of its trigger and evictor."""
    evict = written.evict
    if evict is not None and evict.python is not None:
        of = get_passed_columns(evict.of, known, report) or Schema(())
        seen = windows.Evict(code=make_user_code(evict.python, report.folder), input_columns=of)
        window = replace(window, evict=seen)
    trigger = written.trigger
    if trigger is not None and trigger.python is not None:
        from headrace.core.pipeline.user_files.class_checks import read_state_schema
        from headrace.core.pipeline.user_files.trigger_checks import read_timers

        of = get_passed_columns(trigger.of, known, report) or Schema(())
        function = trigger.python
        path = function.resolve_path(report.folder)
        timers = read_timers(path, function.name)
        state = read_state_schema(path, function.name) or ()
        early = windows.Trigger(
            code=make_user_code(function, report.folder),
            input_columns=of,
            state=Schema((*state, *(Field(name, TIMESTAMP) for name, _ in timers))),
            timers=timers,
            fires_at_end=trigger.at_end,
        )
        window = replace(window, trigger=early)
    return window


def build_user_aggregate(
    written: PythonAggregate, known: KnownColumns, report: PlanProblems
) -> tuple[AggregateExpression, str] | None:
    """Return a user-defined aggregate and its text; None if its arguments are not known."""
    # Loading all aggregates takes time, which a pipeline without aggregates need not spend.
    from headrace.core.aggregates.user_aggregates import build_user_call
    from headrace.core.pipeline.user_files.class_checks import defines_method, read_state_schema

    typed = [type_column(text, known, report) for text in written.of]
    of = [(text, each) for text, each in zip(written.of, typed, strict=True) if each is not None]
    if len(of) < len(typed):
        return None
    function = written.python
    partial_schema = read_state_schema(function.resolve_path(report.folder), function.name)
    code = make_user_code(function, report.folder)
    call = build_user_call(
        code,
        [(text.reveal(), each) for text, each in of],
        written.returns,
        partial_schema,
        can_retract=defines_method(function, report.folder, "retract"),
    )
    return call, f"{code}({', '.join(text.printable for text in written.of)})"


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
    if window.trigger and any(not by_clock for _, by_clock in window.trigger.timers):
        return "trigger: a timer of its class"
    if window.evict and window.evict.within_us and not window.uses_processing_time:
        return "evict: within"
    return ""


def build_window(written: document.Window) -> windows.Window:
    """Return the window of the plan."""
    trigger, evict = written.trigger, written.evict
    early = seen = None
    if trigger is not None:
        of_clock = trigger.time == "processing"
        early = windows.Trigger(
            _to_optional_microseconds(trigger.every),
            trigger.count,
            of_clock,
            fires_at_end=trigger.at_end,
        )
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
