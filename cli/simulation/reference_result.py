"""The result of a case by the reference interpreter, without the runtime.

The interpreter needs to know which rows are late. That is known of a case: late rows come after a
watermark of all sources, and no other row is behind such a watermark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.cli.pipeline_tests.isolated_plan import find_sink
from headrace.cli.simulation.disturbed_run import SimulatedResult, list_compared_streams
from headrace.cli.simulation.random_case import RandomCase
from headrace.core.plan import nodes
from headrace.core.testing.bound_tests import FedRows, FedWatermark
from headrace.core.testing.reference.coverage import CoverageFinder
from headrace.core.testing.reference.interpreter import interpret
from headrace.core.testing.reference.source_rows import read_source
from headrace.core.testing.reference.timeline import AT_ONCE, Timeline, TimelinePoint
from headrace.core.testing.typed_rows import Row
from headrace.core.types.elements import MAX_WATERMARK_US


def interpret_case(case: RandomCase, plan: nodes.Plan) -> SimulatedResult:
    """Return the rows of the compared streams of which the interpreter has an answer."""
    sources = [part for part in plan if isinstance(part, nodes.Source)]
    splits = collect_splits(case, sources)
    timeline = build_timeline(case, sources)
    if not _has_late_rows(plan, splits, timeline):
        timeline = AT_ONCE
    known = CoverageFinder(plan, case.split_counts, timeline is not AT_ONCE).find()
    inputs: dict[str, Sequence[Sequence[Row]]] = dict(splits)
    inputs |= {step: [rows] for step, rows in case.tables.items()}
    found = interpret(plan, inputs, timeline=timeline, only=known)
    streams = dict[str, list[Row]]()
    for name in list_compared_streams(plan):
        read = find_sink(plan, name).input
        if read in known:
            names = plan.streams[read].schema.names
            streams[name] = [{n: row.values[n] for n in names} for row in found[read]]
    return SimulatedResult(streams)


def collect_splits(
    case: RandomCase, sources: Sequence[nodes.Source]
) -> Mapping[str, list[list[Row]]]:
    """Return all rows of each split of each source."""
    splits: dict[str, list[list[Row]]] = {
        source.name: [[] for _ in range(case.split_counts.get(source.name, 1))]
        for source in sources
    }
    for event in case.events:
        if isinstance(event, FedRows):
            for split, rows in enumerate(event.splits):
                splits[event.source][split] += rows
    return splits


def build_timeline(case: RandomCase, sources: Sequence[nodes.Source]) -> Timeline:
    """Return the moments at which rows arrive, with the watermarks that all sources have then."""
    arrivals: dict[str, list[list[int]]] = {
        source.name: [[] for _ in range(case.split_counts.get(source.name, 1))]
        for source in sources
    }
    raised: dict[str, int | None] = {s.name: None for s in sources if s.event_time is not None}
    moments = [TimelinePoint(0)]
    for event in case.events:
        match event:
            case FedRows(source, splits):
                moments.append(TimelinePoint(len(moments)))
                for split, rows in enumerate(splits):
                    arrivals[source][split] += [moments[-1].clock_us] * len(rows)
            case FedWatermark(source, at_us):
                raised[source] = max(at_us, raised[source] or at_us)
                known = [each for each in raised.values() if each is not None]
                if len(known) == len(raised):
                    moments[-1] = TimelinePoint(moments[-1].clock_us, min(known))
    return Timeline((*moments, TimelinePoint(len(moments), MAX_WATERMARK_US)), arrivals)


def _has_late_rows(
    plan: nodes.Plan, splits: Mapping[str, list[list[Row]]], timeline: Timeline
) -> bool:
    for number, part in enumerate(plan):
        if isinstance(part, nodes.Source):
            arrivals = timeline.arrivals[part.name]
            rows = read_source(part, number, splits[part.name], arrivals)
            if any(map(timeline.is_late, rows)):
                return True
    return False
