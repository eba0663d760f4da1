"""Checks of the user code that the windows and aggregates of a step refer to."""

from __future__ import annotations

from pathlib import Path

from headrace.core.pipeline.clauses.keyed import UserAssignment
from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.model import StepKeys
from headrace.core.pipeline.user_files.references import UserFunction


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
    from headrace.core.pipeline.user_files import class_checks, function_checks, trigger_checks

    for each in users:
        at = f"aggregate.{each.name}.python"
        where = (folder, at, subject, findings)
        of = [text if text.isidentifier() else f"of_{n}" for n, text in enumerate(each.python.of)]
        methods = {"partial": of, "merge": ["partials"], "finish": ["partial"]}
        if class_checks.defines_method(each.python.python, folder, "retract"):
            methods["retract"] = ["partial", "removed"]
        class_checks.check_class(each.python.python, *where, methods=methods)
    if watching is not None:
        assert step.window is not None
        trigger_checks.check_trigger(
            watching,
            folder,
            subject,
            findings,
            uses_processing_time=step.window.time == "processing",
            is_session=step.window.session is not None,
        )
    for at, function in functions:
        where = (folder, at, subject, findings)
        if class_checks.is_class(function, folder):
            class_checks.check_class(function, *where, methods={"__call__": ()})
        else:
            function_checks.check_function(function, *where, max_arguments=2)
