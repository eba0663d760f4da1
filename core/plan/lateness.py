"""Warnings about windows over rows that were too late for a window already.

A stream of late rows goes on behind the watermark that has passed them. Windows by event time that
wait no longer than those they came too late for are over as well: all of the rows are late again,
or most of them where the windows end at other times.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.pipeline.model import Pipeline
from headrace.core.plan.columns import Report
from headrace.core.plan.layout import keyed_operation
from headrace.core.plan.nodes import Dedup, Keyed, Map, PlanPart, Process, Step
from headrace.core.plan.windows import Cumulate, Session, Slide, Tumble, Window

HINT = "they are late again: use window: global, time: processing or more lateness"

BY_ARRIVAL = "order: arrival takes them as they come"


def warn_of_late_again(pipeline: Pipeline, parts: Iterable[PlanPart], report: Report) -> None:
    """Note which windows rows come too late for because they are a stream of late rows."""
    waits: dict[str, int] = {}
    """How long at most the windows waited for the rows of a stream, which came later."""
    for part in parts:
        if not isinstance(part, Step):
            continue
        window = _by_event_time(keyed_operation(part))
        late = [name for name in part.inputs if name in waits]
        dedup = keyed_operation(part)
        if isinstance(dedup, Process):
            continue
        if isinstance(dedup, Dedup) and dedup.in_time:
            if late:
                report.about = f'step "{part.name}"'
                message = f'the rows of "{late[0]}" are behind the watermark: all are late again'
                report.warn(
                    message, pipeline.steps[part.name].keys_at["dedup"].locate(), BY_ARRIVAL
                )
            if dedup.late_to is not None:
                waits[dedup.late_to] = max((waits[name] for name in late), default=0)
            continue
        if window is None:
            if late and _keeps_time(part):
                waits.update((s.name, max(waits[n] for n in late)) for s in part.rows)
            continue
        again = [name for name in late if _wait_us(window) <= waits[name]]
        if again:
            report.about = f'step "{part.name}"'
            message = f'the rows of "{again[0]}" came too late for windows as long as these'
            report.warn(message, pipeline.steps[part.name].keys_at["window"].locate(), HINT)
        if window.late_to is not None:
            waits[window.late_to] = max(_wait_us(window), *(waits[name] for name in late), 0)


def _by_event_time(keyed: Keyed | None) -> Window | None:
    window = None if keyed is None or isinstance(keyed, Dedup) else keyed.window
    return window if window and window.bounded and not window.processing else None


def _wait_us(window: Window) -> int:
    """The longest time for which a row is waited for, in event time."""
    match window.shape:
        case Tumble(size_us=wait_us) | Slide(size_us=wait_us) | Cumulate(size_us=wait_us):
            return wait_us + window.lateness_us
        case Session(gap_us):
            return gap_us + window.lateness_us
    raise AssertionError(f"{window.shape} is no window of time")


def _keeps_time(step: Step) -> bool:
    """Whether what comes out are the rows that came, as old as they were."""
    given = any(isinstance(each, Map) and each.event_time for each in step.operations)
    keyed = keyed_operation(step)
    return not given and (keyed is None or isinstance(keyed, Dedup))
