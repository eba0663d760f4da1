"""The statistics of one subtask of a running job, cheap enough to be read at any time.

Its counts start at 0 after a restart or a rescale; `worker/statistics` has a job's counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.core.assembly import Subtask
from headrace.core.elements import FOREVER_US
from headrace.core.gate import Gate
from headrace.core.history import Pauses
from headrace.core.intake import Intake
from headrace.core.messages import Position, SubtaskId
from headrace.core.occupation import Spent, spent
from headrace.core.plan import nodes
from headrace.core.sizes import Size
from headrace.core.statistics import is_timed, step_sizes
from headrace.core.tally import Passed, passed


@dataclass(frozen=True, slots=True)
class Queue:
    """The elements that wait in a subtask's input channels, and the capacity of the channels."""

    rows: int
    bytes: int
    elements: int
    """The number of batches and of control elements between them."""
    channels: int
    most_rows: int
    most_bytes: int


@dataclass(frozen=True, slots=True)
class SplitStatistics:
    """The progress of reading a split."""

    name: str
    position: Position
    watermark_us: int | None
    idle: bool
    ended: bool
    behind: int | None = None
    """The number of records that have not been read, where it is known."""


@dataclass(frozen=True, slots=True)
class SubtaskStatistics:
    """The counts of a subtask since it began, and its current state."""

    attempt: int
    id: SubtaskId
    parts: Mapping[str, Passed]
    spent: Spent
    ended: bool
    watermark_us: int | None = None
    """The watermark; None where event time is not used, and before the first watermark."""
    lag_s: float | None = None
    """The lead of the wall clock over the watermark; None also at the end of event time."""
    queue: Queue | None = None
    """The input queue; None for a source's subtask."""
    splits: tuple[SplitStatistics, ...] | None = None
    """The splits; None unless it is a source's subtask."""
    states: Mapping[str, Mapping[str, Size]] = field(default_factory=dict)
    """The sizes of its states, by step and name."""

    @property
    def state(self) -> Size:
        """The total size of its states."""
        return sum((each for sizes in self.states.values() for each in sizes.values()), Size())


def subtask_statistics(subtask: Subtask, plan: nodes.Plan, attempt: int) -> SubtaskStatistics:
    """Return the current statistics of a subtask."""
    intake, gate, flow = subtask.intake, subtask.gate, subtask.flow
    timed = any(is_timed(plan.part(name), plan) for name in subtask.task.parts)
    watermark_us = flow.watermark_us if timed else None
    return SubtaskStatistics(
        attempt,
        subtask.id,
        {part.name: came for part, came in passed(subtask, plan)},
        _spent(subtask),
        flow.life.seconds > 0 and not flow.life.goes_on,
        watermark_us,
        lag_s(watermark_us, subtask.now_us()),
        None if gate is None else _queue(gate),
        None if intake is None else tuple(_splits(intake)),
        {step: step_sizes(subtask, step) for step in list(subtask.compiled.states)},
    )


def pauses(subtasks: Iterable[Subtask]) -> Pauses:
    """Return how long the last barrier held up the running subtasks."""
    running = [each for each in subtasks if each.flow.life.goes_on]
    return Pauses(
        max((each.gate.aligning.last for each in running if each.gate is not None), default=0.0),
        max((each.flow.standing.last for each in running), default=0.0),
    )


def lag_s(watermark_us: int | None, now_us: int) -> float | None:
    """Return how far the wall clock is ahead of a watermark.

    >>> lag_s(1_000_000, 3_500_000)
    2.5
    """
    if watermark_us is None or watermark_us == FOREVER_US:
        return None
    return (now_us - watermark_us) / 1e6


def _spent(subtask: Subtask) -> Spent:
    foot, head = subtask.flow.foot, subtask.intake or subtask.lookup or subtask.gate
    assert head is not None
    outlets = [each for outlets in foot.outlets.values() for each in outlets]
    blocked_s = sum(c.statistics().blocked_s for outlet in outlets for c in outlet.channels)
    if len(subtask.task.parts) > 1:  # a sink alone is busy while it writes
        blocked_s += foot.writing.seconds
    return spent(subtask.flow.life.seconds, head.idle.seconds, blocked_s)


def _queue(gate: Gate) -> Queue:
    channels = [(channel.bounds, channel.statistics()) for channel in gate.channels]
    return Queue(
        sum(now.waiting_rows for _, now in channels),
        sum(now.waiting_bytes for _, now in channels),
        sum(now.waiting_elements for _, now in channels),
        len(channels),
        sum(bounds.rows for bounds, _ in channels),
        sum(bounds.bytes for bounds, _ in channels),
    )


def _splits(intake: Intake) -> Iterator[SplitStatistics]:
    times, idle = intake.timing.watermarks.times, intake.timing.watermarks.idle_splits
    lags = intake.lags()
    for split, progress in intake.progress.items():
        at_us = times.get(split, progress.at_us)
        yield SplitStatistics(
            split.name,
            progress.position,
            at_us,
            split in idle,
            progress.ended,
            0 if progress.ended else lags.get(split),
        )
