"""The figures that a diagnosis compares: samples of a job, and since when each figure is unchanged.

Nothing here has a clock: every sample says its own time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import field, replace

from headrace.core.api.splits import SubtaskId
from headrace.core.checkpoint.history import CheckpointRecord
from headrace.core.job.job import Job, JobStatistics
from headrace.core.plan import nodes
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.report import SplitStatistics, SubtaskStatistics
from headrace.core.worker.time_shares import TaskTime, TimeShares, compute_shares

MIN_SPAN_US = 2_000_000
"""The shortest span over which rates mean something, once a job is older."""


@dataclass(frozen=True, slots=True)
class JobFigures:
    """The figures of a job at one time."""

    at_us: int
    """The wall-clock time."""
    plan: nodes.Plan
    statistics: JobStatistics
    restart_count: int = 0
    checkpoints: tuple[CheckpointRecord, ...] = ()
    """The latest checkpoints, newest first."""
    failure: str = ""
    """The failure after which the job waits to restart."""

    def count_output(self) -> int:
        """Return the number of rows that sinks have written."""
        return sum(
            self.statistics.parts[part.name].rows_out
            for part in self.plan
            if isinstance(part, nodes.Sink) and part.name in self.statistics.parts
        )

    def count_input(self) -> int:
        """Return the number of rows that sources have read."""
        return sum(
            self.statistics.parts[part.name].rows_in
            for part in self.plan
            if isinstance(part, nodes.Source) and part.name in self.statistics.parts
        )

    def list_splits(self, source: str) -> Iterator[SplitStatistics]:
        """Yield the splits of a source."""
        for subtask in self.statistics.subtasks:
            if subtask.splits is not None and source in subtask.parts:
                yield from subtask.splits

    def list_subtasks(self, part: str) -> list[SubtaskStatistics]:
        """Return the subtasks of a part."""
        return [each for each in self.statistics.subtasks if part in each.parts]


def collect_figures(job: Job, failure: str = "") -> JobFigures:
    """Return the current figures of a job. Call it on the loop of the job."""
    history = job.storage.history if job.storage else None
    shown = failure if job.failure is None else job.failure.message
    return JobFigures(
        job.spec.operator_context.now_us(),
        job.plan,
        job.collect_statistics(),
        history.restart_count if history else 0,
        history.records if history else (),
        shown,
    )


@dataclass(frozen=True, slots=True)
class _TrackedValue:
    value: object
    since_us: int
    rows_in: int
    """The number of rows that had come in at that time."""
    watermark_us: int | None = None
    """The watermark at that time, or the first one since."""


@dataclass(slots=True)
class FigureHistory:
    """The last two samples of a job, and since when each of its figures is unchanged."""

    started_us: int | None = None
    _samples: deque[JobFigures] = field(default_factory=lambda: deque(maxlen=2))
    _unchanged: dict[Hashable, _TrackedValue] = field(default_factory=dict)

    def record(self, figures: JobFigures) -> None:
        """Record a sample; times between two samples are not known."""
        self._samples.append(figures)
        self.track_changes(figures)

    def track_changes(self, figures: JobFigures) -> None:
        """Note what has changed, without a new sample: rates go back to the older ones."""
        if self.started_us is None:
            self.started_us = figures.at_us
        before, self._unchanged = self._unchanged, {}
        for key, value, rows_in, watermark_us in _list_values(figures):
            last = before.get(key)
            if last is None or last.value != value:
                last = _TrackedValue(value, figures.at_us, rows_in, watermark_us)
            elif last.watermark_us is None:
                last = replace(last, watermark_us=watermark_us)
            self._unchanged[key] = last

    @property
    def earlier(self) -> JobFigures | None:
        """The older of the last two samples."""
        return self._samples[0] if self._samples else None

    def get_since_us(self, *key: Hashable) -> int | None:
        """Return since when a figure has had its value in the newest sample."""
        found = self._unchanged.get(key)
        return None if found is None else found.since_us

    def has_input_since_output(self, figures: JobFigures) -> bool:
        """Whether sources have read rows since sinks have last written some."""
        found = self._unchanged.get(("output",))
        return found is not None and figures.count_input() > found.rows_in

    def get_rows_at_change(self, part: str) -> int | None:
        """Return how many rows a part had received when it last emitted some."""
        found = self._unchanged.get(("rows_out", part))
        return None if found is None else found.rows_in

    def get_watermark_at_change(self, part: str) -> int | None:
        """Return the watermark of a part when it last emitted a row; else the first one known."""
        found = self._unchanged.get(("rows_out", part))
        return None if found is None else found.watermark_us


def _list_values(figures: JobFigures) -> Iterator[tuple[Hashable, object, int, int | None]]:
    """Yield the figures whose changes are tracked by their key, with the rows in and watermark."""
    for name, counts in figures.statistics.parts.items():
        at = counts.rows_in, counts.watermark_us
        yield ("rows_in", name), counts.rows_in, *at
        yield ("rows_out", name), counts.rows_out, *at
        yield ("watermark", name), counts.watermark_us, *at
        yield ("bad", name), counts.bad_rows, *at
        yield ("late", name), counts.late_rows, *at
    yield ("output",), figures.count_output(), figures.count_input(), None
    yield ("restarts",), figures.restart_count, 0, None
    for subtask in figures.statistics.subtasks:
        for split in subtask.splits or ():
            source = next(iter(subtask.parts))
            yield ("split_position", source, split.name), split.position, 0, None
            yield ("split_watermark", source, split.name), split.watermark_us, 0, None


def find_parts_before(plan: nodes.Plan, part: str) -> set[str]:
    """Return the parts from which rows reach a part, and the part."""
    reached, names = {part}, [part]
    while names:
        name = names.pop()
        for edge in plan.edges:
            if edge.consumer == name and edge.producer not in reached:
                reached.add(edge.producer)
                names.append(edge.producer)
    return reached


@dataclass(slots=True)
class SampleSpan:
    """The time between two samples of a job, and what is known of the time before."""

    now: JobFigures
    before: JobFigures | None
    history: FigureHistory
    _earlier: dict[tuple[int, SubtaskId], SubtaskStatistics] = field(default_factory=dict)
    """The subtasks of the earlier sample; none if the span is too short for rates."""

    def __post_init__(self) -> None:
        if self.before is not None and self.now.at_us - self.before.at_us >= MIN_SPAN_US:
            subtasks = self.before.statistics.subtasks
            self._earlier = {(each.attempt, each.id): each for each in subtasks}

    def is_still(self, limit_us: int, *key: Hashable) -> bool:
        """Whether a figure has been unchanged for this long."""
        since_us = self.history.get_since_us(*key)
        return since_us is not None and self.now.at_us - since_us >= limit_us

    def measure_pause_us(self, *key: Hashable) -> int:
        """Return for how long a figure has been unchanged, as far as that is known."""
        return self.now.at_us - (self.history.get_since_us(*key) or self.now.at_us)

    def measure_shares(self, subtask: SubtaskStatistics) -> TimeShares:
        """Return the shares of a subtask's time since the earlier sample, or since it began."""
        earlier = self._find_earlier(subtask)
        since = TaskTime() if earlier is None else earlier.task_time
        seconds = subtask.task_time.total_s - since.total_s
        return (
            TimeShares() if subtask.is_ended else compute_shares(since, subtask.task_time, seconds)
        )

    def measure_write_share(self, subtask: SubtaskStatistics) -> float:
        """Return the share of time in which a subtask waited for the writer of its own sink."""
        earlier = self._find_earlier(subtask)
        since_s, write_s = (
            (0.0, 0.0) if earlier is None else (earlier.task_time.total_s, earlier.write_s)
        )
        seconds = subtask.task_time.total_s - since_s
        return 0.0 if seconds <= 0 else (subtask.write_s - write_s) / seconds

    def count_rows_in(self, subtask: SubtaskStatistics, part: str) -> int:
        """Return how many rows a subtask has received since the earlier sample, or its start."""
        earlier = self._find_earlier(subtask)
        return subtask.parts[part].rows_in - (earlier.parts[part].rows_in if earlier else 0)

    def _find_earlier(self, subtask: SubtaskStatistics) -> SubtaskStatistics | None:
        return self._earlier.get((subtask.attempt, subtask.id))
