"""The rules for which clauses and keys of a join go together."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.pipeline.clauses.joins import Join
from headrace.core.pipeline.clauses.windows import SHAPES, Window
from headrace.core.pipeline.diagnostics import RuleViolation
from headrace.core.pipeline.key_rules import EXCLUDES, KeyRule, check_rules, list_given_keys

ONE_TIME_BOUND_HINT = "say one of within, as_of, ttl and window"
UNMATCHED_JOIN_TYPES = ("left", "right", "full", "semi", "anti")
RETRACTING_JOIN_TYPES = ("left", "right", "full", "anti")
"""The types whose rows without a match may be emitted at once, and be removed later."""

STEP_RULES = (
    KeyRule("join.as_of", EXCLUDES, "join.within", ONE_TIME_BOUND_HINT),
    KeyRule("window", EXCLUDES, "join.within", ONE_TIME_BOUND_HINT, unless="join.as_of"),
    KeyRule("window", EXCLUDES, "join.as_of", ONE_TIME_BOUND_HINT, unless="join.within"),
    KeyRule(
        "join.ttl",
        EXCLUDES,
        "join.within",
        "rows are dropped when no row within the bounds can arrive any more",
    ),
    KeyRule(
        "join.ttl",
        EXCLUDES,
        "window",
        "a window is dropped when it ends",
        unless="join.within, join.as_of",
    ),
)
WINDOW_RULES = (
    KeyRule("trigger, evict, accumulate", EXCLUDES, "join"),
    KeyRule(
        "count",
        EXCLUDES,
        "join",
        f"windows of a join are {', '.join(shape for shape in SHAPES if shape != 'count')}",
    ),
    KeyRule(
        "late_to",
        EXCLUDES,
        "join",
        "join: {late_to: {left: ..., right: ...}}: a stream for each input",
    ),
)


def check_join(join: Join, window: Window | None) -> Iterator[RuleViolation]:
    """Yield the rules that the join violates, other than those of the step's table."""
    if join.as_of and join.type not in ("inner", "left"):
        message = f"join.type: as_of is for inner and left joins, got {join.type}"
        yield RuleViolation(("join", "type"), message, is_about_value=True)
    if join.as_of and join.ttl is not None and join.ttl.time == "processing":
        message = "join.ttl: as_of goes by event time"
        yield RuleViolation(("join", "ttl"), message, "leave out time: processing")
    yield from _check_emit(join, window)
    yield from _check_late_to(join, window)
    if window is not None:
        yield from _check_join_window(join, window)


def _check_emit(join: Join, window: Window | None) -> Iterator[RuleViolation]:
    if join.emit != "at_once":
        return
    if join.type not in RETRACTING_JOIN_TYPES:
        message = f"join.emit: at_once is for {', '.join(RETRACTING_JOIN_TYPES)} joins"
        hint = f"leave it out: a join of type {join.type} emits a row with its first match"
        yield RuleViolation(("join", "emit"), f"{message}, got {join.type}", hint)
    limits = [key for key in ("within", "as_of", "ttl") if key in join.model_fields_set]
    if limits or window is not None:
        message = f"join.emit: at_once does not go with {limits[0] if limits else 'window'}"
        hint = "leave it out, or let rows match without a limit in time"
        yield RuleViolation(("join", "emit"), message, hint)


def _check_late_to(join: Join, window: Window | None) -> Iterator[RuleViolation]:
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
    by_event_time = join.ttl is not None and join.ttl.time == "event"
    if not (by_event_time or window or {"within", "as_of"} & join.model_fields_set):
        message = 'join: "late_to" needs within, as_of, ttl or window'
        yield RuleViolation(("join", "late_to"), message, "rows are never late otherwise")


def _check_join_window(join: Join, window: Window) -> Iterator[RuleViolation]:
    yield from check_rules(WINDOW_RULES, list_given_keys(window) | {"join"}, "window")
    if window.time == "processing":
        message = "window: a join goes by event time"
        yield RuleViolation(("window", "time"), message, "leave out time: processing")
    if window.lateness and join.type in UNMATCHED_JOIN_TYPES:
        message = f"window: lateness is for inner joins, got {join.type}"
        hint = "a row emitted without a match would have to be retracted"
        yield RuleViolation(("window", "lateness"), message, hint)
