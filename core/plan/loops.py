"""Checks of sources that read the output of a sink of the same pipeline.

If the sink is downstream of the source, this is a loop: the output is read again, immediately with
`watch`, otherwise when the job is resumed. Elsewhere it is undefined how much of the output is
read.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headrace.core.pipeline.model import Pipeline
from headrace.core.plan.columns import PlanProblems
from headrace.core.plan.growth import find_reached_streams
from headrace.core.plan.nodes import PlanPart, Sink, Source


def check_loops(
    pipeline: Pipeline, parts: Iterable[PlanPart], folder: Path, report: PlanProblems
) -> None:
    """Reject loops; warn of sources that read the output of other sinks."""
    parts = tuple(parts)
    sinks = [part for part in parts if isinstance(part, Sink)]
    for source in (part for part in parts if isinstance(part, Source)):
        below = find_reached_streams(parts, {source.name})
        for sink in sinks:
            if sink.connector == source.connector:
                _check_loop(pipeline, source, sink, folder, sink.input in below, report)


def _check_loop(
    pipeline: Pipeline, source: Source, sink: Sink, folder: Path, circle: bool, report: PlanProblems
) -> None:
    found = pipeline.sources[source.name].connector.describe_feedback(source, sink, folder)
    if not found:
        return
    report.subject = f'sink "{sink.name}"'
    place = pipeline.sinks[sink.name].keys_at[sink.connector].locate()
    message = f'the source "{source.name}" reads what is written here: {found}'
    if circle:
        report.add(message, place, "its own output would be read again: write somewhere else")
    else:
        hint = f"how much of it is read is undefined: let a step read {sink.input}"
        report.warn(message, place, hint)
