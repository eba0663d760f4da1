"""Former import paths of the names that user code now imports from `headrace`.

The old modules still provide these names and warn once per process, as Python does for deprecated
code: pytest shows the warning, a production run does not. The pipeline's readers find old imports
in the text of user files, so that `headrace validate` and `headrace run` report them as well.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import linecache
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

from headrace.core.errors.problems import suggest_name

OLD_PATHS = ("headrace.core.process", "headrace.core.testing", "headrace.core.windows")

_WARNED = set[str]()
"""The old paths that this process has warned of."""


@dataclass(frozen=True, slots=True)
class OldImport:
    """A statement that imports from an old path, with its first and last line."""

    path: str
    first_line: int
    last_line: int
    replacement: str
    """The statement to write instead."""


def find_old_imports(tree: ast.AST) -> Iterator[OldImport]:
    """Yield the statements in a module's syntax tree that import from old paths.

    >>> [old] = find_old_imports(ast.parse("from headrace.core.process import Out, Row as R"))
    >>> old.replacement
    'from headrace import Out, Row as R'
    """
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(path), names=names, level=0) if path in OLD_PATHS:
                if any(alias.name not in ("*", *_list_public()) for alias in names):
                    continue
                paths, replacement = {path}, ast.unparse(ast.ImportFrom("headrace", names, 0))
            case ast.ImportFrom(module="headrace.core", names=names, level=0):
                paths, replacement = _replace_modules(names)
            case ast.Import(names=names):
                paths = {alias.name for alias in names} & {*OLD_PATHS}
                replacement = ast.unparse(ast.Import(_replace_paths(names)))
            case _:
                continue
        for path in sorted(paths):
            yield OldImport(path, node.lineno, node.end_lineno or node.lineno, replacement)


def _replace_modules(names: list[ast.alias]) -> tuple[set[str], str]:
    """Return the old paths in `from headrace.core import ...`, and the statements to write."""
    old = [alias for alias in names if f"headrace.core.{alias.name}" in OLD_PATHS]
    others = [alias for alias in names if alias not in old]
    modules = [ast.alias("headrace", alias.asname or alias.name) for alias in old]
    statements: list[ast.stmt] = [ast.ImportFrom("headrace.core", others, 0)] if others else []
    statements += [ast.Import(modules)]
    text = "; ".join(map(ast.unparse, statements))
    return {f"headrace.core.{alias.name}" for alias in old}, text


def _replace_paths(names: list[ast.alias]) -> list[ast.alias]:
    """Return the names of `import ...`, with `headrace` for old paths; each once."""
    modules = {
        ("headrace" if alias.name in OLD_PATHS else alias.name, alias.asname): None
        for alias in names
    }
    return [ast.alias(name, asname) for name, asname in modules]


@dataclass(frozen=True, slots=True)
class UnknownImport:
    """A name that a user file imports from `headrace`, which has no such name."""

    name: str
    line: int

    @property
    def hint(self) -> str:
        """The most similar public name, or all of them."""
        return suggest_name(self.name, _list_public()) or f"it has {', '.join(_list_public())}"


def find_unknown_imports(tree: ast.Module) -> Iterator[UnknownImport]:
    """Yield the unknown names that a module imports from `headrace` or an old path.

    Only statements at the top level are read: others may never run, or handle the error.

    >>> [unknown] = find_unknown_imports(ast.parse("from headrace import Proces"))
    >>> unknown.hint
    'did you mean "Process"?'
    """
    for node in tree.body:
        match node:
            case ast.ImportFrom(module=str(path), names=names, level=0) if path in (
                "headrace",
                *OLD_PATHS,
            ):
                for alias in names:
                    if _is_unknown(path, alias.name):
                        yield UnknownImport(alias.name, node.lineno)


def _is_unknown(path: str, name: str) -> bool:
    """Whether `from path import name` finds neither a public name nor a module."""
    if name == "*" or name in _list_public() or hasattr(importlib.import_module("headrace"), name):
        return False
    try:
        return importlib.util.find_spec(f"{path}.{name}") is None
    except ModuleNotFoundError:  # `path` is no package
        return True


def _list_public() -> list[str]:
    names: list[str] = importlib.import_module("headrace").__all__
    return names


def import_moved_name(path: str, name: str) -> object:
    """Return a name of `headrace` for the `__getattr__` of the old module `path`.

    The first name from each old path warns, at the line of the caller's caller. Raises
    AttributeError if the old module never had the name.
    """
    if name not in sys.modules[path].__all__:
        raise AttributeError(f"module {path!r} has no attribute {name!r}")
    if path not in _WARNED:
        _WARNED.add(path)
        _warn_user(_find_importing_frame(), path, name)
    return getattr(importlib.import_module("headrace"), name)


def _find_importing_frame() -> FrameType:
    """Return the frame of user code that accesses a name of an old module."""
    frame = sys._getframe(3)  # past this function, import_moved_name and __getattr__
    while frame.f_back and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame


def _warn_user(frame: FrameType, path: str, name: str) -> None:
    file, line = frame.f_code.co_filename, frame.f_lineno
    try:
        found = [*find_old_imports(ast.parse("".join(linecache.getlines(file))))]
    except (SyntaxError, ValueError):  # the file has changed since it was loaded
        found = []
    here = (o for o in found if o.path == path and o.first_line <= line <= o.last_line)
    replacement = next((old.replacement for old in here), f"from headrace import {name}")
    message = f'{path} is an old path: write "{replacement}"'
    module = frame.f_globals.get("__name__")
    warnings.warn_explicit(message, DeprecationWarning, file, line, module)
