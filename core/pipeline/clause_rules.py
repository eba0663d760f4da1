"""The rules for which clauses and keys of a step go together.

`check_shape` sees the keys as written, before their values are read: a window needs exactly one
shape, and the output of a step is unknown without exactly one of `aggregate`, `top` and `dedup`.
`check_step` sees a step whose clauses are all valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import TypeAlias

from headrace.core.pipeline.clauses import broadcast, join_rules
from headrace.core.pipeline.clauses.keyed import Dedup
from headrace.core.pipeline.clauses.process import Process
from headrace.core.pipeline.clauses.windows import SHAPES, Evict, Trigger, Window
from headrace.core.pipeline.default_values import format_duration
from headrace.core.pipeline.diagnostics import RuleViolation
from headrace.core.pipeline.model import StepKeys
from headrace.core.pipeline.text import Text

Data: TypeAlias = Mapping[Text, object]

STATEFUL_CLAUSES = ("join", "broadcast", "aggregate", "apply", "top", "dedup", "process")
PROCESS_WITH_BROADCAST = {"broadcast", "process"}
"""The two clauses of a class that receives the rows of a small stream."""
TIME_SHAPES = ("tumble", "slide", "session", "cumulate")
ONE_SHAPE_WANTED = f"window: wanted one of {', '.join(SHAPES)}, got"
OWN_STEP_HINT = "put it into a step of its own"


def check_shape(data: Data, complain: Callable[[RuleViolation], None]) -> bool:
    """Whether the output of the step is defined; report why, if it is not."""
    kinds = [key for key in data if key in STATEFUL_CLAUSES]
    several = len(kinds) > 1 and {*kinds} != PROCESS_WITH_BROADCAST
    if several:
        complain(
            RuleViolation((kinds[1],), f'"{kinds[1]}" does not go with "{kinds[0]}"', OWN_STEP_HINT)
        )
    window = data.get(Text("window"))
    found = _find_shape_problem(window) if isinstance(window, dict) else None
    if found:
        complain(found)
    return not several and not found


def _find_shape_problem(window: Data) -> RuleViolation | None:
    shapes = [key for key in window if key in SHAPES]
    if len(shapes) > 1:
        return RuleViolation(
            ("window", shapes[1]), f'{ONE_SHAPE_WANTED} "{shapes[0]}" and "{shapes[1]}"'
        )
    if not shapes and all(key in Window.fields_by_key() for key in window):
        return RuleViolation(("window",), f"{ONE_SHAPE_WANTED} none", "as in window: {tumble: 1m}")
    return None


def check_step(step: StepKeys, data: Data) -> Iterator[RuleViolation]:
    """Yield the rules that a step violates."""
    kinds = [key for key in STATEFUL_CLAUSES if key in data]
    in_process = {*kinds} == PROCESS_WITH_BROADCAST
    if in_process:
        kinds = ["process"]
        yield from _check_earlier_clauses(data, "broadcast")
    yield from _check_clauses(data, kinds)
    window = step.window
    if window is not None and kinds in (["aggregate"], ["apply"], ["top"], ["join"]):
        yield from _check_every(window, get_shape(window))
        yield from _check_offset(window, get_shape(window))
        yield from _check_lateness(window, get_shape(window))
        yield from _check_firing(window, get_shape(window))
        if window.late_to is not None and "with" in data:
            message = 'late_to emits rows as they arrived, but "with" has changed them'
            yield RuleViolation(("window", "late_to"), message, 'move "with" to an earlier step')
        if kinds == ["top"]:
            yield from _check_top(window)
    if step.lookup is not None:
        yield from _check_lookup(step, data)
    if step.join is not None:
        yield from join_rules.check_join(step.join, window)
    if step.broadcast is not None and step.connect is None:
        yield from broadcast.check_broadcast(step.broadcast, step.from_, in_process=in_process)
    if step.dedup is not None:
        yield from _check_dedup(step.dedup, data)
    if step.process is not None:
        yield from _check_process(step.process, data)
    if step.connect is not None:
        yield from _check_connect(data)


NEEDS_AGGREGATION_HINTS = {
    "key": "as in aggregate: {n: count(*)}",
    "window": "as in aggregate: {n: count(*)}",
    "ttl": "it sets when a key expires",
}
JOIN_HINTS = {"key": "on has the key of a join", "ttl": "it belongs inside: join: {ttl: ...}"}
PROCESS_CLAUSE_HINTS = {
    "window": "timers take the place of windows: see headrace.core.process",
    "ttl": 'each state has its own: value("bigint", ttl="1h")',
}
DEDUP_HINTS = {
    "key": "it belongs inside: dedup: {key: ...}",
    "window": "dedup: {ttl: 1h} drops old keys",
    "ttl": "it belongs inside: dedup: {ttl: ...}",
}


def _check_clauses(data: Data, kinds: list[str]) -> Iterator[RuleViolation]:
    """Yield the violations of clauses that need or exclude other clauses."""
    dedups = kinds == ["dedup"]
    for key in ("key", "window", "ttl"):
        if key in data and dedups:
            yield RuleViolation((key,), f'"{key}" does not go with "dedup"', DEDUP_HINTS[key])
        elif key in data and key in JOIN_HINTS and kinds == ["join"]:
            yield RuleViolation((key,), f'"{key}" does not go with "join"', JOIN_HINTS[key])
        elif key in data and key in PROCESS_CLAUSE_HINTS and kinds == ["process"]:
            yield RuleViolation(
                (key,), f'"{key}" does not go with "process"', PROCESS_CLAUSE_HINTS[key]
            )
        elif key in data and kinds == ["broadcast"]:
            yield RuleViolation((key,), f'"{key}" does not go with "broadcast"', OWN_STEP_HINT)
        elif key in data and not kinds:
            yield RuleViolation(
                (key,), f'"{key}" needs "aggregate" or "top"', NEEDS_AGGREGATION_HINTS[key]
            )
    if kinds == ["apply"] and "window" not in data:
        hint = "window: global is all rows of a key"
        yield RuleViolation(("apply",), '"apply" needs "window"', hint)
    if "having" in data and "aggregate" not in data:
        yield RuleViolation(("having",), '"having" needs "aggregate"', '"where" filters rows')
    if "ttl" in data and "window" in data and not dedups:
        hint = "a window is dropped when it ends"
        yield RuleViolation(("ttl",), '"ttl" does not go with "window"', hint)
    for key in ("explode", "map", "lookup"):
        if key in data and kinds:
            yield RuleViolation((key,), f'"{key}" does not go with "{kinds[0]}"', OWN_STEP_HINT)


CLAUSES_BEFORE_STATE = ("explode", "where", "map", "with", "lookup")


def _check_earlier_clauses(data: Data, clause: str) -> Iterator[RuleViolation]:
    """Yield the violations of clauses that would change rows before a class of two inputs."""
    for key in CLAUSES_BEFORE_STATE:
        if key in data:
            hint = "put it into an earlier step, one for each input"
            yield RuleViolation((key,), f'"{key}" does not go with "{clause}"', hint)


def _check_connect(data: Data) -> Iterator[RuleViolation]:
    if "process" not in data:
        hint = "process: {python: match.py:Match, returns: {...}} names the class for the rows"
        yield RuleViolation(("connect",), '"connect" needs "process"', hint)
    yield from _check_earlier_clauses(data, "connect")
    if "broadcast" in data:
        hint = "a class has two inputs, or one input and broadcast rules"
        yield RuleViolation(("broadcast",), '"broadcast" does not go with "connect"', hint)
    process = data.get(Text("process"))
    if isinstance(process, dict) and "late_to" in process:
        message = '"late_to" of process is for one input'
        hint = "connect: {..., late_to: {left: name, right: name}}"
        yield RuleViolation(("process", "late_to"), message, hint)


def _check_process(process: Process, data: Data) -> Iterator[RuleViolation]:
    if "key" not in data:
        hint = "state and timers belong to a key: key: card"
        yield RuleViolation(("process",), '"process" needs "key"', hint)
    if "route" in data:
        yield RuleViolation(("route",), '"route" does not go with "process"', OWN_STEP_HINT)
    if process.late_to is not None and process.order == "arrival":
        message = "process.late_to: rows are never late with order: arrival"
        yield RuleViolation(("process", "late_to"), message, "leave it out")
    if process.late_to is not None and "with" in data:
        message = 'late_to emits rows as they arrived, but "with" has changed them'
        yield RuleViolation(("process", "late_to"), message, 'move "with" to an earlier step')


def _check_lookup(step: StepKeys, data: Data) -> Iterator[RuleViolation]:
    if step.lookup is None or step.lookup.on_miss.to is None:
        return
    for key in ("explode", "map", "with"):
        if key in data:
            message = f'on_miss: to emits rows as they arrived, but "{key}" has changed them'
            yield RuleViolation(("lookup", "on_miss"), message, f'move "{key}" to an earlier step')


def _check_dedup(dedup: Dedup, data: Data) -> Iterator[RuleViolation]:
    given = dedup.model_fields_set
    if dedup.order == "event_time":
        if dedup.time == "processing":
            message = 'dedup: "time: processing" does not go with "order: event_time"'
            yield RuleViolation(("dedup", "time"), message, "with it, ttl goes by event time")
        if dedup.late_to is not None and "with" in data:
            message = 'late_to emits rows as they arrived, but "with" has changed them'
            yield RuleViolation(("dedup", "late_to"), message, 'move "with" to an earlier step')
    elif dedup.late_to is not None:
        message = 'dedup: "late_to" needs "order: event_time"'
        yield RuleViolation(
            ("dedup", "late_to"), message, "rows are never late with order: arrival"
        )
    if "time" in given and dedup.ttl is None:
        message = 'dedup: "time" applies only together with "ttl"'
        yield RuleViolation(("dedup", "time"), message, "add ttl")
    if dedup.ttl is not None and dedup.keep == "last":
        message = 'dedup: "ttl" has no effect with "keep: last"'
        yield RuleViolation(("dedup", "ttl"), message, "keep: last stores no keys", "warning")


def _check_top(window: Window) -> Iterator[RuleViolation]:
    again = "trigger" if window.trigger else "lateness"
    if window.accumulate and (window.trigger or window.lateness):
        message = f"window.{again}: a top that fires again is not built yet"
        yield RuleViolation(("window", again), message)


def get_shape(window: Window) -> str:
    """Return the key of the window's shape."""
    fields = Window.fields_by_key()
    return next(shape for shape in SHAPES if getattr(window, fields[shape]) is not None)


def _check_every(window: Window, of: str) -> Iterator[RuleViolation]:
    at, every = ("window", "every"), window.every
    match of, every:
        case "slide" | "cumulate", None:
            hint = f"as in {{{of}: 1m, every: 10s}}"
            yield RuleViolation(("window", of), f'window: "{of}" needs "every"', hint)
        case _, None:
            pass
        case "count", timedelta():
            yield _make_wanted_violation(at, "a number of rows", format_duration(every))
        case "slide" | "cumulate", int():
            yield _make_wanted_violation(
                at, "a duration such as 10s", str(every), f"add a unit: {every}s"
            )
        case "cumulate", timedelta() if window.cumulate and window.cumulate % every:
            what = f"a duration that {format_duration(window.cumulate)} is a multiple of"
            yield _make_wanted_violation(at, what, format_duration(every))
        case "slide", timedelta() if window.slide and every > window.slide:
            yield _make_gap_warning(
                f"{format_duration(every)} is longer than the window "
                f"({format_duration(window.slide)})"
            )
        case "count", int() if window.count and every > window.count:
            yield _make_gap_warning(f"{every} rows are more than the window has ({window.count})")
        case "tumble" | "session" | "global", _:
            hint = "a sliding window is {slide: ..., every: ...}" if of == "tumble" else ""
            yield _make_mismatch("every", of, hint)


def _make_wanted_violation(
    at: tuple[str, ...], what: str, got: str, hint: str = ""
) -> RuleViolation:
    return RuleViolation(
        at, f'{".".join(at)}: wanted {what}, got "{got}"', hint, is_about_value=True
    )


def _make_gap_warning(message: str) -> RuleViolation:
    hint = "rows between two windows belong to no window"
    return RuleViolation(
        ("window", "every"), f"window.every: {message}", hint, "warning", is_about_value=True
    )


def _make_mismatch(key: str, of: str, hint: str = "") -> RuleViolation:
    return RuleViolation(("window", key), f'window: "{key}" does not go with "{of}"', hint)


def _check_offset(window: Window, of: str) -> Iterator[RuleViolation]:
    if "offset" not in window.model_fields_set:
        return
    length = window.tumble or window.cumulate or window.slide
    if length is None:
        yield _make_mismatch("offset", of)
        return
    if of == "slide" and isinstance(window.every, timedelta):
        length = window.every
    if window.offset >= length:
        what = f"less than {format_duration(length)}"
        yield _make_wanted_violation(("window", "offset"), what, format_duration(window.offset))


def _check_lateness(window: Window, of: str) -> Iterator[RuleViolation]:
    """Yield the violations of keys that need a window of time, or of event time."""
    given = window.model_fields_set
    if "time" in given and of not in TIME_SHAPES:
        yield _make_mismatch("time", of, "it does not go by time")
    for key in ("lateness", "late_to"):
        if key in given and of not in TIME_SHAPES:
            yield _make_mismatch(key, of, "rows are never late there")
        elif key in given and window.time == "processing":
            yield _make_mismatch(key, "time: processing", "rows are never late there")


def _check_firing(window: Window, of: str) -> Iterator[RuleViolation]:
    trigger, evict = window.trigger, window.evict
    if trigger is not None and of == "count":
        yield _make_mismatch("trigger", of, "it fires when it is full")
    elif trigger is not None:
        yield from _check_trigger(trigger)
        if trigger.python is not None and of == "session":
            message = 'window.trigger: "python" does not go with "session"'
            hint = "sessions merge, and the states of their triggers cannot be merged"
            yield RuleViolation(("window", "trigger", "python"), message, hint)
    elif "accumulate" in window.model_fields_set and not window.lateness:
        message = 'window: "accumulate" needs "trigger" or "lateness"'
        yield RuleViolation(("window", "accumulate"), message, "without them, a window fires once")
    if evict is not None:
        yield from _check_one_of(evict, "evict")
        if evict.of is not None and evict.python is None:
            yield RuleViolation(("window", "evict", "of"), 'window.evict: "of" goes with "python"')


def _check_trigger(trigger: Trigger) -> Iterator[RuleViolation]:
    yield from _check_one_of(trigger, "trigger")
    if trigger.of is not None and trigger.python is None:
        yield RuleViolation(("window", "trigger", "of"), 'window.trigger: "of" goes with "python"')
    others = trigger.count is not None or trigger.python is not None
    if "time" in trigger.model_fields_set and trigger.every is None and others:
        message = 'window.trigger: "time" goes with "every"'
        yield RuleViolation(("window", "trigger", "time"), message)


def _check_one_of(part: Trigger | Evict, name: str) -> Iterator[RuleViolation]:
    given = [key for key in part.one_of if getattr(part, key) is not None]
    if len(given) != 1:
        came = ("none", "", "both", "all")[len(given)]
        known = " and ".join(filter(None, (", ".join(part.one_of[:-1]), part.one_of[-1])))
        yield RuleViolation(("window", name), f"window.{name}: wanted one of {known}, got {came}")
