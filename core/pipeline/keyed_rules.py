"""The rules for which clauses and keys of a step go together.

`check_shape` sees the keys as written, before their values are read: a window needs exactly one
shape, and the output of a step is unknown without exactly one of `aggregate`, `top` and `dedup`.
`check_step` sees a step whose clauses are all valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import TypeAlias

from headrace.core.pipeline import broadcast, join_rules
from headrace.core.pipeline.keyed import Dedup
from headrace.core.pipeline.model import StepKeys
from headrace.core.pipeline.process import Process
from headrace.core.pipeline.rule import Rule
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.windows import SHAPES, Evict, Trigger, Window
from headrace.core.pipeline.written import in_units

Data: TypeAlias = Mapping[Text, object]

KEYED = ("join", "broadcast", "aggregate", "apply", "top", "dedup", "process")
RULED = {"broadcast", "process"}
"""The two clauses of a class that receives the rows of a small stream."""
IN_TIME = ("tumble", "slide", "session", "cumulate")
ONE_SHAPE = f"window: wanted one of {', '.join(SHAPES)}, got"
APART = "put it into a step of its own"


def shape(data: Data, complain: Callable[[Rule], None]) -> bool:
    """Whether the output of the step is defined; report why, if it is not."""
    kinds = [key for key in data if key in KEYED]
    several = len(kinds) > 1 and {*kinds} != RULED
    if several:
        complain(Rule((kinds[1],), f'"{kinds[1]}" does not go with "{kinds[0]}"', APART))
    window = data.get(Text("window"))
    found = _shape_problem(window) if isinstance(window, dict) else None
    if found:
        complain(found)
    return not several and not found


def _shape_problem(window: Data) -> Rule | None:
    shapes = [key for key in window if key in SHAPES]
    if len(shapes) > 1:
        return Rule(("window", shapes[1]), f'{ONE_SHAPE} "{shapes[0]}" and "{shapes[1]}"')
    if not shapes and all(key in Window.written() for key in window):
        return Rule(("window",), f"{ONE_SHAPE} none", "as in window: {tumble: 1m}")
    return None


def check(step: StepKeys, data: Data) -> Iterator[Rule]:
    """Yield the rules that a step violates."""
    kinds = [key for key in KEYED if key in data]
    in_process = {*kinds} == RULED
    if in_process:
        kinds = ["process"]
        yield from _first(data, "broadcast")
    yield from _clauses(data, kinds)
    window = step.window
    if window is not None and kinds in (["aggregate"], ["apply"], ["top"], ["join"]):
        yield from _every(window, shape_of(window))
        yield from _offset(window, shape_of(window))
        yield from _lateness(window, shape_of(window))
        yield from _firing(window, shape_of(window))
        if window.late_to is not None and "with" in data:
            message = 'late_to emits rows as they arrived, but "with" has changed them'
            yield Rule(("window", "late_to"), message, 'move "with" to an earlier step')
        if kinds == ["top"]:
            yield from _top(window)
    if step.lookup is not None:
        yield from _lookup(step, data)
    if step.join is not None:
        yield from join_rules.check(step.join, window)
    if step.broadcast is not None and step.connect is None:
        yield from broadcast.check(step.broadcast, step.from_, in_process=in_process)
    if step.dedup is not None:
        yield from _dedup(step.dedup, data)
    if step.process is not None:
        yield from _process(step.process, data)
    if step.connect is not None:
        yield from _connect(data)


MISSING = {
    "key": "as in aggregate: {n: count(*)}",
    "window": "as in aggregate: {n: count(*)}",
    "ttl": "it sets when a key expires",
}
IN_JOIN = {"key": "on has the key of a join", "ttl": "it belongs inside: join: {ttl: ...}"}
IN_PROCESS = {
    "window": "timers take the place of windows: see headrace.core.process",
    "ttl": 'each state has its own: value("bigint", ttl="1h")',
}
IN_DEDUP = {
    "key": "it belongs inside: dedup: {key: ...}",
    "window": "dedup: {ttl: 1h} drops old keys",
    "ttl": "it belongs inside: dedup: {ttl: ...}",
}


def _clauses(data: Data, kinds: list[str]) -> Iterator[Rule]:
    """Yield the violations of clauses that need or exclude other clauses."""
    dedups = kinds == ["dedup"]
    for key in ("key", "window", "ttl"):
        if key in data and dedups:
            yield Rule((key,), f'"{key}" does not go with "dedup"', IN_DEDUP[key])
        elif key in data and key in IN_JOIN and kinds == ["join"]:
            yield Rule((key,), f'"{key}" does not go with "join"', IN_JOIN[key])
        elif key in data and key in IN_PROCESS and kinds == ["process"]:
            yield Rule((key,), f'"{key}" does not go with "process"', IN_PROCESS[key])
        elif key in data and kinds == ["broadcast"]:
            yield Rule((key,), f'"{key}" does not go with "broadcast"', APART)
        elif key in data and not kinds:
            yield Rule((key,), f'"{key}" needs "aggregate" or "top"', MISSING[key])
    if kinds == ["apply"] and "window" not in data:
        hint = "window: global is all rows of a key"
        yield Rule(("apply",), '"apply" needs "window"', hint)
    if "having" in data and "aggregate" not in data:
        yield Rule(("having",), '"having" needs "aggregate"', '"where" filters rows')
    if "ttl" in data and "window" in data and not dedups:
        hint = "a window is dropped when it ends"
        yield Rule(("ttl",), '"ttl" does not go with "window"', hint)
    for key in ("explode", "map", "lookup"):
        if key in data and kinds:
            yield Rule((key,), f'"{key}" does not go with "{kinds[0]}"', APART)


BEFORE = ("explode", "where", "map", "with", "lookup")


def _first(data: Data, clause: str) -> Iterator[Rule]:
    """Yield the violations of clauses that would change rows before a class of two inputs."""
    for key in BEFORE:
        if key in data:
            hint = "put it into an earlier step, one for each input"
            yield Rule((key,), f'"{key}" does not go with "{clause}"', hint)


def _connect(data: Data) -> Iterator[Rule]:
    if "process" not in data:
        hint = "process: {python: match.py:Match, returns: {...}} names the class for the rows"
        yield Rule(("connect",), '"connect" needs "process"', hint)
    yield from _first(data, "connect")
    if "broadcast" in data:
        hint = "a class has two inputs, or one input and broadcast rules"
        yield Rule(("broadcast",), '"broadcast" does not go with "connect"', hint)
    process = data.get(Text("process"))
    if isinstance(process, dict) and "late_to" in process:
        message = '"late_to" of process is for one input'
        hint = "connect: {..., late_to: {left: name, right: name}}"
        yield Rule(("process", "late_to"), message, hint)


def _process(process: Process, data: Data) -> Iterator[Rule]:
    if "key" not in data:
        hint = "state and timers belong to a key: key: card"
        yield Rule(("process",), '"process" needs "key"', hint)
    if "route" in data:
        yield Rule(("route",), '"route" does not go with "process"', APART)
    if process.late_to is not None and process.order == "arrival":
        message = "process.late_to: rows are never late with order: arrival"
        yield Rule(("process", "late_to"), message, "leave it out")
    if process.late_to is not None and "with" in data:
        message = 'late_to emits rows as they arrived, but "with" has changed them'
        yield Rule(("process", "late_to"), message, 'move "with" to an earlier step')


def _lookup(step: StepKeys, data: Data) -> Iterator[Rule]:
    if step.lookup is None or step.lookup.on_miss.to is None:
        return
    for key in ("explode", "map", "with"):
        if key in data:
            message = f'on_miss: to emits rows as they arrived, but "{key}" has changed them'
            yield Rule(("lookup", "on_miss"), message, f'move "{key}" to an earlier step')


def _dedup(dedup: Dedup, data: Data) -> Iterator[Rule]:
    given = dedup.model_fields_set
    if dedup.order == "event_time":
        if dedup.time == "processing":
            message = 'dedup: "time: processing" does not go with "order: event_time"'
            yield Rule(("dedup", "time"), message, "with it, ttl goes by event time")
        if dedup.late_to is not None and "with" in data:
            message = 'late_to emits rows as they arrived, but "with" has changed them'
            yield Rule(("dedup", "late_to"), message, 'move "with" to an earlier step')
    elif dedup.late_to is not None:
        message = 'dedup: "late_to" needs "order: event_time"'
        yield Rule(("dedup", "late_to"), message, "rows are never late with order: arrival")
    if "time" in given and dedup.ttl is None:
        message = 'dedup: "time" applies only together with "ttl"'
        yield Rule(("dedup", "time"), message, "add ttl")
    if dedup.ttl is not None and dedup.keep == "last":
        message = 'dedup: "ttl" has no effect with "keep: last"'
        yield Rule(("dedup", "ttl"), message, "keep: last stores no keys", "warning")


def _top(window: Window) -> Iterator[Rule]:
    again = "trigger" if window.trigger else "lateness"
    if window.accumulate and (window.trigger or window.lateness):
        message = f"window.{again}: a top that fires again is not built yet"
        yield Rule(("window", again), message)


def shape_of(window: Window) -> str:
    """Return the key of the window's shape."""
    fields = Window.written()
    return next(shape for shape in SHAPES if getattr(window, fields[shape]) is not None)


def _every(window: Window, of: str) -> Iterator[Rule]:
    at, every = ("window", "every"), window.every
    match of, every:
        case "slide" | "cumulate", None:
            hint = f"as in {{{of}: 1m, every: 10s}}"
            yield Rule(("window", of), f'window: "{of}" needs "every"', hint)
        case _, None:
            pass
        case "count", timedelta():
            yield _wanted(at, "a number of rows", in_units(every))
        case "slide" | "cumulate", int():
            yield _wanted(at, "a duration such as 10s", str(every), f"add a unit: {every}s")
        case "cumulate", timedelta() if window.cumulate and window.cumulate % every:
            what = f"a duration that {in_units(window.cumulate)} is a multiple of"
            yield _wanted(at, what, in_units(every))
        case "slide", timedelta() if window.slide and every > window.slide:
            yield _gaps(f"{in_units(every)} is longer than the window ({in_units(window.slide)})")
        case "count", int() if window.count and every > window.count:
            yield _gaps(f"{every} rows are more than the window has ({window.count})")
        case "tumble" | "session" | "global", _:
            hint = "a sliding window is {slide: ..., every: ...}" if of == "tumble" else ""
            yield _alien("every", of, hint)


def _wanted(at: tuple[str, ...], what: str, got: str, hint: str = "") -> Rule:
    return Rule(at, f'{".".join(at)}: wanted {what}, got "{got}"', hint, of_value=True)


def _gaps(message: str) -> Rule:
    hint = "rows between two windows belong to no window"
    return Rule(("window", "every"), f"window.every: {message}", hint, "warning", of_value=True)


def _alien(key: str, of: str, hint: str = "") -> Rule:
    return Rule(("window", key), f'window: "{key}" does not go with "{of}"', hint)


def _offset(window: Window, of: str) -> Iterator[Rule]:
    if "offset" not in window.model_fields_set:
        return
    length = window.tumble or window.cumulate or window.slide
    if length is None:
        yield _alien("offset", of)
        return
    if of == "slide" and isinstance(window.every, timedelta):
        length = window.every
    if window.offset >= length:
        what = f"less than {in_units(length)}"
        yield _wanted(("window", "offset"), what, in_units(window.offset))


def _lateness(window: Window, of: str) -> Iterator[Rule]:
    """Yield the violations of keys that need a window of time, or of event time."""
    given = window.model_fields_set
    if "time" in given and of not in IN_TIME:
        yield _alien("time", of, "it does not go by time")
    for key in ("lateness", "late_to"):
        if key in given and of not in IN_TIME:
            yield _alien(key, of, "rows are never late there")
        elif key in given and window.time == "processing":
            yield _alien(key, "time: processing", "rows are never late there")


def _firing(window: Window, of: str) -> Iterator[Rule]:
    trigger, evict = window.trigger, window.evict
    if trigger is not None and of == "count":
        yield _alien("trigger", of, "it fires when it is full")
    elif trigger is not None:
        yield from _trigger(trigger)
        if trigger.python is not None and of == "session":
            message = 'window.trigger: "python" does not go with "session"'
            hint = "sessions merge, and the states of their triggers cannot be merged"
            yield Rule(("window", "trigger", "python"), message, hint)
    elif "accumulate" in window.model_fields_set and not window.lateness:
        message = 'window: "accumulate" needs "trigger" or "lateness"'
        yield Rule(("window", "accumulate"), message, "without them, a window fires once")
    if evict is not None:
        yield from _one_of(evict, "evict")
        if evict.of is not None and evict.python is None:
            yield Rule(("window", "evict", "of"), 'window.evict: "of" goes with "python"')


def _trigger(trigger: Trigger) -> Iterator[Rule]:
    yield from _one_of(trigger, "trigger")
    if trigger.of is not None and trigger.python is None:
        yield Rule(("window", "trigger", "of"), 'window.trigger: "of" goes with "python"')
    others = trigger.count is not None or trigger.python is not None
    if "time" in trigger.model_fields_set and trigger.every is None and others:
        message = 'window.trigger: "time" goes with "every"'
        yield Rule(("window", "trigger", "time"), message)


def _one_of(part: Trigger | Evict, name: str) -> Iterator[Rule]:
    given = [key for key in part.one_of if getattr(part, key) is not None]
    if len(given) != 1:
        came = ("none", "", "both", "all")[len(given)]
        known = " and ".join(filter(None, (", ".join(part.one_of[:-1]), part.one_of[-1])))
        yield Rule(("window", name), f"window.{name}: wanted one of {known}, got {came}")
