"""The statistics of one subtask of a running job, cheap enough to be read at any time.

Its counts start at 0 after a restart or a rescale; `worker/statistics` has a job's counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.core.assembly import Subtask
from headrace.core.elements import MAX_WATERMARK_US
from headrace.core.gate import InputGate
from headrace.core.history import CheckpointPauses
from headrace.core.intake import SourceTask
from headrace.core.messages import Position, SubtaskId
from headrace.core.occupation import TaskTime, make_task_time
from headrace.core.plan import nodes
from headrace.core.sizes import StateSize
from headrace.core.statistics import has_event_time, measure_step
from headrace.core.tally import PartCounters, count_parts


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
    intake, gate, flow = subtask.source_task, subtask.gate, subtask.operator_task
    timed = any(has_event_time(plan.part(name), plan) for name in subtask.task.parts)
    watermark_us = flow.watermark_us if timed else None
    return SubtaskStatistics(
        attempt,
        subtask.id,
        {part.name: came for part, came in count_parts(subtask, plan)},
        _measure_time(subtask),
        flow.run_time.seconds > 0 and not flow.run_time.is_running,
        watermark_us,
        compute_lag_s(watermark_us, subtask.now_us()),
        None if gate is None else _measure_queue(gate),
        None if intake is None else tuple(_collect_splits(intake)),
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
    foot, head = (
        subtask.operator_task.output,
        subtask.source_task or subtask.lookup_task or subtask.gate,
    )
    assert head is not None
    outlets = [each for outlets in foot.edges.values() for each in outlets]
    blocked_s = sum(c.statistics().blocked_s for outlet in outlets for c in outlet.channels)
    if len(subtask.task.parts) > 1:  # a sink alone is busy while it writes
        blocked_s += foot.write_time.seconds
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


def _collect_splits(intake: SourceTask) -> Iterator[SplitStatistics]:
    times, idle = (
        intake.watermark_generator.split_watermarks.known_times,
        intake.watermark_generator.split_watermarks.idle_splits,
    )
    lags = intake.measure_lags()
    for split, progress in intake.progress.items():
        at_us = times.get(split, progress.watermark_us)
        yield SplitStatistics(
            split.name,
            progress.position,
            at_us,
            split in idle,
            progress.is_finished,
            0 if progress.is_finished else lags.get(split),
        )
