"""Checks of the user code that the windows and aggregates of a step refer to."""

from __future__ import annotations

from pathlib import Path

from headrace.core.pipeline.findings import DocumentProblems
from headrace.core.pipeline.functions import UserFunction
from headrace.core.pipeline.keyed import UserAssignment
from headrace.core.pipeline.model import StepKeys


def check_user_code(step: StepKeys, folder: Path, subject: str, findings: DocumentProblems) -> None:
    """Report functions and classes that are missing or are of the wrong kind."""
    users = [each for each in step.aggregate or () if isinstance(each, UserAssignment)]
    functions: list[tuple[str, UserFunction]] = []
    if step.apply is not None:
        functions.append(("apply.python", step.apply.python))
    evict = step.window.evict if step.window else None
    if evict is not None and evict.python is not None:
        functions.append(("window.evict.python", evict.python))
    trigger = step.window.trigger if step.window else None
    watching = trigger.python if trigger else None
    if not users and not functions and watching is None:
        return
    from headrace.core.pipeline import python_classes, python_files

    for each in users:
        at = f"aggregate.{each.name}.python"
        where = (folder, at, subject, findings)
        of = [text if text.isidentifier() else f"of_{n}" for n, text in enumerate(each.python.of)]
        methods = {"partial": of, "merge": ["partials"], "finish": ["partial"]}
        python_classes.check_class(each.python.python, *where, methods=methods)
    if watching is not None:
        where = (folder, "window.trigger.python", subject, findings)
        python_classes.check_class(
            watching, *where, methods={"on_rows": ["rows", "state", "window"]}
        )
    for at, function in functions:
        where = (folder, at, subject, findings)
        if python_classes.is_class(function, folder):
            python_classes.check_class(function, *where, methods={"__call__": ()})
        else:
            python_files.check_function(function, *where, most=2)
