"""Warnings about windows over rows that were already too late for a window.

The rows of a stream of late rows are behind the watermark. Windows in event time that wait no
longer than the earlier windows have ended as well: all of the rows are late again, or most of them
if the windows end at other times.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.pipeline.model import Pipeline
from headrace.core.plan.columns import PlanProblems
from headrace.core.plan.layout import get_keyed_operation
from headrace.core.plan.nodes import (
    Dedup,
    KeyedOperation,
    Map,
    Match,
    Over,
    PlanPart,
    Process,
    Step,
)
from headrace.core.plan.nodes.windows import Cumulate, Session, Slide, Tumble, Window

LATE_AGAIN_HINT = "they are late again: use window: global, time: processing or more lateness"

ARRIVAL_HINT = "order: arrival accepts them"


def warn_of_late_again(pipeline: Pipeline, parts: Iterable[PlanPart], report: PlanProblems) -> None:
    """Warn of windows over streams of late rows for which the rows are late again."""
    waits: dict[str, int] = {}
    """The longest time that windows waited for the late rows of a stream, by stream."""
    for part in parts:
        if not isinstance(part, Step):
            continue
        keyed = get_keyed_operation(part)
        if isinstance(keyed, Process):
            continue
        window = _get_event_time_window(keyed)
        late = [name for name in part.inputs if name in waits]
        if isinstance(keyed, Over | Match) or (isinstance(keyed, Dedup) and keyed.uses_event_time):
            if late:
                report.subject = f'step "{part.name}"'
                message = f'the rows of "{late[0]}" are behind the watermark: all are late again'
                clause, hint = _find_clause(keyed)
                report.warn(message, pipeline.steps[part.name].keys_at[clause].locate(), hint)
            if keyed.late_to is not None:
                waits[keyed.late_to] = max((waits[name] for name in late), default=0)
            continue
        if window is None:
            if late and _keeps_event_time(part):
                waits.update((s.name, max(waits[n] for n in late)) for s in part.main_outputs)
            continue
        again = [name for name in late if _get_wait_us(window) <= waits[name]]
        if again:
            report.subject = f'step "{part.name}"'
            message = f'the rows of "{again[0]}" were too late for windows as long as these'
            report.warn(
                message, pipeline.steps[part.name].keys_at["window"].locate(), LATE_AGAIN_HINT
            )
        if window.late_to is not None:
            waits[window.late_to] = max(_get_wait_us(window), *(waits[name] for name in late), 0)


def _find_clause(keyed: Over | Match | Dedup) -> tuple[str, str]:
    """Return the clause of an operation in event time, and a hint."""
    if isinstance(keyed, Dedup):
        return "dedup", ARRIVAL_HINT
    return ("over" if isinstance(keyed, Over) else "match"), ""


def _get_event_time_window(keyed: KeyedOperation | None) -> Window | None:
    window = None if keyed is None or isinstance(keyed, Dedup) else keyed.window
    return window if window and window.has_bounds and not window.uses_processing_time else None


def _get_wait_us(window: Window) -> int:
    """Return the longest time that a window waits for a row, in event time."""
    match window.shape:
        case Tumble(size_us=wait_us) | Slide(size_us=wait_us) | Cumulate(size_us=wait_us):
            return wait_us + window.lateness_us
        case Session(gap_us):
            return gap_us + window.lateness_us
    raise AssertionError(f"{window.shape} is not a window of time")


def _keeps_event_time(step: Step) -> bool:
    """Whether output rows keep the event time of the input rows."""
    is_replaced = any(isinstance(each, Map) and each.event_time for each in step.operations)
    keyed = get_keyed_operation(step)
    return not is_replaced and (keyed is None or isinstance(keyed, Dedup | Over))
