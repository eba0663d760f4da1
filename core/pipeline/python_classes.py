"""Whether a class that a pipeline names is in the user's file, and what it says it keeps.

The file is read, not run: so `state` is told only where it stands in the class as plain text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.core.pipeline import class_files, python_files
from headrace.core.pipeline.findings import Findings
from headrace.core.pipeline.functions import Function
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
    path = function.path(folder)
    classes = class_files.classes(path)
    if classes is None:  # the file is missing, or is not Python: that is said as for a function
        python_files.check(function, folder, key, subject, findings)
        return
    if function.name not in classes:
        found = class_files.missing(function, path, classes)
        if found.what != "":  # what a file imports or computes may be a class
            hint = found.near or found.listed
            findings.add(f"{key}: {found.message}", place, hint, subject)
        return
    shape = _shape(classes[function.name])
    missing = [name for name in methods if name not in shape.methods]
    if missing and not shape.derived:
        message = f'{key}: class "{shape.name}" has no {" and no ".join(missing)}'
        hint = f"it wants {', '.join(methods)}"
        findings.add(message, place, hint, subject)
    if shape.problem:
        message = f'{key}: the state of class "{shape.name}" {shape.problem}'
        findings.add(message, place, f"as in {LITERAL}", subject)


def is_class(function: Function, folder: Path) -> bool:
    """Whether it is a class that stands in the file."""
    return function.name in (class_files.classes(function.path(folder)) or {})


def state_of(path: Path, name: str) -> Schema | None:
    """The columns that a class says it keeps; None if it says nothing, or cannot be read."""
    found = (class_files.classes(path) or {}).get(name)
    return _shape(found).state if found else None


def _shape(node: ast.ClassDef) -> Shape:
    methods = [n.name for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    inherited = class_files.bases(node) - {"Aggregate", "Trigger", "object", "Generic"}
    derived = bool(inherited or node.decorator_list)
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
