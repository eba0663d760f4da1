"""The declarations of a class for `process`, and their checks; its file is read, not run.

States are found only if they are declared in the body of the class with literals, as in
`seen = map_of("string", "bigint", ttl="1h")`; the class that runs is compared with these.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.core.pipeline import class_files, python_files
from headrace.core.pipeline.findings import Findings
from headrace.core.pipeline.functions import Function
from headrace.core.problems import did_you_mean
from headrace.core.process.declared import Declared, Kind, shared_of
from headrace.core.process.declaring import State, list_of, map_of, shared, timer, value

SHARED = shared.__name__
KINDS = {"value": value, "list_of": list_of, "map_of": map_of, "timer": timer}
RESERVED = ("held", "held_right", "due", "waits")
"""The names of the states in which rows and timers wait."""
ASKED = ("key", "event_time", "event_times", "watermark", "now", "timer")
"""Attributes of `self`: a state of that name would hide them."""
PLAIN = 'write it with literals, as in value("bigint", ttl="1h")'
KEY = "process.python"
OUT = "rows are emitted with out(...)"
YIELDED = {"on_rule": "on_rule emits no rows: on_row applies the rules"}
"""The hints of methods for which OUT does not apply."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A class as its file defines it."""

    name: str
    methods: Mapping[str, int]
    """The number of arguments of each method besides `self`; -1 for any number."""
    states: tuple[tuple[str, Declared], ...]
    problems: tuple[tuple[str, str], ...]
    """Errors in its states, each with a hint."""
    derived: bool
    """Whether it may inherit methods that its file does not define."""


def check(
    function: Function,
    folder: Path,
    subject: str,
    findings: Findings,
    methods: Sequence[Sequence[str]],
    *,
    careful: bool,
) -> Mapping[str, Declared]:
    """Report the errors of a class, and return its states.

    The class must have one method of each group in `methods`. `careful`: rows on which it fails are
    skipped or diverted.
    """
    path, text = function.path(folder), function.text
    place = text.locate(len(text) - len(function.name))
    classes = class_files.classes(path)
    if classes is None:  # the file is missing or is not Python: reported as for a function
        python_files.check(function, folder, KEY, subject, findings)
        return {}
    if function.name not in classes:
        missing = class_files.missing(function, path, classes)
        findings.add(f"{KEY}: {missing.message}", place, _hint(missing), subject)
        return {}
    shape = _shape(classes[function.name], classes)
    ruled = any("on_rule" in names for names in methods)
    found = (*_method_problems(shape, methods), *_shared_problems(shape, ruled=ruled))
    for message, hint in (*shape.problems, *found):
        findings.add(f"{KEY}: {message}", place, hint, subject)
    if careful and "on_rows" in shape.methods:
        message = f'{KEY}: class "{shape.name}" has on_rows, which fails with all of its rows'
        findings.add(message, place, "on_error: skip and to are for on_row", subject)
    return dict(shape.states)


def _hint(missing: class_files.Missing) -> str:
    if missing.what == "":
        return "the file that the pipeline names must define the class itself"
    return missing.listed if missing.what else missing.near or missing.listed


ARGUMENTS = {
    "on_timer": ("at", "state", "out"),
    "on_rows": ("rows", "state", "out"),
    "on_rule": ("rule", "state"),
}


def _as_in(method: str) -> str:
    taken = ARGUMENTS.get(method, ("row", "state", "out"))
    return f"as in def {method}(self, {', '.join(taken)}): ..."


def _method_problems(shape: Shape, methods: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    found: list[str] = []
    for wanted in methods:
        there = [name for name in wanted if name in shape.methods]
        if not there and not shape.derived:
            near = [did_you_mean(name, wanted) for name in shape.methods if name not in found]
            hint = next(filter(None, near), _as_in(wanted[0]))
            if "on_rows" in shape.methods:
                hint = f"on_rows is for one input and no broadcast: {_as_in(wanted[0])}"
            yield f'class "{shape.name}" has no {" or ".join(wanted)}', hint
        found += there
    if {"on_row", "on_rows"} <= {*shape.methods}:
        yield f'class "{shape.name}" has on_row and on_rows', "one of them sees all rows"
    for name in (*found, "on_timer"):
        right = len(ARGUMENTS.get(name, ("row", "state", "out")))
        count = shape.methods.get(name, right)
        if count not in (right, -1):
            message = f'class "{shape.name}": {name} takes {count} arguments besides self'
            yield message, _as_in(name)
    timers = [name for name, said in shape.states if said.kind is Kind.TIMER]
    if timers and "on_timer" not in shape.methods and not shape.derived:
        hint = "as in def on_timer(self, at, state, out): ..."
        yield f'class "{shape.name}" has the timer "{timers[0]}" and no on_timer', hint


def _shared_problems(shape: Shape, *, ruled: bool) -> Iterator[tuple[str, str]]:
    """Yield the errors of states that all keys share; `ruled`: whether the step has a broadcast."""
    shared = [name for name, said in shape.states if said.shared]
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


def _shape(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> Shape:
    """Return the shape of a class, including the members it inherits within its file."""
    methods, derived = dict[str, int](), bool(node.decorator_list)
    states, problems = dict[str, Declared](), list[tuple[str, str]]()
    for each in _line(node, classes):
        bases = class_files.bases(each)
        derived = derived or bool(bases - {*class_files.OURS, *classes})
        for statement in each.body:
            match statement:
                case ast.FunctionDef():
                    methods[statement.name] = class_files.arguments(statement)
                    if statement.name.startswith("on_") and python_files.yields(statement.body):
                        message = f'class "{node.name}": {statement.name} yields'
                        problems.append((message, YIELDED.get(statement.name, OUT)))
                case ast.AsyncFunctionDef() if statement.name.startswith("on_"):
                    hint = "operators never wait: use a lookup in an earlier step"
                    problems.append((f'class "{node.name}": {statement.name} is async', hint))
                    methods[statement.name] = -1  # its arguments do not matter
        for name, call in _calls(each.body):
            read = _state(name, call)
            if isinstance(read, Declared):
                states[name] = read
            else:
                where = f'class "{node.name}", line {call.lineno}: state "{name}"'
                problems.append((f"{where}: {read[0]}", read[1]))
    return Shape(node.name, methods, tuple(states.items()), tuple(problems), derived)


def _line(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """Yield the base classes of a class that are in its file, then the class itself."""
    for base in reversed(node.bases):
        if isinstance(base, ast.Name) and base.id in classes and base.id != node.name:
            rest = {name: each for name, each in classes.items() if name != node.name}
            yield from _line(classes[base.id], rest)
    yield node


def _calls(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.Call]]:
    """Yield the names of declared states, with the calls that declare them."""
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as call):
                pass
            case _:
                continue
        if _called(call) in (*KINDS, SHARED):
            yield name, call


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _state(name: str, call: ast.Call) -> Declared | tuple[str, str]:
    """Return the declared state, or an error message and a hint."""
    if name.startswith("_") or name in RESERVED:
        hint = f"{', '.join(RESERVED)} and names that begin with _ are reserved"
        return "a state cannot have this name", hint
    if name in ASKED:
        return "a state cannot have this name", f"self.{name} has another meaning"
    if _called(call) == SHARED:
        return _shared(name, call)
    try:
        words = [ast.literal_eval(word) for word in call.args]
        named = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords if k.arg}
    except ValueError:
        return f"{ast.unparse(call)} is computed", PLAIN
    try:
        made: State[object] = KINDS[_called(call)](*words, **named)  # type: ignore[operator]
    except (TypeError, ValueError) as error:
        return str(error), ""
    return made.said


def _shared(name: str, call: ast.Call) -> Declared | tuple[str, str]:
    match call:
        case ast.Call(args=[ast.Call() as inner], keywords=[]) if _called(inner) in KINDS:
            said = _state(name, inner)
        case _:
            return f"{ast.unparse(call)} declares no shared state", 'as in shared(value("bigint"))'
    try:
        return shared_of(said) if isinstance(said, Declared) else said
    except ValueError as error:
        return str(error), ""
