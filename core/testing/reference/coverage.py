"""The streams of which the interpreter knows the rows, in a run of which only the rows are known.

It has no answer where rows depend on user code, on random values, on the wall clock or on `ttl`, or
on the order of rows where that differs from run to run. Where rows are late, it must also know the
watermark that they come behind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace

from headrace.core.aggregates.over_calls import RankCall
from headrace.core.api.user_code import UserCode
from headrace.core.expressions.typed import ProcessingTime, RandomBits
from headrace.core.plan import nodes
from headrace.core.plan.layout import get_loop
from headrace.core.plan.loop_bodies import find_loop_bodies, sort_for_rounds
from headrace.core.plan.nodes.matching import (
    AsOfMatch,
    BroadcastMatch,
    ChangelogMatch,
    ConnectedMatch,
    IntervalMatch,
    RuleMatch,
    TableMatch,
    WindowMatch,
)
from headrace.core.plan.nodes.windows import Count, Global, Session, Window
from headrace.core.types.lazy_dataclass import dataclass

UNKNOWN_VALUES = (ProcessingTime, RandomBits, UserCode)
"""Parts of operations whose values the interpreter does not know."""
USER_CODE = (nodes.Apply, nodes.Map, nodes.Process)


@dataclass(frozen=True, slots=True)
class KnownRows:
    """Facts about the rows of a stream besides their values."""

    has_order: bool
    """Whether the rows of a key come in an order that is the same in each run."""
    has_watermark: bool
    """Whether it is known which rows come behind the watermark."""


@dataclass(slots=True)
class CoverageFinder:
    """Finds the streams with known rows; `split_counts` has the number of splits of sources."""

    plan: nodes.Plan
    split_counts: Mapping[str, int]
    has_late_rows: bool

    def find(self) -> frozenset[str]:
        """Return the names of the streams."""
        found = dict[str, KnownRows]()
        for part in sort_for_rounds(self.plan):
            match part:
                case nodes.Source() if not _has_unknown_values((part.times, part.time_condition)):
                    is_single = self.split_counts.get(part.name, 1) == 1
                    found[part.name] = KnownRows(is_single, has_watermark=part.table is None)
                case nodes.Step() if get_loop(part) is not None:
                    if self._knows_loop(part, found):
                        rows = KnownRows(has_order=False, has_watermark=False)
                        found |= {stream.name: rows for stream in part.outputs}
                case nodes.Step() if all(name in found for name in part.inputs):
                    inputs = [found[name] for name in part.inputs]
                    if (known := self._follow_step(part, inputs)) is not None:
                        names = {stream.name for stream in part.outputs} - {part.on_error}
                        found |= dict.fromkeys(names, known)
        return frozenset(found)

    def _knows_loop(self, head: nodes.Step, found: Mapping[str, KnownRows]) -> bool:
        """Whether the rows of a loop are known: those of all steps inside have to be."""
        if _has_unknown_values(head.operations) or not all(name in found for name in head.inputs):
            return False
        loop = get_loop(head)
        assert loop is not None
        rows = KnownRows(has_order=False, has_watermark=False)
        inside = dict.fromkeys(loop.list_inner_streams(head.name), rows)
        for step in find_loop_bodies(self.plan)[head.name].values():
            streams = {**found, **inside}
            if not all(name in streams for name in step.inputs):
                return False
            known = self._follow_step(step, [streams[name] for name in step.inputs])
            if known is None:
                return False
            inside |= {stream.name: known for stream in step.outputs}
        return True

    def _follow_step(self, step: nodes.Step, inputs: Collection[KnownRows]) -> KnownRows | None:
        """Return the facts about the output of a step; None: its rows are not known."""
        if _has_unknown_values(step.operations):
            return None
        known: KnownRows | None = KnownRows(
            len(inputs) == 1 and all(each.has_order for each in inputs),
            all(each.has_watermark for each in inputs),
        )
        kinds = [self.plan.streams[name].kind for name in step.inputs]
        is_append = all(isinstance(kind, nodes.Append) for kind in kinds)
        for operation in step.operations:
            if known is None or (isinstance(operation, nodes.Match) and step.on_error):
                return None  # which rows fail by `max_runs` is not known
            known = self._follow(operation, known, is_append=is_append)
            is_append = is_append and not _replaces_rows(operation)
        return known

    def _follow(
        self, operation: nodes.Operation, known: KnownRows, *, is_append: bool
    ) -> KnownRows | None:
        if isinstance(operation, USER_CODE) or (_needs_order(operation) and not known.has_order):
            return None
        if not self._knows_late_rows(operation, known, is_append=is_append):
            return None
        match operation:
            case nodes.Join():
                return _follow_join(operation)
            case nodes.Aggregate(window=window, ttl=ttl) | nodes.Top(window=window, ttl=ttl):
                if ttl is not None or (window is not None and _depends_on_time(window)):
                    return None
                is_on_time = window is not None and window.has_bounds and not window.lateness_us
                is_on_time = is_on_time and not isinstance(window and window.shape, Session)
                return KnownRows(has_order=False, has_watermark=is_on_time)
            case nodes.Dedup(changes=changes):
                if operation.ttl is not None or (changes is not None and changes.by == "arrival"):
                    return None
                return replace(known, has_watermark=False)
            case nodes.Over():
                return replace(known, has_watermark=False)
            case nodes.RowTime():
                return replace(known, has_watermark=False)
            case nodes.Match():
                return KnownRows(has_order=False, has_watermark=False)
            case nodes.ChangelogConversion() if operation.added_columns:
                return None
        return known

    def _knows_late_rows(
        self, operation: nodes.Operation, known: KnownRows, *, is_append: bool
    ) -> bool:
        """Whether it is known which rows come too late for an operation, if any may.

        A change may remove a row long after its time.
        """
        is_known = is_append and (known.has_watermark or not self.has_late_rows)
        match operation:
            case nodes.Join(matching=AsOfMatch() | IntervalMatch() | WindowMatch()):
                has_no_watermark = isinstance(operation.matching, WindowMatch)
                is_known = not self.has_late_rows or (is_known and not has_no_watermark)
                return is_known or not operation.has_late_rows
            case nodes.Join():
                return not self.has_late_rows or not operation.has_late_rows
            case nodes.Over() | nodes.Match() | nodes.Dedup(uses_event_time=True, changes=None):
                return is_known
            case (
                nodes.Aggregate(window=Window(shape=shape)) | nodes.Top(window=Window(shape=shape))
            ):
                return is_known or isinstance(shape, Count | Global)
        return True


def _follow_join(join: nodes.Join) -> KnownRows | None:
    """Return the facts about the rows of a join; None: they are not known."""
    match join.matching:
        case ConnectedMatch() | RuleMatch():
            return None
        case IntervalMatch(uses_processing_time=True) | BroadcastMatch(uses_event_time=False):
            return None
        case ChangelogMatch(ttl=ttl) if ttl is not None:
            return None
        case TableMatch(ttl_us=ttl_us) if ttl_us is not None:
            return None
        case WindowMatch(window) if _depends_on_time(window):
            return None
    return KnownRows(has_order=False, has_watermark=False)


def _depends_on_time(window: Window) -> bool:
    """Whether the rows of a window depend on when it fires."""
    trigger = window.trigger
    return window.uses_processing_time or (
        trigger is not None and not window.keeps_rows and trigger.every_us is not None
    )


def _needs_order(operation: nodes.Operation) -> bool:
    """Whether the result depends on the order of rows, of which some may have the same time."""
    match operation:
        case nodes.Aggregate(window=window):
            calls = (call for each in operation.columns for call in each.expression.calls)
            return any(call.needs_order for call in calls) or _is_ordered(window)
        case nodes.Top(ties=ties, window=window):
            return ties == "row_number" or _is_ordered(window)
        case nodes.Dedup(changes=None) | nodes.Match():
            return True
        case nodes.Over():
            over = (call for each in operation.columns for call in each.expression.calls)
            return any(not isinstance(c, RankCall) or c.function == "row_number" for c in over)
    return False


def _is_ordered(window: Window | None) -> bool:
    """Whether the order of rows decides which of them are in a window when it fires."""
    if window is None:
        return False
    counts = window.trigger is not None and window.trigger.count is not None
    return (
        isinstance(window.shape, Count)
        or window.evict is not None
        or (counts and (not window.keeps_rows or not window.fires_at_end))
    )


def _replaces_rows(operation: nodes.Operation) -> bool:
    """Whether the rows after an operation may replace or remove others."""
    match operation:
        case nodes.Aggregate(window=window) | nodes.Top(window=window):
            return window is None or window.can_fire_again
        case nodes.Dedup(keep=keep):
            return keep == "last"
    return False


def _has_unknown_values(value: object) -> bool:
    return any(isinstance(each, UNKNOWN_VALUES) for each in _walk_values(value))


def _walk_values(value: object) -> Iterator[object]:
    """Yield a value of a plan, and all values in its fields."""
    yield value
    if isinstance(value, tuple):
        for item in value:
            yield from _walk_values(item)
    elif is_dataclass(value):
        for each in fields(value):
            yield from _walk_values(getattr(value, each.name, None))
