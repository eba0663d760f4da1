"""Warnings about unbounded state over endless inputs, and about windows that wait for files.

These pipelines are valid: a key may have few values, and there may be few files. But state that
never expires can fill any machine, and should be intended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headrace.core.pipeline.model import Pipeline
from headrace.core.plan.changelog import has_change_times
from headrace.core.plan.columns import PlanProblems
from headrace.core.plan.layout import get_keyed_operation, get_two_input_operation
from headrace.core.plan.nodes import (
    Aggregate,
    Apply,
    Dedup,
    Join,
    KeyedOperation,
    Match,
    Over,
    PlanPart,
    Process,
    ProcessBody,
    Sink,
    Step,
    Top,
)
from headrace.core.plan.nodes.matching import (
    AsOfMatch,
    BroadcastMatch,
    ChangelogMatch,
    ConnectedMatch,
    IntervalMatch,
    JoinMatching,
    RuleMatch,
    TableMatch,
    WindowMatch,
)
from headrace.core.plan.nodes.windows import Global, Trigger, Window
from headrace.core.plan.over_reach import measure_reach

TTL_HINT = "drops a key that long after its last row"


def warn_of_growth(pipeline: Pipeline, parts: Iterable[PlanPart], report: PlanProblems) -> None:
    """Warn of steps whose state grows as long as rows arrive."""
    parts = tuple(parts)
    timed = {
        s.name
        for part in parts
        if not isinstance(part, Sink)
        for s in part.outputs
        if s.has_event_time and not has_change_times(s.kind)
    }
    endless = find_reached_streams(parts, _list_endless_sources(pipeline))
    for step, join in _list_joins(parts):
        if not endless.keys().isdisjoint(step.inputs) and (grows := _find_join_growth(join)):
            report.subject = f'step "{step.name}"'
            clause = _get_join_clause(join)
            report.warn(grows[0], pipeline.steps[step.name].keys_at[clause].locate(), grows[1])
    for step, keyed in _list_keyed_steps(parts):
        if endless.keys().isdisjoint(step.inputs):
            continue
        found = _find_growth(keyed, timed=timed.issuperset(step.inputs))
        if found:
            clause, message, hint = found
            keys = pipeline.steps[step.name].keys_at
            if "sql" in keys:
                hint = hint.replace("dedup: {..., ttl: 1h}", "ttl: 1h")
            report.subject = f'step "{step.name}"'
            report.warn(message, keys[clause].locate(), hint)


def warn_of_waiting(pipeline: Pipeline, parts: Iterable[PlanPart], report: PlanProblems) -> None:
    """Warn of sources whose unread files hold windows back."""
    parts = tuple(parts)
    waiting: dict[str, list[str]] = {name: [] for name in pipeline.sources}
    windows: dict[str, bool] = {}
    sources_by_stream = find_reached_streams(parts, _list_holding_sources(pipeline))
    for step, keyed in _list_keyed_steps(parts):
        if _waits_for_event_time(keyed):
            windows[step.name] = not isinstance(keyed, Dedup | Over | Match | Process)
            for name in {
                sources_by_stream[name]: None for name in step.inputs if name in sources_by_stream
            }:
                waiting[name].append(step.name)
    for step, join in _list_joins(parts):
        if isinstance(join.matching, WindowMatch | AsOfMatch) or _matches_by_event_time(
            join.matching
        ):
            windows[step.name] = isinstance(join.matching, WindowMatch)
            for name in {
                sources_by_stream[name]: None for name in step.inputs if name in sources_by_stream
            }:
                waiting[name].append(step.name)
    for name, steps in waiting.items():
        if steps:
            source = pipeline.sources[name]
            report.subject = f'source "{name}"'
            suffix = "with windows" if all(map(windows.get, steps)) else "in event time"
            what = "windows" if windows[steps[0]] else "rows"
            who = f'{what} of "{steps[0]}"' if len(steps) == 1 else f"{len(steps)} steps {suffix}"
            message = f"the {who} wait until its last file is being read"
            hint = "if names sort by time, say so: ordered: true"
            report.warn(message, source.keys_at[source.connector.name].locate(), hint)


def _list_keyed_steps(parts: Iterable[PlanPart]) -> Iterator[tuple[Step, KeyedOperation]]:
    for part in parts:
        keyed = get_keyed_operation(part)
        if keyed is not None and isinstance(part, Step):
            yield part, keyed


def _list_joins(parts: Iterable[PlanPart]) -> Iterator[tuple[Step, Join]]:
    for part in parts:
        join = get_two_input_operation(part)
        if join is not None and isinstance(part, Step):
            yield part, join


def _matches_by_event_time(matching: JoinMatching) -> bool:
    return isinstance(matching, BroadcastMatch) and matching.uses_event_time


def _get_join_clause(join: Join) -> str:
    match join.matching:
        case BroadcastMatch():
            return "broadcast"
        case ConnectedMatch():
            return "process"
        case RuleMatch():
            return "match"
    return "join"


def _find_join_growth(join: Join) -> tuple[str, str] | None:
    """Return a message and a hint, if the state of a join grows as long as rows arrive."""
    match join.matching:
        case IntervalMatch(least_us=None):
            hint = "ttl: 1h drops rows that long after their event time"
            return "the rows of both inputs are stored forever", hint
        case AsOfMatch(ttl_us=None):
            message = f'the latest row of "{join.right.name}" is stored forever for every key'
            return message, "ttl: 1d drops older rows"
        case BroadcastMatch(key=None, ttl_us=None):
            hint = (
                "keep: {key: ...} says which row replaces which, "
                "keep: {ttl: 1d} how long a row is valid"
            )
            return f'every row of "{join.right.name}" is stored forever', hint
        case ConnectedMatch(body) if state := _find_endless_state(body):
            message = f'"{state}" of every key is stored forever'
            return message, 'it has no ttl, as in value("bigint", ttl="1h")'
        case TableMatch(ttl_us=None):
            return "the rows of both inputs are stored until a change removes them", ""
        case ChangelogMatch(ttl=None):
            hint = "ttl: 1d drops keys that long after their last row"
            return "the rows of both inputs are stored forever", hint
        case WindowMatch(Window(shape=Global())):
            return "a global window fires at the end, but its input has no end", ""
    return None


def _list_endless_sources(pipeline: Pipeline) -> set[str]:
    return {
        name
        for name, source in pipeline.sources.items()
        if source.connector.source and not source.connector.source.is_bounded(source.options)
    }


def _list_holding_sources(pipeline: Pipeline) -> set[str]:
    return {
        name
        for name, source in pipeline.sources.items()
        if source.connector.source and source.connector.source.holds_time_back(source.options)
    }


def find_reached_streams(parts: Iterable[PlanPart], sources: set[str]) -> Mapping[str, str]:
    """Return the streams that rows of these sources reach, each with one of the sources."""
    origins: dict[str, str] = {}
    for part in parts:
        if isinstance(part, Sink):
            continue
        above = part.inputs if isinstance(part, Step) else ()
        first = next((origins[name] for name in above if name in origins), None)
        origin = part.name if part.name in sources else first
        if origin is not None:
            origins.update((stream.name, origin) for stream in part.outputs)
    return origins


def _find_growth(keyed: KeyedOperation, *, timed: bool) -> tuple[str, str, str] | None:
    """Return a clause, a message and a hint, if state grows as long as rows arrive."""
    message = f"every {_format_key_names(keyed)} is stored forever"
    # Over rows that may be removed, ttl goes by their own event times.
    ttl_hint = f"ttl: 1h {TTL_HINT}" if timed and keyed.key else ""
    match keyed:
        case Over(ttl=None) if measure_reach(keyed).is_endless:
            message = "a row waits for the next rows of its key, which may never come"
            hint = "ttl: 1h says after how long without rows a key has no next row"
            return "over", message, hint
        case Over(key=(_, *_), ttl=None):
            return "over", message, f"ttl: 1h {TTL_HINT}"
        case Process(body=body) if state := _find_endless_state(body):
            return "process", message, f'"{state}" has no ttl, as in value("bigint", ttl="1h")'
        case Dedup(keep="first", ttl=None):
            ttl = "ttl: 1h" if timed else "ttl: 1h, time: processing"
            return "dedup", message, f"dedup: {{..., {ttl}}} {TTL_HINT}"
        case Aggregate(counts_values=True, ttl=None):
            message = "every value is stored until a change removes its last row"
            return "aggregate", message, ttl_hint
        case Top(ttl=None) if keyed.reads_retractions and keyed.stores_rows:
            message = "every row is stored until a change removes it"
            return ("dedup", message, "") if keyed.time_column else ("top", message, ttl_hint)
        case Aggregate(window=None | Window(shape=Global(), trigger=Trigger()), key=(_, *_)) if (
            keyed.reads_retractions and keyed.ttl is None
        ):
            message = f"{message.removesuffix('forever')}until its last row is removed"
            return "aggregate", message, "" if keyed.window else ttl_hint
        case Aggregate(changelog_key=tuple()) | Top(changelog_key=tuple()):
            clause = "top" if isinstance(keyed, Top) else "aggregate"
            by = ", ".join(keyed.changelog_key or ())
            return clause, f"the row of every {by} is stored until a change deletes it", ""
        case Top(window=None, ttl=None, key=(_, *_)) if keyed.has_ties:
            return "top", message, ttl_hint
        case (
            Aggregate(window=None, ttl=None, key=(_, *_)) | Top(window=None, ttl=None, key=(_, *_))
        ):
            clause = "top" if isinstance(keyed, Top) else "aggregate"
            ttl = "ttl: 1h" if timed else "ttl: {after: 1h, time: processing}"
            return clause, message, f"{ttl} {TTL_HINT}"
        case (
            Aggregate(window=Window(shape=Global(), trigger=None))
            | Apply(window=Window(shape=Global(), trigger=None))
            | Top(window=Window(shape=Global(), trigger=None))
        ):
            hint = "add a trigger, as in {global: true, trigger: {every: 1m}}"
            return "window", "a global window fires at the end, but its input has no end", hint
        case (
            Aggregate(window=Window(shape=Global(), keeps_rows=True), key=(_, *_))
            | Apply(window=Window(shape=Global(), keeps_rows=True), key=(_, *_))
        ):
            hint = "accumulate: false discards fired rows"
            return "window", message, hint
    return None


def _find_endless_state(body: ProcessBody) -> str | None:
    """Return a state of a class that never expires; a class with timers may clear its states."""
    states = () if body.timers else body.states
    return next(
        (n for n, declared in states if declared.ttl_us is None and not declared.shared), None
    )


def _format_key_names(keyed: KeyedOperation) -> str:
    names = ", ".join(column.name for column in keyed.key)
    return f"({names})" if len(keyed.key) > 1 else f'"{names}"'


def _waits_for_event_time(keyed: KeyedOperation) -> bool:
    if isinstance(keyed, Dedup):
        return keyed.uses_event_time
    if isinstance(keyed, Process):
        return keyed.body.uses_event_time
    if isinstance(keyed, Over | Match):
        return True
    window = keyed.window
    return window is not None and window.has_bounds and not window.uses_processing_time
