"""What in a keyed step makes sense beside what.

`shape` looks at the keys as they are written, before their values are read: without exactly one
shape there is no window, and without exactly one of `aggregate`, `top` and `dedup` nobody knows
what comes out. `check` looks at a step whose clauses could all be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import TypeAlias

from headrace.core.pipeline.keyed import SHAPES, Evict, Trigger, Window
from headrace.core.pipeline.model import StepKeys
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.written import in_units
from headrace.core.problems import Severity

Data: TypeAlias = Mapping[Text, object]
Complain: TypeAlias = Callable[..., None]

KEYED = ("aggregate", "top", "dedup")
IN_TIME = ("tumble", "slide", "session", "cumulate")
APART = "put it into a step of its own"


def shape(data: Data, complain: Complain) -> bool:
    """Whether it is clear what the step makes; what is not is reported."""
    kinds = [key for key in data if key in KEYED]
    if len(kinds) > 1:
        complain((kinds[1],), f'"{kinds[1]}" stands beside "{kinds[0]}"', APART)
    window = data.get(Text("window"))
    return len(kinds) < 2 and (not isinstance(window, dict) or _one_shape(window, complain))


def _one_shape(window: Data, complain: Complain) -> bool:
    shapes = [key for key in window if key in SHAPES]
    message = f"window: wanted one of {', '.join(SHAPES)}, got"
    if len(shapes) > 1:
        complain(("window", shapes[1]), f'{message} "{shapes[0]}" and "{shapes[1]}"')
    elif not shapes and all(key in Window.written() for key in window):
        complain(("window",), f"{message} none", "as in window: {tumble: 1m}")
    return len(shapes) == 1


def check(step: StepKeys, data: Data, complain: Complain) -> None:
    """Report what does not go together."""
    for at, message, hint, severity in _rules(step, data):
        complain(at, message, hint, severity)


Rule: TypeAlias = tuple[tuple[str, ...], str, str, Severity]


def _error(at: tuple[str, ...], message: str, hint: str = "") -> Rule:
    return at, message, hint, "error"


def _rules(step: StepKeys, data: Data) -> Iterator[Rule]:
    kinds = [key for key in KEYED if key in data]
    yield from _clauses(data, kinds)
    if step.window is not None and kinds and kinds != ["dedup"]:
        yield from _window(step.window)
        if step.window.late_to is not None and "with" in data:
            message = "late_to hands on rows as they came, and with has changed them"
            yield _error(("window", "late_to"), message, "put with into a step before")
    if step.top is not None and step.window is not None:
        yield from _top(step.window)
    if step.dedup and "time" in step.dedup.model_fields_set and step.dedup.ttl is None:
        yield _error(("dedup", "time"), "dedup: time is that of ttl, and there is none", "add ttl")


def _clauses(data: Data, kinds: list[str]) -> Iterator[Rule]:
    """Which clauses of a step need, or refuse, which others."""
    dedups = kinds == ["dedup"]
    for key in ("key", "window", "ttl"):
        if key in data and dedups:
            yield _error((key,), f'"{key}" does not go with dedup', IN_DEDUP[key])
        elif key in data and not kinds:
            yield _error((key,), f'"{key}" needs "aggregate" or "top" beside it', MISSING[key])
    if "having" in data and "aggregate" not in data:
        yield _error(("having",), '"having" needs "aggregate" beside it', "where filters rows")
    if "ttl" in data and "window" in data and not dedups:
        message = "ttl is for steps without window: a window forgets when it is over"
        yield _error(("ttl",), message)
    for key in ("explode", "map"):
        if key in data and (kinds or "key" in data):
            other = kinds[0] if kinds else "key"
            yield _error((key,), f'"{key}" stands beside "{other}"', APART)


MISSING = {
    "key": "as in aggregate: {n: count(*)}",
    "window": "as in aggregate: {n: count(*)}",
    "ttl": "it forgets keys; as in aggregate: {n: count(*)}",
}
IN_DEDUP = {
    "key": "it belongs inside: dedup: {key: ...}",
    "window": "a ttl forgets what is old: dedup: {ttl: 1h}",
    "ttl": "it belongs inside: dedup: {ttl: ...}",
}


def _top(window: Window) -> Iterator[Rule]:
    again = "trigger" if window.trigger else "lateness"
    if window.accumulate and (window.trigger or window.lateness):
        message = f"window.{again}: a top that fires again is not built yet"
        yield _error(("window", again), message)


def _window(window: Window) -> Iterator[Rule]:
    of = shape_of(window)
    yield from _every(window, of)
    yield from _times(window, of)
    yield from _firing(window, of)
    if window.evict is not None:
        yield from _evict(window.evict)


def shape_of(window: Window) -> str:
    """The one key of a shape that is there."""
    fields = Window.written()
    return next(shape for shape in SHAPES if getattr(window, fields[shape]) is not None)


def _every(window: Window, of: str) -> Iterator[Rule]:
    at, every = ("window", "every"), window.every
    if every is None:
        if of in ("slide", "cumulate"):
            yield _error(("window", of), f"window: {of} needs every", f"{{{of}: ..., every: ...}}")
        return
    if of not in ("slide", "cumulate", "count"):
        hint = "slide: 10s, every: 2s" if of == "tumble" else ""
        yield _error(at, f"window: every does not go with {of}", hint)
    elif of == "count":
        if isinstance(every, timedelta):
            yield _error(at, f'window.every: wanted a number of rows, got "{in_units(every)}"')
        elif window.count is not None and every > window.count:
            yield _gaps(f"window.every: {every} rows are more than the {window.count}")
    elif not isinstance(every, timedelta):
        hint = f"add a unit: {every}s"
        yield _error(at, f'window.every: wanted a duration such as 10s, got "{every}"', hint)
    elif of == "slide" and window.slide is not None and every > window.slide:
        yield _gaps(f"window.every: {in_units(every)} is longer than {in_units(window.slide)}")
    elif of == "cumulate" and window.cumulate is not None and window.cumulate % every:
        message = f"window.every: {in_units(window.cumulate)} is no multiple of {in_units(every)}"
        yield _error(at, message)


def _gaps(message: str) -> Rule:
    return ("window", "every"), message, "rows between two windows are in none", "warning"


def _times(window: Window, of: str) -> Iterator[Rule]:
    """What only windows of time, or of event time, have."""
    given = window.model_fields_set
    span = window.tumble or window.cumulate or window.slide
    if "offset" in given and span is None:
        yield _error(("window", "offset"), f"window: offset does not go with {of}")
    elif span is not None and isinstance(window.every, timedelta) and of == "slide":
        span = window.every
    if span is not None and window.offset >= span:
        message = f'window.offset: wanted less than {in_units(span)}, got "'
        yield _error(("window", "offset"), f'{message}{in_units(window.offset)}"')
    for key in ("lateness", "late_to", "time"):
        if key in given and of not in IN_TIME:
            what = "rows are never late" if key != "time" else "it goes by no time"
            yield _error(("window", key), f"window: {key} does not go with {of}", what)
        elif key in given and key != "time" and window.time == "processing":
            message = f"window: {key} does not go with time: processing"
            yield _error(("window", key), message, "rows are never late")


def _firing(window: Window, of: str) -> Iterator[Rule]:
    trigger = window.trigger
    if trigger is not None:
        yield from _trigger(trigger)
        if of == "count":
            message = "window: trigger does not go with count: a window fires when it is full"
            yield _error(("window", "trigger"), message)
    elif "accumulate" in window.model_fields_set and not window.lateness:
        message = "window: accumulate is for windows that fire again"
        yield _error(("window", "accumulate"), message, "with trigger or lateness")


def _trigger(trigger: Trigger) -> Iterator[Rule]:
    at = ("window", "trigger")
    given = [key for key in ("every", "count") if getattr(trigger, key) is not None]
    if len(given) != 1:
        came = "both" if given else "none"
        yield _error(at, f"window.trigger: wanted one of every and count, got {came}")
    elif given == ["count"] and "time" in trigger.model_fields_set:
        yield _error((*at, "time"), "window.trigger: time goes with every")


def _evict(evict: Evict) -> Iterator[Rule]:
    given = [key for key in ("last", "within") if getattr(evict, key) is not None]
    if len(given) != 1:
        came = "both" if given else "none"
        yield _error(
            ("window", "evict"), f"window.evict: wanted one of last and within, got {came}"
        )
