"""The statistics of a job's parts, computed from the reports of its workers and the plan alone.

The counts of a part are the job's, across restarts; those in a report start at 0 after a restart or
a rescale.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace

from headrace.core.api.splits import SubtaskId
from headrace.core.api.state_sizes import StateSize
from headrace.core.api.user_metrics import MetricValues, add_values, continue_values
from headrace.core.checkpoint.counters import JobCounters, PartCounters
from headrace.core.checkpoint.history import CheckpointPauses
from headrace.core.dataflow.latency import LatencySummary, summarize_latencies
from headrace.core.operators.lookup.client import LookupStatistics
from headrace.core.plan import nodes
from headrace.core.plan.layout import get_keyed_operation, get_two_input_operation
from headrace.core.plan.nodes.windows import Count
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.report import (
    SubtaskStatistics,
    WorkerIdentity,
    WorkerReport,
    has_event_time,
)


@dataclass(slots=True)
class PartCounts:
    """The row counts of a source, a step or a sink, over all its subtasks.

    `backpressured_s` is how long its task waited for its consumers. The parts of a task wait
    together, so all have the same value; but a sink does not wait for its own writer, as the parts
    before it do. `watermark_us` is the minimum over the subtasks, None where event time is not
    used. `late_rows` counts rows that were too late for all their windows, `unfilled_rows` the rows
    in count windows that are not full; both are None for a part without windows.
    """

    rows_in: int = 0
    rows_out: int = 0
    bad_rows: int = 0
    backpressured_s: float = 0.0
    watermark_us: int | None = None
    late_rows: int | None = None
    unfilled_rows: int | None = None
    state: StateSize | None = None
    """The size of its state; None for a stateless part."""
    lookup: LookupStatistics | None = None
    """The calls of its lookup table in this attempt; None for a part without a lookup."""
    metrics: MetricValues = field(default_factory=MetricValues)
    """The metrics of its user code."""
    latencies: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """The newest latencies from each source to this sink, over all its subtasks."""

    def summarize_latencies(self) -> dict[str, LatencySummary]:
        """Return the quantiles of the latencies from each source."""
        return {source: summarize_latencies(each) for source, each in self.latencies.items()}


def sum_part_counts(
    plan: nodes.Plan, reports: Iterable[WorkerReport], before: JobCounters
) -> dict[str, PartCounts]:
    """Return the counts by part, including those of earlier attempts."""
    counts = {
        part.name: _restore_counts(before.parts.get(part.name, PartCounters())) for part in plan
    }
    for report in reports:
        for subtask in report.subtasks:
            _add_subtask(counts, subtask, plan)
        for step, lookup in report.lookups.items():
            _add_lookup(counts[step], lookup)
    for name, earlier in before.parts.items():
        if name in counts:
            counts[name].metrics = continue_values(earlier.metrics, counts[name].metrics)
    return counts


def _add_subtask(
    counts: dict[str, PartCounts], subtask: SubtaskStatistics, plan: nodes.Plan
) -> None:
    """Add the rows of one subtask's parts."""
    for name, counters in subtask.parts.items():
        part, count = plan.part(name), counts[name]
        count.rows_in += counters.rows_in
        count.rows_out += counters.rows_out
        count.bad_rows += counters.bad_rows
        count.metrics = add_values((count.metrics, counters.metrics))
        count.backpressured_s += subtask.blocked_s
        if isinstance(part, nodes.Sink):
            for source, found in subtask.latencies.items():
                count.latencies[source] = (*count.latencies.get(source, ()), *found)
        else:
            count.backpressured_s += subtask.write_s
        if has_event_time(part, plan):
            _add_time(count, subtask.watermark_us)
        if isinstance(part, nodes.Step):
            _add_windows(count, counters, part)
            if sizes := subtask.state_sizes.get(name):
                count.state = sum(sizes.values(), count.state or StateSize())


def _restore_counts(before: PartCounters) -> PartCounts:
    counts = PartCounts(before.rows_in, before.rows_out, before.bad_rows)
    counts.late_rows, counts.unfilled_rows = before.late_rows or None, before.unfilled_rows or None
    return counts


def _add_windows(count: PartCounts, counters: PartCounters, step: nodes.Step) -> None:
    """Add the rows that came into no result."""
    keyed, join = get_keyed_operation(step), get_two_input_operation(step)
    window = None
    if join is not None:
        by_time = join.has_late_rows
    elif isinstance(keyed, nodes.Dedup):
        by_time = keyed.uses_event_time
    elif isinstance(keyed, nodes.Over | nodes.Match):
        by_time = True
    elif isinstance(keyed, nodes.Process):
        by_time = keyed.body.uses_event_time
    else:
        window = keyed.window if keyed else None
        by_time = window is not None
    if not by_time:
        return
    if window and isinstance(window.shape, Count):
        count.unfilled_rows = (count.unfilled_rows or 0) + counters.unfilled_rows
    else:
        count.late_rows = (count.late_rows or 0) + counters.late_rows


def _add_lookup(count: PartCounts, lookup: LookupStatistics) -> None:
    """Add the calls of one worker's client."""
    before = count.lookup or LookupStatistics()
    count.lookup = replace(
        before,
        keys=before.keys + lookup.keys,
        known=before.known + lookup.known,
        calls=before.calls + lookup.calls,
        failures=before.failures + lookup.failures,
        missed=before.missed + lookup.missed,
    )


def _add_time(count: PartCounts, watermark_us: int | None) -> None:
    if watermark_us is not None:
        before = count.watermark_us
        count.watermark_us = watermark_us if before is None else min(before, watermark_us)


def map_workers(reports: Iterable[WorkerReport]) -> dict[SubtaskId, WorkerIdentity]:
    """Return the worker of each subtask; none for the subtasks of lost workers."""
    return {
        subtask.id: report.worker
        for report in reports
        if report.worker is not None
        for subtask in report.subtasks
    }


def measure_pauses(reports: Iterable[WorkerReport]) -> CheckpointPauses:
    """Return how long the last barrier held up the subtasks that have not ended."""
    pauses = [
        subtask.pauses for report in reports for subtask in report.subtasks if not subtask.is_ended
    ]
    return CheckpointPauses(
        max((each.alignment_s for each in pauses), default=0.0),
        max((each.sync_s for each in pauses), default=0.0),
    )


def compute_lag_s(watermark_us: int | None, now_us: int) -> float | None:
    """Return how far the wall clock is ahead of a watermark.

    >>> compute_lag_s(1_000_000, 3_500_000)
    2.5
    """
    if watermark_us is None or watermark_us == MAX_WATERMARK_US:
        return None
    return (now_us - watermark_us) / 1e6
