"""The rules for which clauses and keys of a join go together."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.pipeline.clauses.joins import Join
from headrace.core.pipeline.clauses.windows import SHAPES, Window
from headrace.core.pipeline.diagnostics import RuleViolation

ONE_TIME_BOUND_HINT = "say one of within, as_of, ttl and window"
UNMATCHED_JOIN_TYPES = ("left", "right", "full", "semi", "anti")


def check_join(join: Join, window: Window | None) -> Iterator[RuleViolation]:
    """Yield the rules that the join violates, in itself and with the step's window."""
    given: list[str] = [key for key in ("within", "as_of") if key in join.model_fields_set]
    if window is not None:
        given.append("window")
    if len(given) > 1:
        at = (given[1],) if given[1] == "window" else ("join", given[1])
        yield RuleViolation(at, f'"{given[1]}" does not go with "{given[0]}"', ONE_TIME_BOUND_HINT)
    if join.ttl is not None and given and given[0] != "as_of":
        yield RuleViolation(
            ("join", "ttl"), f'"ttl" does not go with "{given[0]}"', _ttl_hint(given[0])
        )
    if join.as_of and join.type not in ("inner", "left"):
        message = f"join.type: as_of is for inner and left joins, got {join.type}"
        yield RuleViolation(("join", "type"), message, is_about_value=True)
    if join.as_of and join.ttl is not None and join.ttl.time == "processing":
        message = "join.ttl: as_of goes by event time"
        yield RuleViolation(("join", "ttl"), message, "leave out time: processing")
    yield from _check_late_to(join, given)
    if window is not None:
        yield from _check_join_window(join, window)


def _ttl_hint(given: str) -> str:
    if given == "within":
        return "rows are dropped when no row within the bounds can arrive any more"
    return "a window is dropped when it ends"


def _check_late_to(join: Join, given: list[str]) -> Iterator[RuleViolation]:
    late = join.late_to
    if late is None:
        return
    if late.left is None and late.right is None:
        hint = "as in late_to: {left: late_orders, right: late_payments}"
        yield RuleViolation(
            ("join", "late_to"), "join.late_to: wanted left or right, got none", hint
        )
    elif late.left == late.right:
        message = "join.late_to: the inputs have different columns, and need a stream each"
        yield RuleViolation(("join", "late_to", "right"), message)
    of_time = given or (join.ttl is not None and join.ttl.time == "event")
    if not of_time:
        message = 'join: "late_to" needs within, as_of, ttl or window'
        yield RuleViolation(("join", "late_to"), message, "rows are never late otherwise")


def _check_join_window(join: Join, window: Window) -> Iterator[RuleViolation]:
    for key in ("trigger", "evict", "accumulate"):
        if key in window.model_fields_set:
            yield RuleViolation(("window", key), f'window: "{key}" does not go with "join"')
    if window.count is not None:
        shapes = ", ".join(shape for shape in SHAPES if shape != "count")
        message = 'window: "count" does not go with "join"'
        yield RuleViolation(("window", "count"), message, f"windows of a join are {shapes}")
    if window.time == "processing":
        message = "window: a join goes by event time"
        yield RuleViolation(("window", "time"), message, "leave out time: processing")
    if window.late_to is not None:
        hint = "join: {late_to: {left: ..., right: ...}}: a stream for each input"
        yield RuleViolation(
            ("window", "late_to"), 'window: "late_to" does not go with "join"', hint
        )
    if window.lateness and join.type in UNMATCHED_JOIN_TYPES:
        message = f"window: lateness is for inner joins, got {join.type}"
        hint = "a row emitted without a match would have to be retracted"
        yield RuleViolation(("window", "lateness"), message, hint)
