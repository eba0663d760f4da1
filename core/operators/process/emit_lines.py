"""The lines of a user's class that emit rows to an output, found in its source text.

Values are checked when a chunk of rows is done, so a call costs little; which call emitted a wrong
value is then known only from the text. Tests: tests/core/testing/test_trial_errors.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def find_emit_lines(path: Path, class_name: str, output: str) -> list[int]:
    """Return the lines of the calls `out(...)`, or `out.name(...)` for a named output.

    All functions of the file are searched if the class itself has no such call.
    """
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, SyntaxError, ValueError):
        return []
    name = class_name.rpartition(".")[2]
    classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == name]
    for place in (*classes, tree):
        if found := sorted({*_list_call_lines(place, output)}):
            return found
    return []


def _list_call_lines(place: ast.AST, output: str) -> Iterator[int]:
    """Yield the lines of calls, in every function, of its last parameter or of `out`."""
    for function in ast.walk(place):
        if not isinstance(function, ast.FunctionDef):
            continue
        parameters = [each.arg for each in function.args.args]
        names = {"out", *(parameters[-1:] if function.name.startswith("on_") else ())}
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _is_emit(node.func, names, output):
                yield node.lineno


def _is_emit(called: ast.expr, names: set[str], output: str) -> bool:
    match called:
        case ast.Name(id=name):
            return not output and name in names
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return attribute == output and name in names
    return False
