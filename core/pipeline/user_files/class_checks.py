"""Checks of the classes that a pipeline names, and the state that these classes declare.

The file is read, not run, so that `state` is found only if the class defines it as a literal.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import MappingProxyType

from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.user_files import class_definitions, function_checks
from headrace.core.pipeline.user_files.references import UserFunction
from headrace.core.types.data_types import Field, Schema
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.type_parser import TypeTextError, parse_type

CALLABLE_HINT = "name a function, as in def name(rows): ..., or give the class a __call__"
STATE_EXAMPLE = 'state = {"n": "bigint"}'


@dataclass(frozen=True, slots=True)
class UserClassShape:
    """A class as its file defines it."""

    name: str
    methods: Mapping[str, int] = field(default_factory=dict)
    """The number of arguments of each method besides self; -1 if it is unknown or may vary."""
    has_unknown_bases: bool = False
    """Whether it may inherit methods from outside headrace."""
    state: Schema | None = None
    """The columns of `state`; None if it declares none."""
    problem: str = ""
    """The error in its state."""


@dataclass(frozen=True, slots=True)
class OldMethod:
    """The method that took the place of one with a former name."""

    new_name: str
    difference: str
    """The difference in how it is called."""
    hint: str

    def describe(self, class_name: str, old_name: str) -> tuple[str, str]:
        """Return the message about a class that has only the former method, and a hint."""
        message = f'class "{class_name}" has {old_name}, which was renamed to {self.new_name}'
        return f"{message} and {self.difference}", self.hint


NO_OLD_METHODS: Mapping[str, OldMethod] = MappingProxyType({})


def check_class(
    function: UserFunction,
    folder: Path,
    key: str,
    subject: str,
    findings: DocumentProblems,
    *,
    methods: Mapping[str, Sequence[str]],
    old_methods: Mapping[str, OldMethod] = NO_OLD_METHODS,
) -> None:
    """Report the errors of a reference to a class that must have these methods.

    Each method has the arguments that it is called with; an empty list skips the check of its
    arguments. `old_methods` are former names of methods, with what took their place.
    """
    text = function.text
    place = text.locate(len(text) - len(function.name))
    path = function.resolve_path(folder)
    classes = class_definitions.read_classes(path)
    if classes is None:  # the file is missing or is not Python: reported as for a function
        function_checks.check_function(function, folder, key, subject, findings)
        return
    function_checks.report_old_imports(
        function_checks.read_names(path), function, subject, findings
    )
    if function.name not in classes:
        found = class_definitions.describe_missing(function, path, classes)
        if found.found_kind != "":  # a name that the file imports or computes may be a class
            hint = found.suggestion or found.class_list
            findings.add(f"{key}: {found.message}", place, hint, subject)
        return
    shape = _read_shape(classes[function.name])
    outdated = [*_find_old_methods(shape, old_methods)]
    for message, hint in outdated or _find_method_problems(shape, methods):
        findings.add(f"{key}: {message}", place, hint, subject)
    if shape.problem:
        message = f'{key}: the state of class "{shape.name}" {shape.problem}'
        findings.add(message, place, f"as in {STATE_EXAMPLE}", subject)


def _find_old_methods(
    shape: UserClassShape, old_methods: Mapping[str, OldMethod]
) -> Iterator[tuple[str, str]]:
    """Yield the former methods of a class that lacks the new ones, each with a hint."""
    for name, old in old_methods.items():
        is_missing = old.new_name not in shape.methods and not shape.has_unknown_bases
        if name in shape.methods and is_missing:
            yield old.describe(shape.name, name)


def _find_method_problems(
    shape: UserClassShape, methods: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """Yield missing methods and methods with other arguments, each with a hint."""
    about = f'class "{shape.name}"'
    missing = [name for name in methods if name not in shape.methods]
    if missing and not shape.has_unknown_bases:
        wants = f"it needs {', '.join(methods)}"
        hint = CALLABLE_HINT if "__call__" in missing else wants
        yield f"{about} has no {' and no '.join(missing)}", hint
    for name, passed in methods.items():
        needed = shape.methods.get(name, -1)
        if passed and needed not in (-1, len(passed)):
            arity = f"takes {needed} argument{'' if needed == 1 else 's'} besides self"
            as_in = f"as in def {name}(self, {', '.join(passed)}): ..."
            yield f"{about}: {name} {arity}, but is called with {len(passed)}", as_in


def defines_method(function: UserFunction, folder: Path, method: str) -> bool:
    """Whether a class itself defines a method."""
    classes = class_definitions.read_classes(function.resolve_path(folder)) or {}
    return function.name in classes and method in _read_shape(classes[function.name]).methods


def is_class(function: UserFunction, folder: Path) -> bool:
    """Whether the file defines a class of that name."""
    return function.name in (class_definitions.read_classes(function.resolve_path(folder)) or {})


def read_state_schema(path: Path, name: str) -> Schema | None:
    """Return the columns of a class's state; None if it declares none, or cannot be read."""
    found = (class_definitions.read_classes(path) or {}).get(name)
    return read_class_state(found) if found else None


def read_class_state(node: ast.ClassDef) -> Schema | None:
    """Return the columns of a class's state; None if it declares none, or they are invalid."""
    return _read_shape(node).state


def _read_shape(node: ast.ClassDef) -> UserClassShape:
    methods = {
        each.name: -1
        if each.args.defaults or each.args.kwonlyargs
        else class_definitions.count_arguments(each)
        for each in node.body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    derived = bool(
        class_definitions.list_base_names(node) - class_definitions.BASE_CLASSES
        or node.decorator_list
    )
    values = [*_list_state_assignments(node.body)]
    if not values:
        return UserClassShape(node.name, methods, derived)
    state, problem = _parse_state(values[-1])
    return UserClassShape(node.name, methods, derived, state, problem)


def _list_state_assignments(body: Iterable[ast.stmt]) -> Iterator[ast.expr]:
    """Yield the expressions assigned to `state`."""
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="state")], value=value):
                yield value
            case ast.AnnAssign(target=ast.Name(id="state"), value=ast.expr() as value):
                yield value


def _parse_state(value: ast.expr) -> tuple[Schema | None, str]:
    """Return the columns, or None and the error in them."""
    try:
        literal = ast.literal_eval(value)
    except ValueError:
        return None, "is computed, but must be a literal"
    if not isinstance(literal, dict) or not all(
        isinstance(name, str) and isinstance(type, str) for name, type in literal.items()
    ):
        return None, "is not a dict of names and types"
    fields = []
    for name, type in literal.items():
        if not name.isidentifier() or name.startswith("_"):
            return None, f'has a column "{name}", which is not a plain name'
        try:
            fields.append(Field(name, *parse_type(type)))
        except TypeTextError as error:
            return None, f'has "{name}": {error.message}'
    return (Schema(tuple(fields)), "") if fields else (None, "")
