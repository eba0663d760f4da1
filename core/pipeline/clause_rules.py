"""The rules for which clauses and keys of a step go together.

`check_shape` sees the keys as written, before their values are read: a window needs exactly one
shape, and the output of a step is unknown without exactly one of `aggregate`, `top` and `dedup`.
`check_step` sees a step whose clauses are all valid. Most rules are rows of the tables here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import TypeAlias

from headrace.core.pipeline.clauses import broadcast, join_rules
from headrace.core.pipeline.clauses.iterate import check_iterate
from headrace.core.pipeline.clauses.keyed import Dedup
from headrace.core.pipeline.clauses.match import check_match
from headrace.core.pipeline.clauses.process import Process
from headrace.core.pipeline.clauses.windows import SHAPES, Evict, Trigger, Window
from headrace.core.pipeline.default_values import format_duration
from headrace.core.pipeline.diagnostics import RuleViolation
from headrace.core.pipeline.key_rules import EXCLUDES, KeyRule, check_rules, list_given_keys
from headrace.core.pipeline.model import StepKeys
from headrace.core.pipeline.text import Text

Data: TypeAlias = Mapping[Text, object]

STATEFUL_CLAUSES = (
    *("join", "broadcast", "aggregate", "apply", "top", "over", "dedup", "process", "match"),
)
PROCESS_WITH_BROADCAST = {"broadcast", "process"}
"""The two clauses of a class that receives the rows of a small stream."""
WINDOWED_CLAUSES = ("join", "aggregate", "apply", "top")
ONE_SHAPE_WANTED = f"window: wanted one of {', '.join(SHAPES)}, got"
OWN_STEP_HINT = "put it into a step of its own"
EARLIER_STEP_HINT = "put it into an earlier step, one for each input"
NEVER_LATE_HINT = "rows are never late there"

ANY_STATEFUL = ", ".join(STATEFUL_CLAUSES)
CLAUSES_BEFORE_STATE = "explode, where, map, with, lookup"

QUERY_HINT = "the query says it; another step may read this one"

QUERY_RULES = (
    KeyRule(
        "join, connect, broadcast, iterate, explode, where, map, with, key, window, aggregate, "
        "emit_empty, apply, top, over, late_to, dedup, process, match, having, extend, select, "
        "drop, route, event_time, watermark, "
        "trace, on_error",
        EXCLUDES,
        "sql",
        QUERY_HINT,
    ),
    KeyRule("lookup", EXCLUDES, "sql", "lookups: {name: ...} gives the query a table to join"),
)
"""The rules of a step with a query, to which no other rule applies."""

STEP_RULES = (
    KeyRule(
        "iterate",
        EXCLUDES,
        "join, connect, broadcast, explode, where, map, with, lookup, key, window, aggregate, "
        "apply, top, over, dedup, process, having, extend, select, drop, route, event_time, "
        "on_error",
        "put it into a step before, inside or after the loop",
    ),
    KeyRule("lookups", "needs", "sql", "a step without a query has one: lookup: {...}"),
    KeyRule(
        "key",
        "needs",
        "aggregate, top, apply, over, process, match",
        "as in aggregate: {n: count(*)}",
        unless=ANY_STATEFUL,
    ),
    KeyRule(
        "window",
        "needs",
        "aggregate, top, apply, join",
        "as in aggregate: {n: count(*)}",
        unless=ANY_STATEFUL,
    ),
    KeyRule(
        "ttl", "needs", "aggregate, top, over", "it sets when a key expires", unless=ANY_STATEFUL
    ),
    KeyRule("apply", "needs", "window", "window: global is all rows of a key"),
    KeyRule(
        "late_to",
        "needs",
        "over",
        "other clauses have it inside: window, dedup, process, match, join, connect or broadcast",
    ),
    KeyRule("window", EXCLUDES, "over", "each column has a frame: over (rows 4 preceding)"),
    KeyRule("emit_empty", "needs", "aggregate", "as in aggregate: {n: count(*)}"),
    KeyRule("emit_empty", EXCLUDES, "key, window", "no rows make no key, and no window"),
    KeyRule("having", "needs", "aggregate, match", '"where" filters rows'),
    KeyRule("watermark", "needs", "event_time", "as in event_time: at"),
    KeyRule("process", "needs", "key", "state and timers belong to a key: key: card"),
    KeyRule(
        "connect",
        "needs",
        "process",
        "process: {python: match.py:Match, returns: {...}} names the class for the rows",
    ),
    KeyRule(
        "broadcast", EXCLUDES, "connect", "a class has two inputs, or one input and broadcast rules"
    ),
    KeyRule(CLAUSES_BEFORE_STATE, EXCLUDES, "broadcast", EARLIER_STEP_HINT, only_with="process"),
    KeyRule("key", EXCLUDES, "join", "on has the key of a join"),
    KeyRule("key", EXCLUDES, "dedup", "it belongs inside: dedup: {key: ...}"),
    KeyRule("window", EXCLUDES, "dedup", "dedup: {ttl: 1h} drops old keys"),
    KeyRule(
        "window", EXCLUDES, "process", "timers take the place of windows: see headrace.Process"
    ),
    KeyRule("window", EXCLUDES, "match", "within is the longest time of a match: within: 10m"),
    KeyRule("ttl", EXCLUDES, "match", "within ends what waits too long: within: 10m"),
    KeyRule("where, with", EXCLUDES, "match.rules", "put it into an earlier step"),
    KeyRule("ttl", EXCLUDES, "join", "it belongs inside: join: {ttl: ...}"),
    KeyRule("ttl", EXCLUDES, "dedup", "it belongs inside: dedup: {ttl: ...}"),
    KeyRule("ttl", EXCLUDES, "process", 'each state has its own: value("bigint", ttl="1h")'),
    KeyRule("key, window, ttl", EXCLUDES, "broadcast", OWN_STEP_HINT, unless="process"),
    KeyRule("ttl", EXCLUDES, "window", "a window is dropped when it ends", unless="dedup"),
    KeyRule(
        "explode, map, lookup",
        EXCLUDES,
        "join, aggregate, apply, top, over, dedup, process, match",
        OWN_STEP_HINT,
    ),
    KeyRule("explode, map, lookup", EXCLUDES, "broadcast", OWN_STEP_HINT, unless="process"),
    KeyRule(CLAUSES_BEFORE_STATE, EXCLUDES, "connect", EARLIER_STEP_HINT),
    KeyRule("route", EXCLUDES, "process", OWN_STEP_HINT),
    *join_rules.STEP_RULES,
)

WINDOW_RULES = (
    KeyRule("slide", "needs", "every", "as in {slide: 1m, every: 10s}"),
    KeyRule("cumulate", "needs", "every", "as in {cumulate: 1m, every: 10s}"),
    KeyRule("every", EXCLUDES, "tumble", "a sliding window is {slide: ..., every: ...}"),
    KeyRule("every", EXCLUDES, "session, global"),
    KeyRule("offset", EXCLUDES, "session, count, global"),
    KeyRule("time", EXCLUDES, "count, global", "it does not go by time"),
    KeyRule("lateness, late_to", EXCLUDES, "count, global", NEVER_LATE_HINT),
    KeyRule(
        "lateness, late_to", EXCLUDES, "time: processing", NEVER_LATE_HINT, unless="count, global"
    ),
    KeyRule("trigger", EXCLUDES, "count", "it fires when it is full"),
)
TRIGGER_RULES = (
    KeyRule("of", "goes with", "python"),
    KeyRule("time", "goes with", "every", only_with="count, python"),
    KeyRule("at_end", "goes with", "count, python"),
)
EVICT_RULES = (KeyRule("of", "goes with", "python"),)

DEDUP_RULES = (
    KeyRule("time: processing", EXCLUDES, "order: event_time", "with it, ttl goes by event time"),
    KeyRule("late_to", "needs", "order: event_time", "rows are never late with order: arrival"),
    KeyRule("time", "applies only together with", "ttl", "add ttl"),
)


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
    if step.sql is not None:
        yield from check_rules(QUERY_RULES, {*map(str, data)})
        return
    inner = {f"join.{key}" for key in (list_given_keys(step.join) if step.join else ())}
    if step.match is not None and step.match.rules is not None:
        inner.add("match.rules")
    yield from check_rules(STEP_RULES, {*map(str, data), *inner})
    if step.window is not None and not data.keys().isdisjoint(WINDOWED_CLAUSES):
        yield from _check_window(step.window, data)
    if step.iterate is not None:
        yield from check_iterate(step.iterate)
    if step.lookup is not None and step.lookup.on_miss.to is not None:
        yield from _check_row_changes(("lookup", "on_miss"), "on_miss: to", data, "explode", "map")
    if step.join is not None:
        yield from join_rules.check_join(step.join, step.window)
    if step.broadcast is not None and step.connect is None:
        in_process = step.process is not None
        yield from broadcast.check_broadcast(step.broadcast, step.from_, in_process=in_process)
    if step.over is not None and step.late_to is not None:
        yield from _check_row_changes(("late_to",), "late_to", data)
    if step.dedup is not None:
        yield from _check_dedup(step.dedup, data)
    if step.process is not None:
        yield from _check_process(step.process, data)
    if step.match is not None:
        yield from check_match(step.match, step.from_)
    if step.match is not None and step.match.late_to is not None:
        yield from _check_row_changes(("match", "late_to"), "late_to", data)


def _check_row_changes(
    at: tuple[str, ...], output: str, data: Data, *clauses: str
) -> Iterator[RuleViolation]:
    """Yield the violations of clauses that change rows before an output of rows as they arrived."""
    for clause in (*clauses, "with"):
        if clause in data:
            message = f'{output} emits rows as they arrived, but "{clause}" has changed them'
            yield RuleViolation(at, message, f'move "{clause}" to an earlier step')


def _check_process(process: Process, data: Data) -> Iterator[RuleViolation]:
    if process.late_to is None:
        return
    at = ("process", "late_to")
    if process.order == "arrival":
        message = "process.late_to: rows are never late with order: arrival"
        yield RuleViolation(at, message, "leave it out")
    yield from _check_row_changes(at, "late_to", data)
    if "connect" in data:
        hint = "connect: {..., late_to: {left: name, right: name}}"
        yield RuleViolation(at, '"late_to" of process is for one input', hint)


def _check_dedup(dedup: Dedup, data: Data) -> Iterator[RuleViolation]:
    yield from check_rules(DEDUP_RULES, list_given_keys(dedup), "dedup")
    if dedup.late_to is not None and dedup.order == "event_time":
        yield from _check_row_changes(("dedup", "late_to"), "late_to", data)
    if dedup.ttl is not None and dedup.keep == "last":
        message = 'dedup: "ttl" has no effect with "keep: last"'
        yield RuleViolation(("dedup", "ttl"), message, "keep: last stores no keys", "warning")


def get_shape(window: Window) -> str:
    """Return the key of the window's shape."""
    fields = Window.fields_by_key()
    return next(shape for shape in SHAPES if getattr(window, fields[shape]) is not None)


def _check_window(window: Window, data: Data) -> Iterator[RuleViolation]:
    yield from check_rules(WINDOW_RULES, list_given_keys(window), "window")
    yield from _check_every(window)
    yield from _check_offset(window)
    yield from _check_firing(window)
    if window.late_to is not None:
        yield from _check_row_changes(("window", "late_to"), "late_to", data)
    if "top" in data and window.accumulate and (window.trigger or window.lateness):
        again = "trigger" if window.trigger else "lateness"
        message = f"window.{again}: a top that fires again is not built yet"
        yield RuleViolation(("window", again), message)
    top = {str(name): value for name, value in data.items()}.get("top")
    if isinstance(top, Mapping) and top.get("ties", "row_number") != "row_number":
        message = "top: ties does not go with window"
        hint = "rank the rows of windows in a step after this one, with the window in its key"
        yield RuleViolation(("top", "ties"), message, hint)


def _check_every(window: Window) -> Iterator[RuleViolation]:
    at, every, of = ("window", "every"), window.every, get_shape(window)
    match of, every:
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
            length = format_duration(window.slide)
            yield _make_gap_warning(
                f"{format_duration(every)} is longer than the window ({length})"
            )
        case "count", int() if window.count and every > window.count:
            yield _make_gap_warning(f"{every} rows are more than the window has ({window.count})")


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


def _check_offset(window: Window) -> Iterator[RuleViolation]:
    length = window.tumble or window.cumulate or window.slide
    if window.slide and isinstance(window.every, timedelta):
        length = window.every
    if length and window.offset >= length:
        what = f"less than {format_duration(length)}"
        yield _make_wanted_violation(("window", "offset"), what, format_duration(window.offset))


def _check_firing(window: Window) -> Iterator[RuleViolation]:
    trigger, evict = window.trigger, window.evict
    if trigger is None:
        if "accumulate" in window.model_fields_set and not window.lateness:
            message = 'window: "accumulate" needs "trigger" or "lateness"'
            hint = "without them, a window fires once"
            yield RuleViolation(("window", "accumulate"), message, hint)
    elif window.count is None:
        yield from _check_one_of(trigger, "trigger")
        yield from check_rules(TRIGGER_RULES, list_given_keys(trigger), "window.trigger")
        if not trigger.at_end and window.lateness:
            message = 'window: "lateness" does not go with "at_end: false"'
            hint = "late rows change results that were emitted at the end of their window"
            yield RuleViolation(("window", "lateness"), message, hint)
    if evict is not None:
        yield from _check_one_of(evict, "evict")
        yield from check_rules(EVICT_RULES, list_given_keys(evict), "window.evict")


def _check_one_of(part: Trigger | Evict, name: str) -> Iterator[RuleViolation]:
    given_keys = [key for key in part.one_of if getattr(part, key) is not None]
    if len(given_keys) != 1:
        actual = ("none", "", "both", "all")[len(given_keys)]
        known = " and ".join(filter(None, (", ".join(part.one_of[:-1]), part.one_of[-1])))
        yield RuleViolation(("window", name), f"window.{name}: wanted one of {known}, got {actual}")
