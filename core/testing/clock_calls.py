"""Calls of the real clock in the classes of a pipeline, which a test in virtual time does not move.

Tests: tests/cli/pipeline_tests/test_clock_calls.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from headrace.core.errors.problems import Location, Problem
from headrace.core.pipeline.user_files.class_definitions import read_classes
from headrace.core.pipeline.yaml_document.source_file import format_path
from headrace.core.plan import nodes

CLOCKS = {
    "time": ("time", "time_ns"),
    "datetime": ("now", "utcnow", "today"),
    "date": ("today",),
}
"""The functions that return the real time, by the module or class that has them."""


def find_clock_calls(plan: nodes.Plan, folder: Path) -> Iterator[Problem]:
    """Yield a warning for each call of the real clock in a class with state and timers."""
    bodies = (
        body
        for part in plan
        if isinstance(part, nodes.Step)
        for operation in part.operations
        if (body := nodes.find_process_body(operation)) is not None
    )
    for file, name in dict.fromkeys((body.file, body.name) for body in bodies):
        definition = (read_classes(folder / file) or {}).get(name)
        for node in ast.walk(definition) if definition is not None else ():
            if isinstance(node, ast.Call) and _is_clock(node.func):
                place = _locate(folder / file, node)
                message = f"{ast.unparse(node.func)}() is the real time, and not that of a test"
                hint = "use self.now, which is the time of the test"
                yield Problem(message, place, hint, f'class "{name}"', "warning")


def _is_clock(function: ast.expr) -> bool:
    if not isinstance(function, ast.Attribute):
        return False
    owner = function.value
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return function.attr in CLOCKS.get(name, ())


def _locate(path: Path, node: ast.Call) -> Location:
    line = path.read_text("utf-8").splitlines()[node.lineno - 1]
    column = len(line.encode()[: node.col_offset].decode())
    return Location(format_path(path), node.lineno, column + 1, len(ast.unparse(node)), line)
