"""The row counts of each part of a running job, read from its subtasks and channels at any time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.core.assembly import Subtask
from headrace.core.channel import Channel
from headrace.core.lookup.asked import Asking
from headrace.core.lookup.relay import Relay
from headrace.core.plan import nodes
from headrace.core.plan.layout import inputs, keyed_operation, two_sided
from headrace.core.plan.windows import Count
from headrace.core.sizes import Size
from headrace.core.tally import Passed, Tallies, passed


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
    bad: int = 0
    blocked_s: float = 0.0
    watermark_us: int | None = None
    late: int | None = None
    unfilled: int | None = None
    state: Size | None = None
    """The size of its state; None for a stateless part."""
    lookup: Asking | None = None
    """The calls of its lookup table in this attempt; None for a part without a lookup."""


def part_counts(
    plan: nodes.Plan,
    subtasks: Iterable[Subtask],
    channels: Mapping[tuple[int, int, int], Channel],
    before: Tallies,
) -> dict[str, PartCounts]:
    """Return the counts by part, including those of earlier attempts.

    `channels` are keyed by edge, writing subtask and reading subtask.
    """
    counts = {part.name: _counted(before.parts.get(part.name, Passed())) for part in plan}
    for subtask in subtasks:
        _add(counts, subtask, plan)
    task_parts = {name: task.parts for task in plan.tasks for name in task.parts}
    for (edge, _, _), channel in channels.items():
        waited_s = channel.statistics().blocked_s
        for name in task_parts[plan.edges[edge].producer]:
            counts[name].blocked_s += waited_s
    return counts


def _add(counts: dict[str, PartCounts], subtask: Subtask, plan: nodes.Plan) -> None:
    """Add the rows of one subtask's parts."""
    for part, came in passed(subtask, plan):
        count = counts[part.name]
        count.rows_in += came.rows_in
        count.rows_out += came.rows_out
        count.bad += came.bad
        if not isinstance(part, nodes.Sink):
            count.blocked_s += subtask.flow.foot.writing.seconds
        if is_timed(part, plan):
            _add_time(count, subtask.flow.watermark_us)
        if subtask.lookup is not None and subtask.lookup.stage.step == part.name:
            _add_lookup(count, subtask.lookup)
        if isinstance(part, nodes.Step):
            _add_windows(count, subtask, part)
            if sizes := step_sizes(subtask, part.name):
                count.state = sum(sizes.values(), count.state or Size())


def step_sizes(subtask: Subtask, step: str) -> dict[str, Size]:
    """Return the sizes of a step's states in a subtask, by name; none after its end."""
    sizes: dict[str, Size] = {}
    # A step has a state for each clock, nearly always one.
    for state in subtask.compiled.states.get(step, ()):
        for name, size in state.sizes().items():
            sizes[name] = sizes.get(name, Size()) + size
    return sizes


def _counted(before: Passed) -> PartCounts:
    counts = PartCounts(before.rows_in, before.rows_out, before.bad)
    counts.late, counts.unfilled = before.late or None, before.unfilled or None
    return counts


def _add_windows(count: PartCounts, subtask: Subtask, step: nodes.Step) -> None:
    """Add the rows that came into no result."""
    keyed, join = keyed_operation(step), two_sided(step)
    window = None
    if join is not None:
        by_time = join.may_be_late
    elif isinstance(keyed, nodes.Dedup):
        by_time = keyed.in_time
    elif isinstance(keyed, nodes.Process):
        by_time = keyed.body.in_time
    else:
        window = keyed.window if keyed else None
        by_time = window is not None
    if not by_time:
        return
    counts = subtask.compiled.late_and_unfilled(step.name)
    if window and isinstance(window.shape, Count):
        count.unfilled = (count.unfilled or 0) + counts.unfilled
    else:
        count.late = (count.late or 0) + counts.late


def _add_lookup(count: PartCounts, lookup: Relay) -> None:
    """Add a step's lookups: its subtasks share one client, and each counts missing rows."""
    missed = lookup.stage.missed + (count.lookup.missed if count.lookup else 0)
    count.lookup = replace(lookup.asked.asking, missed=missed)


def _add_time(count: PartCounts, watermark_us: int | None) -> None:
    if watermark_us is not None:
        before = count.watermark_us
        count.watermark_us = watermark_us if before is None else min(before, watermark_us)


def is_timed(part: nodes.PlanPart, plan: nodes.Plan) -> bool:
    """Whether the rows of a part have event times."""
    if isinstance(part, nodes.Source):
        return part.outputs[0].timed
    return any(plan.streams[name].timed for name in inputs(part))
