"""What a class for `process` declares, and what is wrong with it: its file is read, not run.

Its states are told only where they stand in the body of the class with plain words, as in
`seen = map_of("string", "bigint", ttl="1h")`; the class that runs is held against that.
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
"""What the states are called in which rows and timers wait."""
ASKED = ("key", "event_time", "event_times", "watermark", "now", "timer")
"""What `self` is asked for: a state of that name would hide it."""
PLAIN = 'write it with plain words, as in value("bigint", ttl="1h")'
KEY = "process.python"
OUT = "what goes out is handed to out(...)"
YIELDED = {"on_rule": "nothing goes out of a rule: on_row says what follows from it"}
"""What to do instead, where it is not OUT."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A class as it stands in a file."""

    name: str
    methods: Mapping[str, int]
    """How many arguments each takes beside `self`; -1 where any number will do."""
    states: tuple[tuple[str, Declared], ...]
    problems: tuple[tuple[str, str], ...]
    """What is wrong with its states, and what to do."""
    derived: bool
    """Whether methods may come from somewhere else."""


def check(
    function: Function,
    folder: Path,
    subject: str,
    findings: Findings,
    methods: Sequence[Sequence[str]],
    *,
    careful: bool,
) -> Mapping[str, Declared]:
    """Note what is wrong with a class that is to have one of each of these methods; its states.

    `careful`: rows on which it fails are left out.
    """
    path, text = function.path(folder), function.text
    place = text.locate(len(text) - len(function.name))
    classes = class_files.classes(path)
    if classes is None:  # the file is missing, or is not Python: that is said as for a function
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
        return "the class itself stands in the file that the pipeline names"
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
            message = f'class "{shape.name}": {name} takes {count} arguments beside self'
            yield message, _as_in(name)
    timers = [name for name, said in shape.states if said.kind is Kind.TIMER]
    if timers and "on_timer" not in shape.methods and not shape.derived:
        hint = "as in def on_timer(self, at, state, out): ..."
        yield f'class "{shape.name}" has the timer "{timers[0]}" and no on_timer', hint


def _shared_problems(shape: Shape, *, ruled: bool) -> Iterator[tuple[str, str]]:
    """What is wrong with states that all keys share; `ruled`: whether the step has a broadcast."""
    shared = [name for name, said in shape.states if said.shared]
    if ruled and not shared and not shape.problems:  # else it may be one of those
        hint = 'as in limits = shared(map_of("string", "double"))'
        yield f'class "{shape.name}" has no shared state that on_rule could write', hint
    if ruled:
        return
    hint = "broadcast: {rules: ...} hands it the rows of a small stream"
    if shared:
        message = f'state "{shared[0]}" is shared, and the step has no broadcast'
        yield f'class "{shape.name}": {message}', hint
    elif "on_rule" in shape.methods:
        yield f'class "{shape.name}" has on_rule, and the step no broadcast', hint


def _shape(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> Shape:
    """The class, with what it has of others in its file."""
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
                    hint = "operators never wait: look things up in a step before"
                    problems.append((f'class "{node.name}": {statement.name} is async', hint))
                    methods[statement.name] = -1  # it is there, whatever it takes
        for name, call in _calls(each.body):
            read = _state(name, call)
            if isinstance(read, Declared):
                states[name] = read
            else:
                where = f'class "{node.name}", line {call.lineno}: state "{name}"'
                problems.append((f"{where}: {read[0]}", read[1]))
    return Shape(node.name, methods, tuple(states.items()), tuple(problems), derived)


def _line(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """The classes that it is made of, as far as they are in its file, itself last."""
    for base in reversed(node.bases):
        if isinstance(base, ast.Name) and base.id in classes and base.id != node.name:
            rest = {name: each for name, each in classes.items() if name != node.name}
            yield from _line(classes[base.id], rest)
    yield node


def _calls(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.Call]]:
    """What is declared: names, and the calls that declare."""
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
    """What is declared, or what is wrong with it and what to do."""
    if name.startswith("_") or name in RESERVED:
        return "a state may not be called that", f"not {', '.join(RESERVED)}, and no _ before it"
    if name in ASKED:
        return "a state may not be called that", f"self.{name} is something else"
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
            return f"{ast.unparse(call)} shares no state", 'as in shared(value("bigint"))'
    try:
        return shared_of(said) if isinstance(said, Declared) else said
    except ValueError as error:
        return str(error), ""
