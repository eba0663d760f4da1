"""User code in windows and aggregates, as parts of the plan."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.pipeline import windows as document
from headrace.core.pipeline.functions import UserFunction
from headrace.core.pipeline.keyed import PythonAggregate
from headrace.core.pipeline.python_classes import read_state_schema
from headrace.core.pipeline.text import Text
from headrace.core.plan import windows
from headrace.core.plan.columns import KnownColumns, PlanProblems, type_column
from headrace.core.plan.nodes import Aggregate, Apply, Operation, Top
from headrace.core.problems import suggest_name
from headrace.core.types import Schema
from headrace.core.user_code import UserCode

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
        of = get_passed_columns(trigger.of, known, report) or Schema(())
        function = trigger.python
        state = read_state_schema(function.resolve_path(report.folder), function.name) or Schema(())
        code = make_user_code(function, report.folder)
        window = replace(window, trigger=windows.Trigger(code=code, input_columns=of, state=state))
    return window


def build_user_aggregate(
    written: PythonAggregate, known: KnownColumns, report: PlanProblems
) -> tuple[AggregateExpression, str] | None:
    """Return a user-defined aggregate and its text; None if its arguments are not known."""
    # Loading all aggregates takes time, which a pipeline without aggregates need not spend.
    from headrace.core.aggregates.users import build_user_call

    typed = [type_column(text, known, report) for text in written.of]
    of = [(text, each) for text, each in zip(written.of, typed, strict=True) if each is not None]
    if len(of) < len(typed):
        return None
    function = written.python
    kept = read_state_schema(function.resolve_path(report.folder), function.name)
    code = make_user_code(function, report.folder)
    call = build_user_call(
        code, [(text.reveal(), each) for text, each in of], written.returns, kept
    )
    return call, f"{code}({', '.join(text.printable for text in written.of)})"
