"""The timers of trigger classes, and the checks of these classes; their files are read, not run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.user_files import class_checks, class_definitions
from headrace.core.pipeline.user_files.process_checks import list_declarations, read_declaration
from headrace.core.pipeline.user_files.references import UserFunction
from headrace.core.process.declarations import Declared, Kind
from headrace.core.types.data_types import Schema

KEY = "window.trigger.python"
OLD_METHODS = {
    "on_rows": class_checks.OldMethod(
        "on_row",
        "is called for each row",
        "write def on_row(self, row, state, window): row is a dict of the columns, and the window "
        "fires with this row if it returns True",
    )
}
SELF_ATTRIBUTES = ("timer", "watermark", "now", "state", "merge")
"""Attributes of a trigger: a timer of that name would hide them."""


def check_trigger(
    function: UserFunction,
    folder: Path,
    subject: str,
    findings: DocumentProblems,
    *,
    uses_processing_time: bool,
    is_session: bool,
) -> None:
    """Report the errors of a trigger class; windows may be by the wall clock, and sessions."""
    methods = {"on_row": ["row", "state", "window"]}
    node = _find_class(function.resolve_path(folder), function.name)
    timers = [] if node is None else [*_list_timers(node)]
    if timers:
        methods["on_timer"] = ["at", "state", "window"]
    if node is not None and is_session and _defines(node, "merge"):
        methods["merge"] = ["states"]
    class_checks.check_class(
        function, folder, KEY, subject, findings, methods=methods, old_methods=OLD_METHODS
    )
    if node is None:
        return
    text = function.text
    place = text.locate(len(text) - len(function.name))
    problems = [*_find_timer_problems(node, uses_processing_time=uses_processing_time)]
    if is_session:
        problems += _find_merge_problems(node)
    for message, hint in problems:
        findings.add(f'{KEY}: class "{node.name}": {message}', place, hint, subject)


def read_timers(path: Path, name: str) -> tuple[tuple[str, bool], ...]:
    """Return the timers that a class declares, and whether each is by the wall clock."""
    node = _find_class(path, name)
    found = [] if node is None else [*_list_timers(node)]
    return tuple(
        (timer, read.processing)
        for timer, read in found
        if isinstance(read, Declared) and read.kind is Kind.TIMER
    )


def _find_class(path: Path, name: str) -> ast.ClassDef | None:
    return (class_definitions.read_classes(path) or {}).get(name)


def _defines(node: ast.ClassDef, method: str) -> bool:
    return any(isinstance(each, ast.FunctionDef) and each.name == method for each in node.body)


def _find_merge_problems(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield the error of a class whose state cannot be merged when sessions are joined."""
    stored = [name for name, _ in _list_timers(node)]
    stored += (class_checks.read_class_state(node) or Schema(())).names
    inherits = class_definitions.list_base_names(node) - class_definitions.BASE_CLASSES
    if stored and not inherits and not _defines(node, "merge"):
        message = "sessions need merge: when a row joins two, their states become one"
        values = ", ".join(f'"{name}": ...' for name in stored)
        yield message, f"as in def merge(self, states): return {{{values}}}"


def _list_timers(node: ast.ClassDef) -> Iterator[tuple[str, Declared | tuple[str, str]]]:
    """Yield the declarations of a class, or their errors and hints."""
    for name, call in list_declarations(node.body):
        yield name, read_declaration(name, call)


def _find_timer_problems(
    node: ast.ClassDef, *, uses_processing_time: bool
) -> Iterator[tuple[str, str]]:
    """Yield the errors in the timers of a class, each with a hint."""
    timers = [*_list_timers(node)]
    state = class_checks.read_class_state(node)
    bases = class_definitions.list_base_names(node)
    for name, read in timers:
        if not isinstance(read, Declared):
            yield f'timer "{name}": {read[0]}', read[1]
        elif read.kind is not Kind.TIMER:
            message = f'"{name}" is a {read.kind}, and not a timer'
            yield message, 'a trigger stores values: state = {"n": "bigint"}'
        elif name in SELF_ATTRIBUTES:
            yield f'a timer cannot have the name "{name}"', f"self.{name} has another meaning"
        elif state is not None and name in state:
            yield f'"{name}" is a timer and a value of state', "give one of them another name"
        elif uses_processing_time and not read.processing:
            message = f'the timer "{name}" is by event time, but the windows are by the wall clock'
            yield message, 'write timer(time="processing")'
    if timers and bases <= {"object"}:
        hint = f"write class {node.name}(Trigger), with Trigger from headrace"
        yield "only a Trigger has timers", hint
