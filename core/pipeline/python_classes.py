"""Whether a class that a pipeline names is in the user's file, and what it says it keeps.

The file is read, not run: so `state` is told only where it stands in the class as plain text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from headrace.core.pipeline import python_files
from headrace.core.pipeline.findings import Findings
from headrace.core.pipeline.functions import Function
from headrace.core.problems import did_you_mean
from headrace.core.type_parser import TypeTextError, parse_type
from headrace.core.types import Field, Schema

LITERAL = 'state = {"n": "bigint"}'


@dataclass(frozen=True, slots=True)
class Shape:
    """A class as it stands in a file."""

    name: str
    methods: tuple[str, ...] = ()
    derived: bool = False
    """Whether methods may come from somewhere else than headrace."""
    state: Schema | None = None
    """The columns of `state`; None: it says none."""
    problem: str = ""
    """What is wrong with its state."""


def check(
    function: Function,
    folder: Path,
    key: str,
    subject: str,
    findings: Findings,
    *,
    methods: Iterable[str],
) -> None:
    """Note what is wrong with a reference to a class that is to have these methods."""
    text = function.text
    place = text.locate(len(text) - len(function.name))
    shapes = _shapes(function.path(folder))
    if shapes is None:  # the file is missing, or is not Python: that is said as for a function
        python_files.check(function, folder, key, subject, findings)
        return
    shape = shapes.get(function.name)
    if shape is None:
        _not_there(function, folder, key, subject, findings, list(shapes))
        return
    missing = [name for name in methods if name not in shape.methods]
    if missing and not shape.derived:
        message = f'{key}: class "{shape.name}" has no {" and no ".join(missing)}'
        hint = f"it wants {', '.join(methods)}"
        findings.add(message, place, hint, subject)
    if shape.problem:
        message = f'{key}: the state of class "{shape.name}" {shape.problem}'
        findings.add(message, place, f"as in {LITERAL}", subject)


def _not_there(
    function: Function,
    folder: Path,
    key: str,
    subject: str,
    findings: Findings,
    classes: list[str],
) -> None:
    """It is no class; what a file imports or computes may be one."""
    names = python_files.defined(function.path(folder))
    others = dict(names.others)
    if others.get(function.name) == "":
        return
    what = "a function" if function.name in names.functions else others.get(function.name)
    message = f'{key}: "{function.file}" has no class "{function.name}"'
    if what:
        message = f'{key}: wanted a class, but "{function.name}" is {what}'
    shown = ", ".join(classes[:8])
    listed = f"it has {shown}" if shown else "it has no class at its top level"
    hint = did_you_mean(function.name, classes) or listed
    place = function.text.locate(len(function.text) - len(function.name))
    findings.add(message, place, hint, subject)


def is_class(function: Function, folder: Path) -> bool:
    """Whether it is a class that stands in the file."""
    return function.name in (_shapes(function.path(folder)) or {})


def state_of(path: Path, name: str) -> Schema | None:
    """The columns that a class says it keeps; None if it says nothing, or cannot be read."""
    shape = (_shapes(path) or {}).get(name)
    return shape.state if shape else None


def _shapes(path: Path) -> Mapping[str, Shape] | None:
    """The classes of a file; None if it cannot be read."""
    try:
        if python_files.defined(path).problem:
            return None
        found = path.stat()
    except (OSError, ValueError):
        return None
    return _read(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=64)
def _read(path: Path, changed: int, size: int) -> Mapping[str, Shape]:
    tree = ast.parse(path.read_bytes())
    return {node.name: _shape(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _shape(node: ast.ClassDef) -> Shape:
    methods = [n.name for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
    derived = bool(bases - {"Aggregate", "Trigger", "object", "Generic"} or node.decorator_list)
    values = [*_assigned(node.body)]
    if not values:
        return Shape(node.name, tuple(methods), derived)
    state, problem = _schema(values[-1])
    return Shape(node.name, tuple(methods), derived, state, problem)


def _assigned(body: Iterable[ast.stmt]) -> Iterator[ast.expr]:
    """What is assigned to `state`."""
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="state")], value=value):
                yield value
            case ast.AnnAssign(target=ast.Name(id="state"), value=ast.expr() as value):
                yield value


def _schema(value: ast.expr) -> tuple[Schema | None, str]:
    """The columns, or what is wrong with them."""
    try:
        said = ast.literal_eval(value)
    except ValueError:
        return None, "is computed, and has to stand there as plain text"
    if not isinstance(said, dict) or not all(
        isinstance(name, str) and isinstance(type, str) for name, type in said.items()
    ):
        return None, "is not a dict of names and types"
    fields = []
    for name, type in said.items():
        if not name.isidentifier() or name.startswith("_"):
            return None, f'has a column "{name}", and wants a plain name'
        try:
            fields.append(Field(name, *parse_type(type)))
        except TypeTextError as error:
            return None, f'has "{name}": {error.message}'
    return (Schema(tuple(fields)), "") if fields else (None, "")
