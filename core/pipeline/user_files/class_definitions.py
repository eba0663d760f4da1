"""The classes of a user's file, and the message for a missing one; the file is read, not run.

The members that each kind of class must have are checked in `class_checks` and `process_checks`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from headrace.core.errors.problems import suggest_name
from headrace.core.pipeline.user_files import function_checks
from headrace.core.pipeline.user_files.references import UserFunction
from headrace.core.types.lazy_dataclass import dataclass

BASE_CLASSES = frozenset({"Process", "Row", "Aggregate", "Trigger", "Generic", "object"})
"""Classes that user classes derive from, and that define no methods to be called."""


@dataclass(frozen=True, slots=True)
class MissingClass:
    """A class that a pipeline names and its file does not define."""

    message: str
    found_kind: str | None
    """The kind of thing that has the name instead; "": something that may be a class."""
    suggestion: str
    """A hint that names the class that may be meant; "" if no name is similar."""
    class_list: str
    """A hint that lists the classes of the file."""


def read_classes(path: Path) -> Mapping[str, ast.ClassDef] | None:
    """Return the classes of a file, None if it cannot be read. A changed file is read again."""
    try:
        if function_checks.read_names(path).problem:
            return None
        found = path.stat()
    except (OSError, ValueError):
        return None
    return _parse_classes(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=64)
def _parse_classes(path: Path, changed: int, size: int) -> Mapping[str, ast.ClassDef]:
    tree = ast.parse(path.read_bytes())
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def describe_missing(function: UserFunction, path: Path, there: Iterable[str]) -> MissingClass:
    """Describe a class that the file does not define; `there` are the classes it does define."""
    names, there = function_checks.read_names(path), list(there)
    what = dict(names.others).get(function.name)
    if function.name in names.functions:
        what = "a function"
    message = f'"{function.file}" has no class "{function.name}"'
    if what:
        message = f'wanted a class, but "{function.name}" is {what}'
    listed = f"it has {', '.join(there[:8])}" if there else "it has no class at its top level"
    return MissingClass(message, what, suggest_name(function.name, there), listed)


def list_base_names(node: ast.ClassDef) -> set[str]:
    """Return the base classes of a class: the last parts of their names, without type arguments."""
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}


def count_arguments(method: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of arguments that a method needs besides self; -1 if it is unknown."""
    arguments = method.args
    if arguments.vararg or method.decorator_list:
        return -1
    return len(arguments.posonlyargs) + len(arguments.args) - 1 - len(arguments.defaults)
