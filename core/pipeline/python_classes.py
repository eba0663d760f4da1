"""Whether a class that a pipeline names is in the user's file, and what it says it keeps.

The file is read, not run: so `state` is told only where it stands in the class as plain text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.core.pipeline import class_files, python_files
from headrace.core.pipeline.findings import Findings
from headrace.core.pipeline.functions import Function
from headrace.core.type_parser import TypeTextError, parse_type
from headrace.core.types import Field, Schema

CALLABLE = "name a function, as in def name(rows): ..., or give the class a __call__"
LITERAL = 'state = {"n": "bigint"}'


@dataclass(frozen=True, slots=True)
class Shape:
    """A class as it stands in a file."""

    name: str
    methods: Mapping[str, int] = field(default_factory=dict)
    """How many arguments each takes beside self; -1 where nobody can tell, or it may take more."""
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
    methods: Mapping[str, Sequence[str]],
) -> None:
    """Note what is wrong with a reference to a class that is to have these methods.

    Each is there with the arguments that it is handed; without any, nothing is said of them.
    """
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
    for message, hint in _method_problems(shape, methods):
        findings.add(f"{key}: {message}", place, hint, subject)
    if shape.problem:
        message = f'{key}: the state of class "{shape.name}" {shape.problem}'
        findings.add(message, place, f"as in {LITERAL}", subject)


def _method_problems(
    shape: Shape, methods: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """What it has not, or takes in another way, and what to write."""
    about = f'class "{shape.name}"'
    missing = [name for name in methods if name not in shape.methods]
    if missing and not shape.derived:
        wants = f"it wants {', '.join(methods)}"
        hint = CALLABLE if "__call__" in missing else wants
        yield f"{about} has no {' and no '.join(missing)}", hint
    for name, handed in methods.items():
        needed = shape.methods.get(name, -1)
        if handed and needed not in (-1, len(handed)):
            taken = f"takes {needed} argument{'' if needed == 1 else 's'} beside self"
            as_in = f"as in def {name}(self, {', '.join(handed)}): ..."
            yield f"{about}: {name} {taken}, and is handed {len(handed)}", as_in


def is_class(function: Function, folder: Path) -> bool:
    """Whether it is a class that stands in the file."""
    return function.name in (class_files.classes(function.path(folder)) or {})


def state_of(path: Path, name: str) -> Schema | None:
    """The columns that a class says it keeps; None if it says nothing, or cannot be read."""
    found = (class_files.classes(path) or {}).get(name)
    return _shape(found).state if found else None


def _shape(node: ast.ClassDef) -> Shape:
    methods = {
        each.name: -1 if each.args.defaults or each.args.kwonlyargs else class_files.arguments(each)
        for each in node.body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    derived = bool(class_files.bases(node) - class_files.OURS or node.decorator_list)
    values = [*_assigned(node.body)]
    if not values:
        return Shape(node.name, methods, derived)
    state, problem = _schema(values[-1])
    return Shape(node.name, methods, derived, state, problem)


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
