"""Former import paths of the names that user code now imports from `headrace`.

The old modules still provide these names and warn once per process, as Python does for deprecated
code: pytest shows the warning, a production run does not. The pipeline's readers find old imports
in the text of user files, so that `headrace validate` and `headrace run` report them as well.
"""

from __future__ import annotations

import ast
import importlib
import linecache
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

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
            case ast.ImportFrom(module=str(path), names=names) if path in OLD_PATHS:
                written = ast.unparse(ast.ImportFrom("headrace", names, 0))
                yield OldImport(path, node.lineno, node.end_lineno or node.lineno, written)
            case ast.Import(names=names):
                for path in sorted({alias.name for alias in names} & {*OLD_PATHS}):
                    yield OldImport(
                        path, node.lineno, node.end_lineno or node.lineno, "import headrace"
                    )


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
