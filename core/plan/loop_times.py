"""The clauses that wait for event time: a step inside of a loop may not have them.

Tests: tests/core/plan/test_loops.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import (
    BroadcastMatch,
    ChangelogMatch,
    ConnectedMatch,
    IntervalMatch,
    RuleMatch,
    TableMatch,
)
from headrace.core.plan.nodes.windows import Count, Ttl

_WAITS = "{} waits for event time, which stands still while rows go round"
TIME_REASONS: Mapping[str, str] = {
    "event_time": "event_time is computed in the source, which rows that come back do not pass",
    "window": _WAITS.format("window"),
    "over": _WAITS.format("over"),
    "match": _WAITS.format("match"),
    "dedup": _WAITS.format("dedup by event time"),
    "join": _WAITS.format("a join in time"),
    "broadcast": _WAITS.format("broadcast by event time"),
    "process": _WAITS.format("process by event time"),
    "ttl": _WAITS.format("ttl by event time"),
}
TIME_HINTS: Mapping[str, str] = {
    "event_time": "set event_time in the source",
    "window": "window: {count: ...} and aggregates without a window do not wait",
    "over": "do it before or after the loop",
    "match": "do it before or after the loop",
    "dedup": "order: arrival does not wait, and ttl: {after: ..., time: processing}",
    "join": "a join without within, as_of and window does not wait",
    "broadcast": "order: arrival does not wait",
    "process": 'order: arrival does not wait, nor do timers and ttl with time="processing"',
    "ttl": "ttl: {after: 1h, time: processing} goes by the wall clock",
}


def find_time_clauses(operation: nodes.Operation) -> Iterator[str]:
    """Yield the clauses of an operation that wait for event time."""
    if (body := nodes.find_process_body(operation)) is not None:
        if _waits_for_time(body):
            yield "process"
        return
    match operation:
        case nodes.Join(matching=matching) if _joins_in_time(operation):
            clauses = {BroadcastMatch: "broadcast", RuleMatch: "match"}
            yield clauses.get(type(matching), "join")
        case nodes.Over():
            yield "over"
        case nodes.Match():
            yield "match"
        case nodes.Dedup(ttl=ttl) if operation.uses_event_time or _is_event_time(ttl):
            yield "dedup"
        case nodes.RowTime():
            yield "event_time"
        case nodes.Aggregate(window=window, ttl=ttl) | nodes.Top(window=window, ttl=ttl):
            if window is not None and not isinstance(window.shape, Count):
                yield "window"
            if _is_event_time(ttl):
                yield "ttl"
        case nodes.Apply(window=window) if not isinstance(window.shape, Count):
            yield "window"


def _waits_for_time(body: nodes.ProcessBody) -> bool:
    """Whether a class goes by event time, in its order or in a timer or ttl."""
    by_time = [each for _, each in body.states if each.ttl_us is not None]
    by_time += [each for _, each in body.timers]
    return body.uses_event_time or not all(each.processing for each in by_time)


def _joins_in_time(join: nodes.Join) -> bool:
    """Whether a join waits for event time, or forgets rows by it."""
    match join.matching:
        case IntervalMatch(least_us=None) | IntervalMatch(uses_processing_time=True):
            return False
        case ChangelogMatch(ttl=ttl):
            return _is_event_time(ttl)
        case TableMatch(ttl_us=None) | BroadcastMatch(uses_event_time=False) | ConnectedMatch():
            return False
    return True


def _is_event_time(ttl: Ttl | None) -> bool:
    return ttl is not None and not ttl.uses_processing_time
