"""The report of a worker: the statistics of its subtasks as frozen plain data, sent as a message.

A report is read from subtasks and channels, cheaply enough for any time. Its counts start at 0 with
each attempt; `statistics` adds them up to those of the job.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from headrace.core.api.splits import Position, SubtaskId
from headrace.core.api.state_sizes import StateSize
from headrace.core.checkpoint.counters import PartCounters
from headrace.core.checkpoint.history import CheckpointPauses
from headrace.core.dataflow.channel import Channel
from headrace.core.dataflow.input_gate import InputGate
from headrace.core.dataflow.operator_task import SlowKernel, TaskOutput
from headrace.core.operators.lookup.client import LookupStatistics
from headrace.core.operators.rejected_rows import RejectedRow, select_newest
from headrace.core.plan import nodes
from headrace.core.plan.layout import get_input_streams
from headrace.core.sources.source_task import SourceTask
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.subtask_builder import Subtask, count_parts
from headrace.core.worker.time_shares import TaskTime, make_task_time

if TYPE_CHECKING:
    from headrace.core.dataflow.loop_task import LoopTask


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
    is_paused: bool = False
    """Whether it waits for slower splits, because of `max_drift`."""


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
    queue: InputQueue | None = None
    """The input queue; None for a source's subtask."""
    splits: tuple[SplitStatistics, ...] | None = None
    """The splits; None unless it is a source's subtask, and where they were not asked for."""
    state_sizes: Mapping[str, Mapping[str, StateSize]] = field(default_factory=dict)
    """The sizes of its states, by step and name."""
    blocked_s: float = 0.0
    """How long it waited for its consumers."""
    write_s: float = 0.0
    """How long it waited for the writer of its sink."""
    pauses: CheckpointPauses = field(default_factory=CheckpointPauses)
    """How long the last barrier held it up."""
    latencies: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The newest latencies of rows from each source to its sink, in seconds."""
    slow_kernels: tuple[SlowKernel, ...] = ()
    """The last kernels that ran for long."""

    @property
    def total_state_size(self) -> StateSize:
        """The total size of its states."""
        return sum(
            (each for sizes in self.state_sizes.values() for each in sizes.values()), StateSize()
        )


@dataclass(frozen=True, slots=True, order=True)
class WorkerIdentity:
    """A running worker."""

    number: int
    """The number of the worker, from 1; 0 is the coordinator's process, which is the only one."""
    pid: int
    """The id of its process."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """The statistics of all subtasks of a worker at one time, also of those that have ended."""

    subtasks: tuple[SubtaskStatistics, ...] = ()
    lookups: Mapping[str, LookupStatistics] = field(default_factory=dict)
    """The calls of lookup tables, by step: the subtasks of a worker share one client."""
    worker: WorkerIdentity | None = None
    """The worker; None if it has been lost since."""
    rejected_rows: Mapping[str, tuple[RejectedRow, ...]] = field(default_factory=dict)
    """The newest rows that came into no result, by part."""


def collect_report(
    subtasks: Collection[Subtask], plan: nodes.Plan, attempt: int, *, with_splits: bool = True
) -> WorkerReport:
    """Return the current report of subtasks; without splits where a source may have thousands."""
    return WorkerReport(
        tuple(_collect_subtask(each, plan, attempt, with_splits) for each in subtasks),
        _collect_lookups(subtasks),
        WorkerIdentity(0, os.getpid()),
        _collect_rejected(subtasks),
    )


def _collect_rejected(subtasks: Collection[Subtask]) -> dict[str, tuple[RejectedRow, ...]]:
    found: dict[str, tuple[RejectedRow, ...]] = {}
    for subtask in subtasks:
        samplers = dict(subtask.operators.rejected_rows)
        if subtask.source_task is not None:
            samplers[subtask.source_task.source.name] = subtask.source_task.rejected_rows
        for part, sampler in samplers.items():
            if sampler.rows:
                found[part] = select_newest((*found.get(part, ()), *sampler.rows))
    return found


def _collect_subtask(
    subtask: Subtask, plan: nodes.Plan, attempt: int, with_splits: bool
) -> SubtaskStatistics:
    source_task, gate, operator_task = subtask.source_task, subtask.gate, subtask.operator_task
    timed = any(has_event_time(plan.part(name), plan) for name in subtask.task.parts)
    watermark_us = operator_task.watermark_us if timed else None
    blocked_s = _measure_blocked_s(subtask)
    return SubtaskStatistics(
        attempt,
        subtask.id,
        {part.name: counters for part, counters in _count_all_rows(subtask, plan)},
        _measure_time(subtask, blocked_s),
        operator_task.run_time.seconds > 0 and not operator_task.run_time.is_running,
        watermark_us,
        None if gate is None else _measure_queue(_list_input_channels(gate, subtask.loop_task)),
        tuple(_collect_splits(source_task)) if source_task is not None and with_splits else None,
        {step: _measure_step(subtask, step) for step in list(subtask.operators.states)},
        blocked_s,
        operator_task.output.write_time.seconds,
        CheckpointPauses(
            0.0 if gate is None else gate.alignment_time.last_s, operator_task.barrier_time.last_s
        ),
        _list_latencies(operator_task.output, plan),
        tuple(operator_task.slow_kernels),
    )


def _list_latencies(output: TaskOutput, plan: nodes.Plan) -> dict[str, tuple[float, ...]]:
    by_source = output.latencies.by_source if output.latencies is not None else {}
    return {plan.parts[at].name: tuple(found) for at, found in by_source.items()}


def _count_all_rows(
    subtask: Subtask, plan: nodes.Plan
) -> Iterator[tuple[nodes.PlanPart, PartCounters]]:
    """Yield the counters of each part, with the rows that came into no result."""
    for part, counters in count_parts(subtask, plan):
        if part.name in subtask.operators.states:
            counts = subtask.operators.sum_counters(part.name)
            yield (
                part,
                replace(
                    counters,
                    late_rows=counts.late,
                    unfilled_rows=counts.unfilled,
                    metrics=counts.metrics,
                ),
            )
        else:
            yield part, counters


def _collect_lookups(subtasks: Collection[Subtask]) -> dict[str, LookupStatistics]:
    """Return the statistics of each client; each subtask counts its own missing rows."""
    lookups: dict[str, LookupStatistics] = {}
    for subtask in subtasks:
        if (task := subtask.lookup_task) is not None:
            before = lookups.get(task.join.step, LookupStatistics())
            missed = before.missed + task.join.missed_rows
            lookups[task.join.step] = replace(task.client.statistics, missed=missed)
    return lookups


def has_event_time(part: nodes.PlanPart, plan: nodes.Plan) -> bool:
    """Whether the rows of a part have event times."""
    if isinstance(part, nodes.Source):
        return part.outputs[0].has_event_time
    return any(plan.streams[name].has_event_time for name in get_input_streams(part))


def _measure_step(subtask: Subtask, step: str) -> dict[str, StateSize]:
    """Return the sizes of a step's states in a subtask, by name; none after its end."""
    sizes: dict[str, StateSize] = {}
    # A step has a state for each clock, nearly always one.
    for state in subtask.operators.states.get(step, ()):
        for name, size in state.measure_sizes().items():
            sizes[name] = sizes.get(name, StateSize()) + size
    return sizes


def _measure_blocked_s(subtask: Subtask) -> float:
    """Return how long a subtask waited for room in its output channels."""
    edges = [each for edges in subtask.operator_task.output.edges.values() for each in edges]
    return sum((c.statistics().blocked_s for edge in edges for c in edge.channels), 0.0)


def _measure_time(subtask: Subtask, blocked_s: float) -> TaskTime:
    operator_task = subtask.operator_task
    head = subtask.source_task or subtask.lookup_task or subtask.loop_task or subtask.gate
    assert head is not None
    if len(subtask.task.parts) > 1:  # a sink alone is busy while it writes
        blocked_s += operator_task.output.write_time.seconds
    return make_task_time(operator_task.run_time.seconds, head.idle_time.seconds, blocked_s)


def _list_input_channels(gate: InputGate, loop_task: LoopTask | None) -> list[Channel]:
    """Return the channels of a gate, and those on which rows come back to the head of a loop."""
    return [*gate.channels, *(() if loop_task is None else loop_task.feedback_channels)]


def _measure_queue(read: Iterable[Channel]) -> InputQueue:
    channels = [(channel.bounds, channel.statistics()) for channel in read]
    return InputQueue(
        sum(now.waiting_rows for _, now in channels),
        sum(now.waiting_bytes for _, now in channels),
        sum(now.waiting_elements for _, now in channels),
        len(channels),
        sum(bounds.rows for bounds, _ in channels),
        sum(bounds.bytes for bounds, _ in channels),
    )


def _collect_splits(source_task: SourceTask) -> Iterator[SplitStatistics]:
    generator = source_task.watermark_generator
    times, idle = generator.split_watermarks.known_times, generator.split_watermarks.idle_splits
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
            split in generator.paused_splits and not progress.is_finished,
        )
