"""Causes in event time: who holds a watermark back, which windows wait, what is too late.

A step's watermark follows the slowest split of the sources before it that is neither idle nor
ended. So the split that holds a step back is found without the steps between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from headrace.core.diagnosis.figures import SampleSpan, find_parts_before
from headrace.core.diagnosis.findings import DiagnosisLimits, Finding
from headrace.core.diagnosis.phrases import (
    format_interval,
    format_pause,
    format_watermark,
    join_names,
    suggest_idle,
)
from headrace.core.plan import nodes
from headrace.core.plan.formatting import format_microseconds
from headrace.core.plan.layout import get_keyed_operation
from headrace.core.plan.nodes.windows import (
    Count,
    Cumulate,
    Session,
    Slide,
    Tumble,
    Window,
)
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.report import SplitStatistics


@dataclass(frozen=True, slots=True)
class SplitOfSource:
    """A split that is being read, with its source."""

    source: nodes.Source
    split: SplitStatistics

    @property
    def order(self) -> tuple[int, int]:
        """The place among other splits: the slowest first."""
        at_us = self.split.watermark_us
        return (0, 0) if at_us is None else (1, at_us)


def find_time_causes(span: SampleSpan, limits: DiagnosisLimits) -> Iterator[Finding]:
    """Yield the causes in event time."""
    yield from _find_future_times(span, limits)
    yield from _find_held_watermarks(span, limits)
    yield from _find_drift_pauses(span, limits)
    yield from _find_waiting_windows(span, limits)
    yield from _find_late_rows(span, limits)


def list_sources_before(plan: nodes.Plan, part: str) -> list[nodes.Source]:
    """Return the sources with event time from which rows reach a part, in the plan's order."""
    reached = find_parts_before(plan, part)
    return [
        each
        for each in plan
        if isinstance(each, nodes.Source)
        and each.name in reached
        and each.outputs[0].has_event_time
    ]


def _find_future_times(span: SampleSpan, limits: DiagnosisLimits) -> Iterator[Finding]:
    """Yield sources whose watermark is ahead of the clock: rows of now are late for it."""
    for source in span.now.plan:
        if not isinstance(source, nodes.Source) or not source.outputs[0].has_event_time:
            continue
        ahead = [
            (split.watermark_us, split.name)
            for split in span.now.list_splits(source.name)
            if split.watermark_us is not None
            and not split.is_ended
            and split.watermark_us - span.now.at_us > limits.future_us
        ]
        if ahead:
            at_us, name = max(ahead)
            lead = format_interval(at_us - span.now.at_us)
            yield Finding(
                "future_watermark",
                source.name,
                f"a row of split {name} had a time {lead} ahead of the clock: the watermark is "
                f"{format_watermark(at_us)}, and rows with times before it are late",
                f"`event_time:` of source {source.name}: make it null for such rows, and "
                "`on_error: skip` leaves them out",
                span.history.get_since_us("split_watermark", source.name, name),
            )


def _find_held_watermarks(span: SampleSpan, limits: DiagnosisLimits) -> Iterator[Finding]:
    """Yield the splits that hold back the watermarks of steps."""
    held: dict[tuple[str, str], tuple[SplitOfSource, list[str]]] = {}
    for part in span.now.plan:
        counts = span.now.statistics.parts.get(part.name)
        if counts is None or counts.late_rows is None:
            continue  # its results do not wait for event time
        if not span.is_still(limits.still_us, "watermark", part.name):
            continue
        if (holder := _find_holder(span, part.name)) is not None:
            key = holder.source.name, holder.split.name
            held.setdefault(key, (holder, []))[1].append(part.name)
    for holder, steps in held.values():
        if (finding := _describe_holder(span, limits, holder, steps)) is not None:
            yield finding


def _list_live_splits(span: SampleSpan, part: str) -> list[SplitOfSource]:
    return [
        SplitOfSource(source, split)
        for source in list_sources_before(span.now.plan, part)
        for split in span.now.list_splits(source.name)
        if not split.is_ended
    ]


def _find_holder(span: SampleSpan, part: str) -> SplitOfSource | None:
    """Return the slowest split before a part that is not idle."""
    live = [each for each in _list_live_splits(span, part) if not each.split.is_idle]
    return min(live, key=lambda each: each.order, default=None)


def _describe_holder(
    span: SampleSpan, limits: DiagnosisLimits, holder: SplitOfSource, steps: list[str]
) -> Finding | None:
    """Return the finding for a split that holds back steps, unless it just has no rows."""
    source, split = holder.source, holder.split
    at = format_watermark(split.watermark_us)
    waits = f"{join_names(steps)} wait{'s' if len(steps) == 1 else ''} for it"
    since_us = span.history.get_since_us("split_watermark", source.name, split.name)
    if span.is_still(limits.still_us, "split_position", source.name, split.name):
        others = _list_live_splits(span, steps[0])
        is_behind = any(each.order > holder.order for each in others)
        if not is_behind or split.unread_records:
            return None  # nothing comes anywhere, or it is read later
        return Finding(
            "idle_split",
            source.name,
            f"split {split.name} has no rows and holds the watermark at {at}, while others are "
            f"further; {waits}",
            suggest_idle(source),
            since_us,
        )
    if not span.is_still(limits.still_us, "split_watermark", source.name, split.name):
        return None
    return Finding(
        "watermark_stands_still",
        source.name,
        f"rows of split {split.name} arrive, but the watermark stays at {at}; {waits}",
        _suggest_watermark(source),
        since_us,
    )


def _find_drift_pauses(span: SampleSpan, limits: DiagnosisLimits) -> Iterator[Finding]:
    """Yield sources of which splits are not read, because event time of another one stands still.

    A pause that ends when slower splits have caught up is what `max_drift` is for.
    """
    for source in span.now.plan:
        if not isinstance(source, nodes.Source) or source.watermark is None:
            continue
        live = [
            SplitOfSource(source, split)
            for split in span.now.list_splits(source.name)
            if not split.is_ended and not split.is_idle
        ]
        paused = [
            each.split.name
            for each in live
            if each.split.is_paused
            and span.is_still(limits.still_us, "split_position", source.name, each.split.name)
        ]
        drift = source.watermark.max_drift
        if not paused or drift is None:
            continue
        slowest = min(live, key=lambda each: each.order).split
        if not span.is_still(limits.still_us, "split_watermark", source.name, slowest.name):
            continue
        limit = format_microseconds(drift // timedelta(microseconds=1))
        plural = len(paused) > 1
        yield Finding(
            "drift_pauses",
            source.name,
            f"split{'s' if plural else ''} {join_names(paused)} {'are' if plural else 'is'} not "
            f"read, more than {limit} ahead of split {slowest.name}, which is at "
            f"{format_watermark(slowest.watermark_us)}",
            f"{suggest_idle(source)}, or a longer `max_drift:` than {limit}",
            span.history.get_since_us("split_position", source.name, paused[0]),
        )


def _suggest_watermark(source: nodes.Source) -> str:
    """Return the setting that the watermark of a source comes from."""
    wanted = source.watermark
    if wanted is not None and wanted.from_ is not None:
        of = f"`watermark: {{from: ...}}` of source {source.name}"
        return f"{of}: its value is null or does not grow"
    if wanted is not None and wanted.python is not None:
        return f"the function in `watermark:` of source {source.name}: its result does not grow"
    return f"`event_time:` of source {source.name}: no row is later than the highest so far"


def _find_waiting_windows(span: SampleSpan, limits: DiagnosisLimits) -> Iterator[Finding]:
    """Yield the steps whose windows hold rows, and that have emitted nothing for long."""
    for part in span.now.plan:
        keyed, counts = get_keyed_operation(part), span.now.statistics.parts.get(part.name)
        window = None if keyed is None else getattr(keyed, "window", None)
        if not isinstance(window, Window) or window.uses_processing_time or counts is None:
            continue
        has_rows = bool(counts.state and counts.state.rows)
        usual_us = limits.still_us
        if counts.rows_out:  # it has emitted before: not more often than it can
            usual_us += 2 * (_get_interval_us(window) or 0)
        if not has_rows or not span.is_still(usual_us, "rows_out", part.name):
            continue
        what, setting = _describe_window(window, counts.watermark_us, part.name)
        yield Finding(
            "windows_wait",
            part.name,
            what,
            setting,
            span.history.get_since_us("rows_out", part.name),
        )


def _get_interval_us(window: Window) -> int | None:
    """Return the time between the ends of two windows, where it is fixed."""
    match window.shape:
        case Tumble(size_us):
            return size_us
        case Slide() | Cumulate():
            return window.shape.every_us
        case Session(gap_us):
            return gap_us
    return None


def _describe_window(window: Window, watermark_us: int | None, step: str) -> tuple[str, str]:
    """Return what windows wait for, and the setting that says so."""
    at = format_watermark(watermark_us)
    match window.shape:
        case Tumble() | Slide() | Cumulate() as shape:
            every_us = _get_interval_us(window)
            assert every_us is not None
            if watermark_us is None:
                until = "their end"
            else:
                offset_us = shape.offset_us
                end_us = (watermark_us - offset_us) // every_us * every_us + every_us + offset_us
                until = format_watermark(end_us)
            size = format_microseconds(shape.size_us)
            message = f"windows of {size} wait for the watermark to pass {until}; it is at {at}"
        case Session(gap_us):
            gap = format_microseconds(gap_us)
            message = f"sessions end {gap} after the last row of a key; the watermark is at {at}"
        case Count(rows):
            return (
                f"windows of {rows} rows are not full",
                f"`window: {{count: {rows}}}` of step {step}",
            )
        case _:
            message = "its window ends with the input, or when its trigger fires"
    return message, f"`window:` of step {step}; `trigger:` emits results before the end"


def _find_late_rows(span: SampleSpan, limits: DiagnosisLimits) -> Iterator[Finding]:
    """Yield the steps that dropped rows as too late."""
    for name, counts in span.now.statistics.parts.items():
        late = counts.late_rows or 0
        if not late or late < limits.lost_share * counts.rows_in:
            continue
        sources = join_names([each.name for each in list_sources_before(span.now.plan, name)])
        yield Finding(
            "late_rows",
            name,
            f"{late:,} of {counts.rows_in:,} rows were too late for their windows"
            f"{format_pause(span.measure_pause_us('late', name))}",
            f"`watermark: {{delay: ...}}` of {sources or 'the source'}, or `lateness:` and "
            f"`late_to:` of step {name}",
        )
