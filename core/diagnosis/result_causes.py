"""Causes in results: conditions that no row passes, and rows that match no others.

Nothing passes where nothing was emitted for many times as many rows as usual: a fixed limit would
accuse each rare stream.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.diagnosis.figures import SampleSpan
from headrace.core.diagnosis.findings import USUAL_GAPS, Cause, DiagnosisLimits, Finding
from headrace.core.diagnosis.phrases import describe_clause, format_watermark, join_names
from headrace.core.plan import nodes
from headrace.core.plan.formatting import format_microseconds
from headrace.core.plan.layout import get_keyed_operation, get_lookup, get_two_input_operation
from headrace.core.plan.nodes.matching import AsOfMatch, ConnectedMatch, RuleMatch, WindowMatch
from headrace.core.plan.nodes.windows import Cumulate, Slide, Tumble, Window
from headrace.core.worker.statistics import PartCounts

MATCH_CLAUSES = {WindowMatch: " and `window:`", AsOfMatch: " and the times of both inputs"}
"""The clauses besides `on:` by which rows of a join match."""


def find_result_causes(span: SampleSpan, limits: DiagnosisLimits) -> Iterator[Finding]:
    """Yield the steps whose rows are all dropped by a condition, or for want of a match."""
    for step in span.now.plan:
        counts = span.now.statistics.parts.get(step.name)
        if counts is None or not isinstance(step, nodes.Step):
            continue
        dropped = _count_dropped_rows(span, limits, step.name, counts)
        if not dropped:
            continue
        last = f"the last {dropped:,} rows" if counts.rows_out else f"the {dropped:,} rows"
        for find in (
            *(_find_empty_where, _find_empty_having, _find_unmatched),
            *(_find_missed, _find_missing_matches),
        ):
            yield from find(span, step, counts, last)


def _count_dropped_rows(
    span: SampleSpan, limits: DiagnosisLimits, step: str, counts: PartCounts
) -> int:
    """Return how many rows a step has received since its last output, if they are unusually many.

    0 if it has emitted something a short time ago.
    """
    if not span.is_still(limits.still_us, "rows_out", step):
        return 0
    before = (span.history.get_rows_at_change(step) or 0) if counts.rows_out else 0
    dropped = counts.rows_in - counts.bad_rows - before
    if not counts.rows_out:
        return max(dropped, 0)
    usual = before // counts.rows_out
    return dropped if dropped >= max(USUAL_GAPS * usual, limits.min_dropped_rows) else 0


def _build_finding(
    span: SampleSpan, cause: Cause, step: str, message: str, setting: str
) -> Finding:
    return Finding(cause, step, message, setting, span.history.get_since_us("rows_out", step))


def _find_empty_where(
    span: SampleSpan, step: nodes.Step, counts: PartCounts, last: str
) -> Iterator[Finding]:
    """Yield a step whose conditions let nothing pass."""
    conditions = _list_conditions(step)
    if not conditions or (
        get_keyed_operation(step) is not None
        and (counts.late_rows or (counts.state and counts.state.rows))
    ):
        return  # rows passed the condition, and wait in its state
    message = f"none of {last} passed {join_names(conditions)}"
    yield _build_finding(
        span, "where_passes_nothing", step.name, message, describe_clause("where", step.name)
    )


def _list_conditions(step: nodes.Step) -> list[str]:
    """Return the conditions of a step that rows pass before any state."""
    found = []
    for operation in step.operations:
        if isinstance(operation, nodes.KeyedOperation | nodes.Lookup | nodes.Join):
            break
        if isinstance(operation, nodes.Filter):
            found.append(f"`where: {operation.text}`")
    return found


def _find_empty_having(
    span: SampleSpan, step: nodes.Step, counts: PartCounts, last: str
) -> Iterator[Finding]:
    """Yield an aggregate of which no result passes `having`, though results are due."""
    keyed = get_keyed_operation(step)
    if not isinstance(keyed, nodes.Aggregate) or keyed.having is None:
        return
    if not counts.late_rows and not (counts.state and counts.state.rows):
        return  # no row has reached it
    if keyed.window is not None and not has_ended_windows(span, step.name, keyed.window):
        return
    message = f"no result of {last} passed `having: {keyed.having.text}`"
    yield _build_finding(
        span, "having_passes_nothing", step.name, message, describe_clause("having", step.name)
    )


def has_ended_windows(span: SampleSpan, step: str, window: Window) -> bool:
    """Whether windows have ended since a step has last emitted something, if that is known."""
    match window.shape:
        case Tumble(size_us):
            length_us = 2 * size_us
        case Slide() | Cumulate() as shape:
            length_us = shape.size_us + shape.every_us
        case _:
            return False
    return not window.uses_processing_time and _measure_passed_us(span, step) >= length_us


def _measure_passed_us(span: SampleSpan, step: str) -> int:
    """Return by how much the watermark of a step has grown since it has last emitted something."""
    before_us = span.history.get_watermark_at_change(step)
    now_us = span.now.statistics.parts[step].watermark_us
    return 0 if before_us is None or now_us is None else now_us - before_us


def _find_unmatched(
    span: SampleSpan, step: nodes.Step, counts: PartCounts, last: str
) -> Iterator[Finding]:
    """Yield a join that emits matched rows only, and of whose rows none match.

    If an input has no rows at all, the cause is there, and not in what matches.
    """
    join = get_two_input_operation(step)
    if join is None or join.type not in ("inner", "semi"):
        return
    match join.matching:
        case ConnectedMatch() | RuleMatch():
            return
        case WindowMatch(window) if not has_ended_windows(span, step.name, window):
            return
        case AsOfMatch() if not _measure_passed_us(span, step.name):
            return
    inputs = [_count_side(span, step.name, side) for side in (0, 1)]
    if not all(rows for _, rows in inputs):
        return
    sides = " and ".join(f"{names} ({rows:,} rows)" for names, rows in inputs)
    message = f"none of {last} found a match on `{join.text}`; it reads {sides}"
    setting = f"`on:`{MATCH_CLAUSES.get(type(join.matching), '')} of step {step.name}"
    yield _build_finding(span, "nothing_matches", step.name, message, setting)


def _find_missing_matches(
    span: SampleSpan, step: nodes.Step, counts: PartCounts, last: str
) -> Iterator[Finding]:
    """Yield a `match` whose pattern no rows complete, or which waits until `within` has passed."""
    match = get_keyed_operation(step)
    passed_us = _measure_passed_us(span, step.name)
    if not isinstance(match, nodes.Match) or not passed_us:
        return
    within_us = match.within_us or 0
    if passed_us < within_us and match.pattern.last_negation is not None:
        message = (
            f"`{match.pattern}` is complete {format_microseconds(within_us)} after its first row; "
            f"the watermark is at {format_watermark(counts.watermark_us)}"
        )
        setting = describe_clause("within", step.name)
        yield _build_finding(span, "windows_wait", step.name, message, setting)
        return
    message = f"none of {last} completed the pattern `{match.pattern}`"
    setting = f"{describe_clause('pattern', step.name)}, with its `define` and `within`"
    yield _build_finding(span, "nothing_matches", step.name, message, setting)


def _count_side(span: SampleSpan, step: str, side: int) -> tuple[str, int]:
    """Return the names of an input of a join, and the rows that it has emitted."""
    names = [e.producer for e in span.now.plan.edges if e.consumer == step and e.side == side]
    parts = span.now.statistics.parts
    return join_names(names), sum(parts[name].rows_out for name in names if name in parts)


def _find_missed(
    span: SampleSpan, step: nodes.Step, counts: PartCounts, last: str
) -> Iterator[Finding]:
    """Yield a lookup without a match for any row, if such rows are not emitted."""
    lookup, calls = get_lookup(step), counts.lookup
    if lookup is None or calls is None or lookup.on_miss not in ("drop", "to"):
        return
    waiting = counts.rows_in - counts.rows_out - counts.bad_rows - calls.missed
    if not calls.missed or waiting > calls.missed:
        return
    message = f"none of {last} found a row in its table {lookup.connector}"
    setting = f"`on:` of the lookup in step {step.name}; `on_miss: null` emits them"
    yield _build_finding(span, "nothing_matches", step.name, message, setting)
