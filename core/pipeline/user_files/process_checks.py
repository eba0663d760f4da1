"""The declarations of a class for `process`, and their checks; its file is read, not run.

States are found only if they are declared in the body of the class with literals, as in
`seen = map_of("string", "bigint", ttl="1h")`; the class that runs is compared with these.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from headrace.core.errors.problems import suggest_name
from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.user_files import class_definitions, function_checks
from headrace.core.pipeline.user_files.references import UserFunction
from headrace.core.process.declarations import Declared, Kind, make_shared
from headrace.core.process.descriptors import State, list_of, map_of, shared, timer, value
from headrace.core.types.lazy_dataclass import dataclass

SHARED_FUNCTION = shared.__name__
STATE_KINDS = {"value": value, "list_of": list_of, "map_of": map_of, "timer": timer}
RESERVED_NAMES = ("held", "held_right", "due", "waits")
"""The names of the states in which rows and timers wait."""
SELF_ATTRIBUTES = ("key", "event_time", "event_times", "watermark", "now", "timer")
"""Attributes of `self`: a state of that name would hide them."""
LITERAL_HINT = 'write it with literals, as in value("bigint", ttl="1h")'
PYTHON_KEY = "process.python"
EMIT_HINT = "rows are emitted with out(...)"
YIELD_HINTS = {"on_rule": "on_rule emits no rows: on_row applies the rules"}
"""The hints of methods for which OUT does not apply."""


@dataclass(frozen=True, slots=True)
class ProcessClassShape:
    """A class as its file defines it."""

    name: str
    methods: Mapping[str, int]
    """The number of arguments of each method besides `self`; -1 for any number."""
    states: tuple[tuple[str, Declared], ...]
    problems: tuple[tuple[str, str], ...]
    """Errors in its states, each with a hint."""
    has_unknown_bases: bool
    """Whether it may inherit methods that its file does not define."""


def check_process_class(
    function: UserFunction,
    folder: Path,
    subject: str,
    findings: DocumentProblems,
    methods: Sequence[Sequence[str]],
    *,
    careful: bool,
) -> Mapping[str, Declared]:
    """Report the errors of a class, and return its states.

    The class must have one method of each group in `methods`. `careful`: rows on which it fails are
    skipped or diverted.
    """
    path, text = function.resolve_path(folder), function.text
    place = text.locate(len(text) - len(function.name))
    classes = class_definitions.read_classes(path)
    if classes is None:  # the file is missing or is not Python: reported as for a function
        function_checks.check_function(function, folder, PYTHON_KEY, subject, findings)
        return {}
    function_checks.report_old_imports(
        function_checks.read_names(path), function, subject, findings
    )
    if function.name not in classes:
        missing = class_definitions.describe_missing(function, path, classes)
        findings.add(f"{PYTHON_KEY}: {missing.message}", place, _suggest_class(missing), subject)
        return {}
    shape = _read_shape(classes[function.name], classes)
    ruled = any("on_rule" in names for names in methods)
    found = (*_find_method_problems(shape, methods), *_find_shared_problems(shape, ruled=ruled))
    for message, hint in (*shape.problems, *found):
        findings.add(f"{PYTHON_KEY}: {message}", place, hint, subject)
    if careful and "on_rows" in shape.methods:
        message = (
            f'{PYTHON_KEY}: class "{shape.name}" has on_rows, which fails with all of its rows'
        )
        findings.add(message, place, "on_error: skip and to are for on_row", subject)
    return dict(shape.states)


def _suggest_class(missing: class_definitions.MissingClass) -> str:
    if missing.found_kind == "":
        return "the file that the pipeline names must define the class itself"
    return missing.class_list if missing.found_kind else missing.suggestion or missing.class_list


METHOD_ARGUMENTS = {
    "on_timer": ("at", "state", "out"),
    "on_rows": ("rows", "state", "out"),
    "on_rule": ("rule", "state"),
}


def _format_example(method: str) -> str:
    arguments = METHOD_ARGUMENTS.get(method, ("row", "state", "out"))
    return f"as in def {method}(self, {', '.join(arguments)}): ..."


def _find_method_problems(
    shape: ProcessClassShape, methods: Sequence[Sequence[str]]
) -> Iterator[tuple[str, str]]:
    known_methods: list[str] = []
    for wanted in methods:
        there = [name for name in wanted if name in shape.methods]
        if not there and not shape.has_unknown_bases:
            near = [
                suggest_name(name, wanted) for name in shape.methods if name not in known_methods
            ]
            hint = next(filter(None, near), _format_example(wanted[0]))
            if "on_rows" in shape.methods:
                hint = f"on_rows is for one input and no broadcast: {_format_example(wanted[0])}"
            yield f'class "{shape.name}" has no {" or ".join(wanted)}', hint
        known_methods += there
    if {"on_row", "on_rows"} <= {*shape.methods}:
        yield f'class "{shape.name}" has on_row and on_rows', "one of them sees all rows"
    for name in (*known_methods, "on_timer"):
        right = len(METHOD_ARGUMENTS.get(name, ("row", "state", "out")))
        count = shape.methods.get(name, right)
        if count not in (right, -1):
            message = f'class "{shape.name}": {name} takes {count} arguments besides self'
            yield message, _format_example(name)
    timers = [name for name, declared in shape.states if declared.kind is Kind.TIMER]
    if timers and "on_timer" not in shape.methods and not shape.has_unknown_bases:
        hint = "as in def on_timer(self, at, state, out): ..."
        yield f'class "{shape.name}" has the timer "{timers[0]}" and no on_timer', hint


def _find_shared_problems(shape: ProcessClassShape, *, ruled: bool) -> Iterator[tuple[str, str]]:
    """Yield the errors of states that all keys share; `ruled`: whether the step has a broadcast."""
    shared = [name for name, declared in shape.states if declared.shared]
    if ruled and not shared and not shape.problems:  # otherwise a broken state may be shared
        hint = 'as in limits = shared(map_of("string", "double"))'
        yield f'class "{shape.name}" has no shared state that on_rule could write', hint
    if ruled:
        return
    hint = "broadcast: {rules: ...} passes it the rows of a small stream"
    if shared:
        message = f'state "{shared[0]}" is shared, but the step has no broadcast'
        yield f'class "{shape.name}": {message}', hint
    elif "on_rule" in shape.methods:
        yield f'class "{shape.name}" has on_rule, but the step has no broadcast', hint


def _read_shape(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> ProcessClassShape:
    """Return the shape of a class, including the members it inherits within its file."""
    methods, derived = dict[str, int](), bool(node.decorator_list)
    states, problems = dict[str, Declared](), list[tuple[str, str]]()
    for each in _list_ancestry(node, classes):
        bases = class_definitions.list_base_names(each)
        derived = derived or bool(bases - {*class_definitions.BASE_CLASSES, *classes})
        for statement in each.body:
            match statement:
                case ast.FunctionDef():
                    methods[statement.name] = class_definitions.count_arguments(statement)
                    if statement.name.startswith("on_") and function_checks.contains_yield(
                        statement.body
                    ):
                        message = f'class "{node.name}": {statement.name} yields'
                        problems.append((message, YIELD_HINTS.get(statement.name, EMIT_HINT)))
                case ast.AsyncFunctionDef() if statement.name.startswith("on_"):
                    hint = "operators never wait: use a lookup in an earlier step"
                    problems.append((f'class "{node.name}": {statement.name} is async', hint))
                    methods[statement.name] = -1  # its arguments do not matter
        for name, call in list_declarations(each.body):
            read = read_declaration(name, call)
            if isinstance(read, Declared):
                states[name] = read
            else:
                where = f'class "{node.name}", line {call.lineno}: state "{name}"'
                problems.append((f"{where}: {read[0]}", read[1]))
    return ProcessClassShape(node.name, methods, tuple(states.items()), tuple(problems), derived)


def _list_ancestry(
    node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]
) -> Iterator[ast.ClassDef]:
    """Yield the base classes of a class that are in its file, then the class itself."""
    for base in reversed(node.bases):
        if isinstance(base, ast.Name) and base.id in classes and base.id != node.name:
            rest = {name: each for name, each in classes.items() if name != node.name}
            yield from _list_ancestry(classes[base.id], rest)
    yield node


def list_declarations(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.Call]]:
    """Yield the names of declared states, with the calls that declare them."""
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as call):
                pass
            case _:
                continue
        if _get_function_name(call) in (*STATE_KINDS, SHARED_FUNCTION):
            yield name, call


def _get_function_name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def read_declaration(name: str, call: ast.Call) -> Declared | tuple[str, str]:
    """Return the declared state, or an error message and a hint."""
    if name.startswith("_") or name in RESERVED_NAMES:
        hint = f"{', '.join(RESERVED_NAMES)} and names that begin with _ are reserved"
        return "a state cannot have this name", hint
    if name in SELF_ATTRIBUTES:
        return "a state cannot have this name", f"self.{name} has another meaning"
    if _get_function_name(call) == SHARED_FUNCTION:
        return _read_shared_state(name, call)
    try:
        words = [ast.literal_eval(word) for word in call.args]
        named = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords if k.arg}
    except ValueError:
        return f"{ast.unparse(call)} is computed", LITERAL_HINT
    try:
        state: State[object] = STATE_KINDS[_get_function_name(call)](*words, **named)  # type: ignore[operator]
    except (TypeError, ValueError) as error:
        return str(error), ""
    return state.declaration


def _read_shared_state(name: str, call: ast.Call) -> Declared | tuple[str, str]:
    match call:
        case ast.Call(args=[ast.Call() as inner], keywords=[]) if (
            _get_function_name(inner) in STATE_KINDS
        ):
            declared = read_declaration(name, inner)
        case _:
            return f"{ast.unparse(call)} declares no shared state", 'as in shared(value("bigint"))'
    try:
        return make_shared(declared) if isinstance(declared, Declared) else declared
    except ValueError as error:
        return str(error), ""
