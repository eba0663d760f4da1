"""The row counts of each part of a running job, read from its subtasks and channels at any time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.core.assembly import Subtask
from headrace.core.channel import Channel
from headrace.core.lookup.asked import LookupStatistics
from headrace.core.lookup.relay import LookupTask
from headrace.core.plan import nodes
from headrace.core.plan.layout import (
    get_input_streams,
    get_keyed_operation,
    get_two_input_operation,
)
from headrace.core.plan.windows import Count
from headrace.core.sizes import StateSize
from headrace.core.tally import JobCounters, PartCounters, count_parts


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


def collect_part_counts(
    plan: nodes.Plan,
    subtasks: Iterable[Subtask],
    channels: Mapping[tuple[int, int, int], Channel],
    before: JobCounters,
) -> dict[str, PartCounts]:
    """Return the counts by part, including those of earlier attempts.

    `channels` are keyed by edge, writing subtask and reading subtask.
    """
    counts = {
        part.name: _restore_counts(before.parts.get(part.name, PartCounters())) for part in plan
    }
    for subtask in subtasks:
        _add_subtask(counts, subtask, plan)
    task_parts = {name: task.parts for task in plan.tasks for name in task.parts}
    for (edge, _, _), channel in channels.items():
        waited_s = channel.statistics().blocked_s
        for name in task_parts[plan.edges[edge].producer]:
            counts[name].backpressured_s += waited_s
    return counts


def _add_subtask(counts: dict[str, PartCounts], subtask: Subtask, plan: nodes.Plan) -> None:
    """Add the rows of one subtask's parts."""
    for part, came in count_parts(subtask, plan):
        count = counts[part.name]
        count.rows_in += came.rows_in
        count.rows_out += came.rows_out
        count.bad_rows += came.bad_rows
        if not isinstance(part, nodes.Sink):
            count.backpressured_s += subtask.operator_task.output.write_time.seconds
        if has_event_time(part, plan):
            _add_time(count, subtask.operator_task.watermark_us)
        if subtask.lookup_task is not None and subtask.lookup_task.join.step == part.name:
            _add_lookup(count, subtask.lookup_task)
        if isinstance(part, nodes.Step):
            _add_windows(count, subtask, part)
            if sizes := measure_step(subtask, part.name):
                count.state = sum(sizes.values(), count.state or StateSize())


def measure_step(subtask: Subtask, step: str) -> dict[str, StateSize]:
    """Return the sizes of a step's states in a subtask, by name; none after its end."""
    sizes: dict[str, StateSize] = {}
    # A step has a state for each clock, nearly always one.
    for state in subtask.operators.states.get(step, ()):
        for name, size in state.measure_sizes().items():
            sizes[name] = sizes.get(name, StateSize()) + size
    return sizes


def _restore_counts(before: PartCounters) -> PartCounts:
    counts = PartCounts(before.rows_in, before.rows_out, before.bad_rows)
    counts.late_rows, counts.unfilled_rows = before.late_rows or None, before.unfilled_rows or None
    return counts


def _add_windows(count: PartCounts, subtask: Subtask, step: nodes.Step) -> None:
    """Add the rows that came into no result."""
    keyed, join = get_keyed_operation(step), get_two_input_operation(step)
    window = None
    if join is not None:
        by_time = join.has_late_rows
    elif isinstance(keyed, nodes.Dedup):
        by_time = keyed.uses_event_time
    elif isinstance(keyed, nodes.Process):
        by_time = keyed.body.uses_event_time
    else:
        window = keyed.window if keyed else None
        by_time = window is not None
    if not by_time:
        return
    counts = subtask.operators.sum_counters(step.name)
    if window and isinstance(window.shape, Count):
        count.unfilled_rows = (count.unfilled_rows or 0) + counts.unfilled
    else:
        count.late_rows = (count.late_rows or 0) + counts.late


def _add_lookup(count: PartCounts, lookup: LookupTask) -> None:
    """Add a step's lookups: its subtasks share one client, and each counts missing rows."""
    missed = lookup.join.missed_rows + (count.lookup.missed if count.lookup else 0)
    count.lookup = replace(lookup.client.statistics, missed=missed)


def _add_time(count: PartCounts, watermark_us: int | None) -> None:
    if watermark_us is not None:
        before = count.watermark_us
        count.watermark_us = watermark_us if before is None else min(before, watermark_us)


def has_event_time(part: nodes.PlanPart, plan: nodes.Plan) -> bool:
    """Whether the rows of a part have event times."""
    if isinstance(part, nodes.Source):
        return part.outputs[0].has_event_time
    return any(plan.streams[name].has_event_time for name in get_input_streams(part))
