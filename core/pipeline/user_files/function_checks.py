"""Checks of the functions that a pipeline names; the user's file is read, not run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from headrace.core.errors.old_imports import (
    OldImport,
    UnknownImport,
    find_old_imports,
    find_unknown_imports,
)
from headrace.core.errors.problems import find_nearest_file, suggest_name
from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.user_files.references import UserFunction
from headrace.core.types.lazy_dataclass import dataclass

MAX_BYTES = 2**20
ONE_ARGUMENT_WANTED = "wanted a function of one argument"
ONE_OR_TWO_ARGUMENTS_WANTED = "wanted a function of one argument, or of two: rows and their window"
FUNCTION_EXAMPLE = "as in def {}(rows): ... return ..."


@dataclass(frozen=True, slots=True)
class ModuleNames:
    """The names that a file defines at its top level: functions, and others with their kind."""

    functions: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    uncallable: tuple[tuple[str, str], ...] = ()
    """Functions that cannot be called with one argument and return a value, and why."""
    uncallable_with_two: tuple[tuple[str, str], ...] = ()
    """Functions that can be called neither with one argument nor with two, and why."""
    problem: str = ""
    old_imports: tuple[OldImport, ...] = ()
    unknown_imports: tuple[UnknownImport, ...] = ()


def check_function(
    function: UserFunction,
    folder: Path,
    key: str,
    subject: str,
    findings: DocumentProblems,
    max_arguments: int = 1,
) -> None:
    """Report the error of a reference such as `scoring.py:score`.

    The function may take up to `max_arguments` arguments, 1 or 2.
    """
    text = function.text
    file_end = len(text) - len(function.name) - 1
    file_place = text.locate(0, file_end)
    path = function.resolve_path(folder)
    try:
        names = read_names(path) if path.is_file() else None
    except (OSError, ValueError):
        names = None
    if names:
        report_old_imports(names, function, subject, findings)
    if names is None and path.exists():
        message = f'{key}: "{function.file}" is not a regular file'
        findings.add(message, file_place, "", subject)
    elif names is None:
        message = f'{key}: there is no file "{function.file}" next to the pipeline'
        findings.add(message, file_place, _suggest_file(path), subject)
    elif names.problem:
        findings.add(f'{key}: "{function.file}" {names.problem}', file_place, "", subject)
    elif problem := _find_problem(function, names, max_arguments):
        message, hint = problem
        findings.add(f"{key}: {message}", text.locate(file_end + 1), hint, subject)


def _find_problem(
    function: UserFunction, names: ModuleNames, max_arguments: int
) -> tuple[str, str] | None:
    """Return why the file has no such function, or none that can be called, and a hint."""
    if max_arguments == 1:
        expected, uncallable = ONE_ARGUMENT_WANTED, dict(names.uncallable)
    else:
        expected, uncallable = ONE_OR_TWO_ARGUMENTS_WANTED, dict(names.uncallable_with_two)
    if why := uncallable.get(function.name):
        return f"{expected}, but {why}", FUNCTION_EXAMPLE.format(function.name)
    if function.name in names.functions:
        return None
    what = dict(names.others).get(function.name)
    if what == "":
        return None
    message = f'"{function.file}" has no function "{function.name}"'
    if what:
        message = f'wanted a function, but "{function.name}" is {what}'
    hint = suggest_name(function.name, names.functions) or _list_functions(names.functions)
    return message, hint


def report_old_imports(
    names: ModuleNames, function: UserFunction, subject: str, findings: DocumentProblems
) -> None:
    """Report the file's imports of unknown names and from old paths, once for all references."""
    place = function.text.locate(0, len(function.text) - len(function.name) - 1)
    for unknown in names.unknown_imports:
        message = f'{function.file}:{unknown.line}: headrace has no "{unknown.name}"'
        if all(problem.message != message for problem in findings.problems):
            findings.add(message, place, unknown.hint, subject)
    for old in names.old_imports:
        message = f'"{function.file}", line {old.first_line}: {old.path} is an old path'
        if all(problem.message != message for problem in findings.problems):
            findings.add(message, place, f'write "{old.replacement}"', subject, "warning")


def _list_functions(functions: Iterable[str]) -> str:
    shown = ", ".join(list(functions)[:8])
    return f"it has {shown}" if shown else "it has no function at its top level"


def _suggest_file(path: Path) -> str:
    try:
        found = find_nearest_file(
            path.name, sorted(p.name for p in path.parent.glob("*.py"))[:1000]
        )
        return f'did you mean "{found}"?' if found else ""
    except (OSError, ValueError):
        return ""


def read_names(path: Path) -> ModuleNames:
    """Return the names that a file defines; it is read again only when it has changed."""
    found = path.stat()
    return _parse_names(path, found.st_mtime_ns, found.st_size)


def contains_yield(body: Iterable[ast.AST]) -> bool:
    """Whether statements contain a yield outside of nested functions."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
    pending = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        pending += () if isinstance(node, inner) else ast.iter_child_nodes(node)
    return False


@lru_cache(maxsize=64)
def _parse_names(path: Path, changed: int, size: int) -> ModuleNames:
    if size > MAX_BYTES:
        return ModuleNames(problem=f"is larger than {MAX_BYTES // 1024} KB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except SyntaxError as error:
        return ModuleNames(problem=f"is not Python: {error.msg} on line {error.lineno}")
    except (ValueError, RecursionError, MemoryError):
        return ModuleNames(problem="is not Python")
    except OSError as error:
        return ModuleNames(
            problem=f"cannot be read: {(error.strerror or 'unknown reason').lower()}"
        )
    kinds = dict(_list_names(tree.body))
    written = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    unfit = {node.name: _explain_uncallable(node, 1) for node in written}
    for_two = {node.name: _explain_uncallable(node, 2) for node in written}
    functions = tuple(name for name, what in kinds.items() if what == "function")
    return ModuleNames(
        functions,
        tuple((n, what) for n, what in kinds.items() if what != "function"),
        tuple((n, why) for n, why in unfit.items() if why and kinds[n] == "function"),
        tuple((n, why) for n, why in for_two.items() if why and kinds[n] == "function"),
        old_imports=tuple(find_old_imports(tree)),
        unknown_imports=tuple(find_unknown_imports(tree)),
    )


def _explain_uncallable(function: ast.FunctionDef, max_arguments: int) -> str:
    """Return why a call with that many arguments fails or returns no rows; "" if it may succeed.

    A decorator may change the arguments, so that a decorated function is always accepted.
    """
    if function.decorator_list:
        return ""
    arguments = function.args
    names = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args)]
    needed = names[: len(names) - len(arguments.defaults)]
    keywords = [
        arg.arg
        for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    if keywords:
        return f'"{function.name}" needs {" and ".join(keywords)} by name'
    if len(needed) > max_arguments:
        return f'"{function.name}" needs {" and ".join(needed)}'
    if not names and not arguments.vararg:
        return f'"{function.name}" takes no argument'
    return f'"{function.name}" yields instead of returning' if contains_yield(function.body) else ""


def _list_names(body: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
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
                yield from _list_bound_names(statement)


def _list_bound_names(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the names that other statements bind, including their nested statements."""
    match statement:
        case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
            for inner in ast.iter_child_nodes(statement):
                if isinstance(inner, ast.stmt):
                    yield from _list_names([inner])
                elif isinstance(inner, ast.ExceptHandler):
                    yield from _list_names(inner.body)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant()):
            yield name, "a constant"
        case ast.Assign() | ast.AnnAssign():
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id, ""
