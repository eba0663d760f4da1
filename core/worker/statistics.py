"""The statistics that workers collect: row counts of each part, and the state of each subtask.

They are read from subtasks and channels, cheaply enough for any time. The counts of a part are the
job's, across restarts; those of a subtask start at 0 after a restart or a rescale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from headrace.core.api.splits import Position, SubtaskId
from headrace.core.api.state_sizes import StateSize
from headrace.core.checkpoint.counters import JobCounters, PartCounters
from headrace.core.checkpoint.history import CheckpointPauses
from headrace.core.dataflow.channel import Channel
from headrace.core.dataflow.input_gate import InputGate
from headrace.core.dataflow.lookup_task import LookupTask
from headrace.core.operators.lookup.client import LookupStatistics
from headrace.core.plan import nodes
from headrace.core.plan.layout import (
    get_input_streams,
    get_keyed_operation,
    get_two_input_operation,
)
from headrace.core.plan.nodes.windows import Count
from headrace.core.sources.source_task import SourceTask
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.worker.subtask_builder import Subtask, count_parts
from headrace.core.worker.time_shares import TaskTime, make_task_time


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
    for part, counters in count_parts(subtask, plan):
        count = counts[part.name]
        count.rows_in += counters.rows_in
        count.rows_out += counters.rows_out
        count.bad_rows += counters.bad_rows
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


@dataclass(frozen=True, slots=True)
class InputQueue:
    """The elements that wait in a subtask's input channels, and the capacity of the channels."""

    rows: int
    bytes: int
    elements: int
    """The number of batches and of control elements between them."""
    channels: int
    max_rows: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class SplitStatistics:
    """The progress of reading a split."""

    name: str
    position: Position
    watermark_us: int | None
    is_idle: bool
    is_ended: bool
    unread_records: int | None = None
    """The number of records that have not been read, where it is known."""


@dataclass(frozen=True, slots=True)
class SubtaskStatistics:
    """The counts of a subtask since it began, and its current state."""

    attempt: int
    id: SubtaskId
    parts: Mapping[str, PartCounters]
    task_time: TaskTime
    is_ended: bool
    watermark_us: int | None = None
    """The watermark; None where event time is not used, and before the first watermark."""
    lag_s: float | None = None
    """The lead of the wall clock over the watermark; None also at the end of event time."""
    queue: InputQueue | None = None
    """The input queue; None for a source's subtask."""
    splits: tuple[SplitStatistics, ...] | None = None
    """The splits; None unless it is a source's subtask."""
    state_sizes: Mapping[str, Mapping[str, StateSize]] = field(default_factory=dict)
    """The sizes of its states, by step and name."""

    @property
    def total_state_size(self) -> StateSize:
        """The total size of its states."""
        return sum(
            (each for sizes in self.state_sizes.values() for each in sizes.values()), StateSize()
        )


def collect_subtask_statistics(
    subtask: Subtask, plan: nodes.Plan, attempt: int
) -> SubtaskStatistics:
    """Return the current statistics of a subtask."""
    source_task, gate, operator_task = subtask.source_task, subtask.gate, subtask.operator_task
    timed = any(has_event_time(plan.part(name), plan) for name in subtask.task.parts)
    watermark_us = operator_task.watermark_us if timed else None
    return SubtaskStatistics(
        attempt,
        subtask.id,
        {part.name: counters for part, counters in count_parts(subtask, plan)},
        _measure_time(subtask),
        operator_task.run_time.seconds > 0 and not operator_task.run_time.is_running,
        watermark_us,
        compute_lag_s(watermark_us, subtask.now_us()),
        None if gate is None else _measure_queue(gate),
        None if source_task is None else tuple(_collect_splits(source_task)),
        {step: measure_step(subtask, step) for step in list(subtask.operators.states)},
    )


def measure_pauses(subtasks: Iterable[Subtask]) -> CheckpointPauses:
    """Return how long the last barrier held up the running subtasks."""
    running = [each for each in subtasks if each.operator_task.run_time.is_running]
    return CheckpointPauses(
        max(
            (each.gate.alignment_time.last_s for each in running if each.gate is not None),
            default=0.0,
        ),
        max((each.operator_task.barrier_time.last_s for each in running), default=0.0),
    )


def compute_lag_s(watermark_us: int | None, now_us: int) -> float | None:
    """Return how far the wall clock is ahead of a watermark.

    >>> compute_lag_s(1_000_000, 3_500_000)
    2.5
    """
    if watermark_us is None or watermark_us == MAX_WATERMARK_US:
        return None
    return (now_us - watermark_us) / 1e6


def _measure_time(subtask: Subtask) -> TaskTime:
    output, head = (
        subtask.operator_task.output,
        subtask.source_task or subtask.lookup_task or subtask.gate,
    )
    assert head is not None
    edges = [each for edges in output.edges.values() for each in edges]
    blocked_s = sum(c.statistics().blocked_s for edge in edges for c in edge.channels)
    if len(subtask.task.parts) > 1:  # a sink alone is busy while it writes
        blocked_s += output.write_time.seconds
    return make_task_time(subtask.operator_task.run_time.seconds, head.idle_time.seconds, blocked_s)


def _measure_queue(gate: InputGate) -> InputQueue:
    channels = [(channel.bounds, channel.statistics()) for channel in gate.channels]
    return InputQueue(
        sum(now.waiting_rows for _, now in channels),
        sum(now.waiting_bytes for _, now in channels),
        sum(now.waiting_elements for _, now in channels),
        len(channels),
        sum(bounds.rows for bounds, _ in channels),
        sum(bounds.bytes for bounds, _ in channels),
    )


def _collect_splits(source_task: SourceTask) -> Iterator[SplitStatistics]:
    times, idle = (
        source_task.watermark_generator.split_watermarks.known_times,
        source_task.watermark_generator.split_watermarks.idle_splits,
    )
    lags = source_task.measure_lags()
    for split, progress in source_task.progress.items():
        at_us = times.get(split, progress.watermark_us)
        yield SplitStatistics(
            split.name,
            progress.position,
            at_us,
            split in idle,
            progress.is_finished,
            0 if progress.is_finished else lags.get(split),
        )
