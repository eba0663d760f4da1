"""Causes in rows: sources without rows, lookups without answers, bad rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.core.diagnosis.figures import SampleSpan, find_parts_before
from headrace.core.diagnosis.findings import USUAL_GAPS, DiagnosisLimits, Finding
from headrace.core.diagnosis.phrases import describe_input, format_pause
from headrace.core.plan import nodes
from headrace.core.plan.formatting import format_microseconds
from headrace.core.plan.layout import get_lookup, get_loop
from headrace.core.plan.loop_bodies import find_loop_bodies, list_loops
from headrace.core.worker.report import SubtaskStatistics
from headrace.core.worker.statistics import PartCounts


def find_row_causes(span: SampleSpan, limits: DiagnosisLimits) -> Iterator[Finding]:
    """Yield the causes in rows."""
    for part in span.now.plan:
        counts = span.now.statistics.parts.get(part.name)
        if counts is None:
            continue
        if isinstance(part, nodes.Source):
            yield from _find_missing_rows(span, limits, part, counts)
            yield from _find_subtasks_without_splits(span, part)
        elif isinstance(part, nodes.Step):
            yield from _find_lookup_causes(span, limits, part, counts)
            yield from _find_endless_loop(span, limits, part)
        yield from _find_bad_rows(span, limits, part, counts)


def _find_missing_rows(
    span: SampleSpan, limits: DiagnosisLimits, source: nodes.Source, counts: PartCounts
) -> Iterator[Finding]:
    """Yield a source that reads nothing, though none of its consumers makes it wait."""
    subtasks = span.now.list_subtasks(source.name)
    if not subtasks or all(each.is_ended for each in subtasks):
        return
    if any(_is_held_up(span, limits, each) for each in subtasks):
        return
    since_us = span.history.get_since_us("rows_in", source.name)
    read_us = (since_us or 0) - (span.history.started_us or 0)
    usual_us = read_us // counts.rows_in if counts.rows_in else 0
    if not span.is_still(max(limits.still_us, USUAL_GAPS * usual_us), "rows_in", source.name):
        return
    if counts.rows_in and _is_output_of_others(span, limits, source.name):
        return
    known = list(span.now.list_splits(source.name))
    splits = [each for each in known if not each.is_ended]
    unread = sum(each.unread_records or 0 for each in splits)
    if not splits and known:
        state = f"its {_count_splits(len(known))} read to the end"
    elif not splits:
        state = "it has no splits"
    elif unread:
        state = f"{unread:,} records are there to read"
    elif all(each.unread_records == 0 for each in splits):
        state = f"its {_count_splits(len(splits))} read to the end"
    else:
        state = f"its {_count_splits(len(splits))} open"
    had = "no row yet" if not counts.rows_in else f"no row after the first {counts.rows_in:,}"
    yield Finding(
        "no_rows",
        source.name,
        f"{had}; {state}",
        describe_input(source),
        since_us,
    )


def _is_output_of_others(span: SampleSpan, limits: DiagnosisLimits, source: str) -> bool:
    """Whether a sink of a source without new rows goes on, because of other sources.

    So does that of a join with a table that seldom changes.
    """
    plan, history = span.now.plan, span.history
    since_us = history.get_since_us("rows_in", source) or 0
    for sink in plan:
        written_us = history.get_since_us("rows_in", sink.name) or 0
        if not isinstance(sink, nodes.Sink) or written_us - since_us < limits.still_us:
            continue
        before = find_parts_before(plan, sink.name)
        sources = [e.name for e in plan if isinstance(e, nodes.Source) and e.name in before]
        moving = [e for e in sources if not span.is_still(limits.still_us, "rows_in", e)]
        if source in sources and moving:
            return True
    return False


def _count_splits(count: int) -> str:
    return "split is" if count == 1 else f"{count} splits are"


def _is_held_up(span: SampleSpan, limits: DiagnosisLimits, subtask: SubtaskStatistics) -> bool:
    return span.measure_shares(subtask).backpressured >= limits.high_share


def _find_subtasks_without_splits(span: SampleSpan, source: nodes.Source) -> Iterator[Finding]:
    """Yield a source with more subtasks than splits."""
    subtasks = span.now.list_subtasks(source.name)
    empty = [each for each in subtasks if each.splits == ()]
    splits = list(span.now.list_splits(source.name))
    if not empty or all(each.is_ended for each in splits):
        return
    has = "has" if len(empty) == 1 else "have"
    yield Finding(
        "subtasks_without_splits",
        source.name,
        f"{len(empty)} of {len(subtasks)} subtasks {has} no split to read: there "
        f"{'is 1 split' if len(splits) == 1 else f'are {len(splits)} splits'}",
        f"more splits in the input of {source.name}, or `parallelism: {len(splits)}` in "
        "`settings:` and more for slow steps",
    )


def _find_endless_loop(
    span: SampleSpan, limits: DiagnosisLimits, head: nodes.Step
) -> Iterator[Finding]:
    """Yield a loop in which rows go round, though no row has entered or left for a while."""
    loop, name = get_loop(head), head.name
    if loop is None or span.is_still(limits.still_us, "rows_in", name):
        return
    inside = {name, *find_loop_bodies(span.now.plan)[name]}
    crossing = [e for e in span.now.plan.edges if (e.producer in inside) != (e.consumer in inside)]
    before = [edge.producer for edge in crossing if edge.consumer in inside]
    figures = [("rows_out", each) for each in before]
    figures += [("rows_in", edge.consumer) for edge in crossing if edge.producer in inside]
    rows = sum(span.count_rows_in(each, name) for each in span.now.list_subtasks(name))
    if not rows or not all(span.is_still(limits.still_us, *each) for each in figures):
        return
    why = "the table leaves the loop after the last round"
    if loop.table is None:
        why = "none has left the loop, and none has entered it"
    message = f"{rows:,} rows came back of late, but {why}"
    since_us = span.history.get_since_us("rows_out", before[0])
    yield Finding("rows_go_round", name, message, _describe_loop_end(name, loop), since_us)


def find_loops_without_exit(plan: nodes.Plan, parts: Mapping[str, PartCounts]) -> Iterator[Finding]:
    """Yield the loops of a job that was stopped from which no row has left."""
    for head, loop in list_loops(plan):
        name, counters = head.name, parts[head.name].metrics.counters
        readers = [edge.consumer for edge in plan.edges if edge.stream == name]
        if loop.table is None:
            back = counters.get("rows_back", 0)
            has_left = any(counters.get(each) for each in ("rows_left", "rows_over"))
            message = f"{back:,} rows came back, and none has left the loop"
        else:
            back = counters.get("rounds", 0)
            has_left = any(parts[reader].rows_in for reader in readers)
            message = f"{back:,} rounds have ended, and the table leaves after the last one"
        if back and not has_left:
            yield Finding("rows_go_round", name, message, _describe_loop_end(name, loop))


def _describe_loop_end(head: str, loop: nodes.Loop) -> str:
    """Name the settings that end a loop."""
    if loop.table is None:
        return f"`until:` of step {head}; with `max_rounds:` no row goes round for ever"
    limit = "rounds" if loop.table.delta is None else "max_rounds"
    return f"`{limit}: {loop.table.count}` and `until:` of step {head}"


def _find_lookup_causes(
    span: SampleSpan, limits: DiagnosisLimits, step: nodes.Step, counts: PartCounts
) -> Iterator[Finding]:
    """Yield a step whose lookup table fails or does not answer."""
    lookup, calls = get_lookup(step), counts.lookup
    if lookup is None or calls is None or not calls.calls:
        return
    timeout = format_microseconds(lookup.timeout_us)
    setting = (
        f"`timeout: {timeout}`, `retries: {lookup.retries}` and `concurrency: "
        f"{lookup.concurrency}` of the lookup in step {step.name}"
    )
    if calls.failures:
        yield Finding(
            "lookup_fails",
            step.name,
            f"{calls.failures:,} of {calls.calls:,} calls of its table {lookup.connector} failed "
            "after all retries",
            setting,
        )
    waiting = counts.rows_in - counts.rows_out - counts.bad_rows - calls.missed
    if waiting > 0 and span.is_still(limits.still_us, "rows_out", step.name):
        yield Finding(
            "lookup_waits",
            step.name,
            f"{waiting:,} rows wait for answers of its table {lookup.connector}; "
            f"{calls.calls:,} calls were made",
            setting,
            span.history.get_since_us("rows_out", step.name),
        )


def _find_bad_rows(
    span: SampleSpan, limits: DiagnosisLimits, part: nodes.PlanPart, counts: PartCounts
) -> Iterator[Finding]:
    """Yield a part that leaves out bad rows."""
    bad = counts.bad_rows
    if not bad or bad < limits.lost_share * counts.rows_in or isinstance(part, nodes.Sink):
        return
    kind = "source" if isinstance(part, nodes.Source) else "step"
    pause = format_pause(span.measure_pause_us("bad", part.name))
    if part.on_error == "skip":
        fate, setting = (
            "are left out",
            f"`on_error:` of {kind} {part.name}: `{{to: NAME}}` collects",
        )
    else:
        fate, setting = f"go to {part.on_error}", f"{part.on_error} has"
    reason = "`columns:` and `format:` say" if kind == "source" else "the code of the step says"
    yield Finding(
        "bad_rows",
        part.name,
        f"{bad:,} of {counts.rows_in:,} rows are bad and {fate}{pause}",
        f"{setting} them with the reason; {reason} what a good row is",
    )
