"""Checks of the functions that a pipeline names; the user's file is read, not run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from headrace.core.pipeline.findings import Findings
from headrace.core.pipeline.functions import Function
from headrace.core.problems import did_you_mean, nearest_file

MAX_BYTES = 2**20
WANTED = "wanted a function of one argument"
WANTED_TWO = "wanted a function of one argument, or of two: rows and their window"
HINT = "as in def {}(rows): ... return ..."


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a file defines at its top level: functions, and others with their kind."""

    functions: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    unfit: tuple[tuple[str, str], ...] = ()
    """Functions that cannot be called with one argument and return a value, and why."""
    unfit_for_two: tuple[tuple[str, str], ...] = ()
    """Functions that can be called neither with one argument nor with two, and why."""
    problem: str = ""


def check(
    function: Function, folder: Path, key: str, subject: str, findings: Findings, most: int = 1
) -> None:
    """Report the error of a reference such as `scoring.py:score`.

    The function may take up to `most` arguments, 1 or 2.
    """
    text = function.text
    file_end = len(text) - len(function.name) - 1
    file_place = text.locate(0, file_end)
    path = function.path(folder)
    try:
        names = defined(path) if path.is_file() else None
    except (OSError, ValueError):
        names = None
    if names is None:
        message = f'{key}: there is no file "{function.file}" next to the pipeline'
        findings.add(message, file_place, _neighbour(path), subject)
    elif names.problem:
        findings.add(f'{key}: "{function.file}" {names.problem}', file_place, "", subject)
    elif why := dict(names.unfit if most == 1 else names.unfit_for_two).get(function.name):
        message = f"{key}: {WANTED if most == 1 else WANTED_TWO}, but {why}"
        findings.add(message, text.locate(file_end + 1), HINT.format(function.name), subject)
    elif function.name not in names.functions:
        what = dict(names.others).get(function.name)
        if what == "":
            return
        message = f'{key}: "{function.file}" has no function "{function.name}"'
        if what:
            message = f'{key}: wanted a function, but "{function.name}" is {what}'
        hint = did_you_mean(function.name, names.functions) or _listed(names.functions)
        findings.add(message, text.locate(file_end + 1), hint, subject)


def _listed(functions: Iterable[str]) -> str:
    shown = ", ".join(list(functions)[:8])
    return f"it has {shown}" if shown else "it has no function at its top level"


def _neighbour(path: Path) -> str:
    try:
        found = nearest_file(path.name, sorted(p.name for p in path.parent.glob("*.py"))[:1000])
        return f'did you mean "{found}"?' if found else ""
    except (OSError, ValueError):
        return ""


def defined(path: Path) -> Names:
    """Return the names that a file defines; it is read again only when it has changed."""
    found = path.stat()
    return _defined(path, found.st_mtime_ns, found.st_size)


def yields(body: Iterable[ast.AST]) -> bool:
    """Whether statements contain a yield outside of nested functions."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
    left = list(body)
    while left:
        node = left.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        left += () if isinstance(node, inner) else ast.iter_child_nodes(node)
    return False


@lru_cache(maxsize=64)
def _defined(path: Path, changed: int, size: int) -> Names:
    if size > MAX_BYTES:
        return Names(problem=f"is larger than {MAX_BYTES // 1024} KB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except SyntaxError as error:
        return Names(problem=f"is not Python: {error.msg} on line {error.lineno}")
    except (ValueError, RecursionError, MemoryError):
        return Names(problem="is not Python")
    except OSError as error:
        return Names(problem=f"cannot be read: {(error.strerror or 'unknown reason').lower()}")
    found = dict(_names(tree.body))
    written = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    unfit = {node.name: _unfit(node, 1) for node in written}
    for_two = {node.name: _unfit(node, 2) for node in written}
    functions = tuple(name for name, what in found.items() if what == "function")
    return Names(
        functions,
        tuple((n, what) for n, what in found.items() if what != "function"),
        tuple((n, why) for n, why in unfit.items() if why and found[n] == "function"),
        tuple((n, why) for n, why in for_two.items() if why and found[n] == "function"),
    )


def _unfit(function: ast.FunctionDef, most: int) -> str:
    """Return why a call with `most` arguments fails or returns no rows; "" if it may succeed.

    A decorator may change the arguments, so that a decorated function is always accepted.
    """
    if function.decorator_list:
        return ""
    taken = function.args
    names = [arg.arg for arg in (*taken.posonlyargs, *taken.args)]
    needed = names[: len(names) - len(taken.defaults)]
    keywords = [
        arg.arg
        for arg, default in zip(taken.kwonlyargs, taken.kw_defaults, strict=True)
        if default is None
    ]
    if keywords:
        return f'"{function.name}" needs {" and ".join(keywords)} by name'
    if len(needed) > most:
        return f'"{function.name}" needs {" and ".join(needed)}'
    if not names and not taken.vararg:
        return f'"{function.name}" takes no argument'
    return f'"{function.name}" yields instead of returning' if yields(function.body) else ""


def _names(body: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield names with their kind; "" for a name that may be a function."""
    for statement in body:
        match statement:
            case ast.FunctionDef():
                yield statement.name, "function"
            case ast.AsyncFunctionDef():
                yield statement.name, "an async function"
            case ast.ClassDef():
                yield statement.name, "a class"
            case ast.Import() | ast.ImportFrom():
                for alias in statement.names:
                    yield alias.asname or alias.name, ""
            case _:
                yield from _bound(statement)


def _bound(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the names that other statements bind, including their nested statements."""
    match statement:
        case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
            for inner in ast.iter_child_nodes(statement):
                if isinstance(inner, ast.stmt):
                    yield from _names([inner])
                elif isinstance(inner, ast.ExceptHandler):
                    yield from _names(inner.body)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant()):
            yield name, "a constant"
        case ast.Assign() | ast.AnnAssign():
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id, ""
