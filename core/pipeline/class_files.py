"""The classes of a user's file, and what is said where one is missing; the file is read, not run.

What each kind of class must have is said by who asks: `python_classes` and `process_classes`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from headrace.core.pipeline import python_files
from headrace.core.pipeline.functions import Function
from headrace.core.problems import did_you_mean

OURS = frozenset({"Process", "Row", "Aggregate", "Trigger", "Generic", "object"})
"""Classes that users derive theirs from, and that have no methods of their own to be called."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A class that a pipeline names, and that does not stand in its file."""

    message: str
    what: str | None
    """What else has its name; "": something that may well be a class."""
    near: str
    """Which class may be meant, as a hint; "" if none is called much like it."""
    listed: str
    """Which classes there are, as a hint."""


def classes(path: Path) -> Mapping[str, ast.ClassDef] | None:
    """The classes of a file; None if it cannot be read. It is read again when it has changed."""
    try:
        if python_files.defined(path).problem:
            return None
        found = path.stat()
    except (OSError, ValueError):
        return None
    return _read(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=64)
def _read(path: Path, changed: int, size: int) -> Mapping[str, ast.ClassDef]:
    tree = ast.parse(path.read_bytes())
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def missing(function: Function, path: Path, there: Iterable[str]) -> Missing:
    """What is said of a class that is not among those that are there."""
    names, there = python_files.defined(path), list(there)
    what = dict(names.others).get(function.name)
    if function.name in names.functions:
        what = "a function"
    message = f'"{function.file}" has no class "{function.name}"'
    if what:
        message = f'wanted a class, but "{function.name}" is {what}'
    listed = f"it has {', '.join(there[:8])}" if there else "it has no class at its top level"
    return Missing(message, what, did_you_mean(function.name, there), listed)


def bases(node: ast.ClassDef) -> set[str]:
    """What a class derives from: the last names, without what stands in brackets."""
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}


def arguments(method: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many arguments it needs beside self; -1 where nobody can tell."""
    taken = method.args
    if taken.vararg or method.decorator_list:
        return -1
    return len(taken.posonlyargs) + len(taken.args) - 1 - len(taken.defaults)
