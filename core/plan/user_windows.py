"""What a pipeline says of users' code in windows, as parts of the plan."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.pipeline.functions import Function
from headrace.core.pipeline.keyed import PythonAggregate
from headrace.core.plan.columns import Known, Report, output
from headrace.core.plan.nodes import Aggregate, Operation
from headrace.core.user_code import UserCode

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateExpression


def code_of(function: Function, folder: Path) -> UserCode:
    """What the pipeline names."""
    return UserCode(Path(os.path.abspath(folder)), function.file, function.name)


def codes_of(operation: Operation) -> tuple[UserCode, ...]:
    """The users' code that a keyed operation runs."""
    calls = operation.columns if isinstance(operation, Aggregate) else ()
    found = (getattr(call, "code", None) for each in calls for call in each.expression.calls)
    return tuple(code for code in found if code is not None)


def user_aggregate(
    written: PythonAggregate, known: Known, report: Report
) -> tuple[AggregateExpression, str] | None:
    """A class of the user's over rows, and how that was said; None if it is not known of what."""
    # Aggregates are many, and a pipeline without them need not load them.
    from headrace.core.aggregates.users import user_call
    from headrace.core.pipeline.python_classes import state_of

    typed = [output(text, known, report) for text in written.of]
    of = [(text, each) for text, each in zip(written.of, typed, strict=True) if each is not None]
    if len(of) < len(typed):
        return None
    function = written.python
    kept = state_of(function.path(report.folder), function.name)
    code = code_of(function, report.folder)
    call = user_call(code, [(text.reveal(), each) for text, each in of], written.returns, kept)
    return call, f"{code}({', '.join(text.shown for text in written.of)})"
