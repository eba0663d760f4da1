"""Table of all metrics: their names, meanings and readers. docs/metrics.md is generated from it.

Counters of subtasks start at 0 with each attempt, that is after each restart or rescale, as
counters of a process do with each process: `rate` and `increase` handle such resets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from headrace.cli.metrics import samples
from headrace.cli.metrics.samples import (
    JobSample,
    SampleReader,
    read_job,
    read_lookups,
    read_newest_checkpoint,
    read_parts,
    read_queue,
    read_states,
    read_subtasks,
)
from headrace.core.types.lazy_dataclass import dataclass

Kind: TypeAlias = Literal["counter", "gauge", "summary"]

JOB_LABELS = ("job",)
PART_LABELS = (*JOB_LABELS, "part")
SUBTASK_LABELS = (*PART_LABELS, "subtask")
TASK_LABELS = (*JOB_LABELS, "task", "subtask")
LATENCY_LABELS = (*PART_LABELS, "source")
USER_LABELS = (*PART_LABELS, "name")
STATE_LABELS = (*PART_LABELS, "state", "subtask")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: a family of samples."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    read: SampleReader
    count: Callable[[JobSample], int] | None = None
    """The count of a summary; `read` gives its sum."""

    @property
    def sample_names(self) -> tuple[str, ...]:
        """The names of its samples in a scrape."""
        if self.kind == "summary":
            return f"{self.name}_count", f"{self.name}_sum"
        return (self.name,)


METRICS: tuple[Metric, ...] = (
    Metric(
        "headrace_info",
        "gauge",
        (*JOB_LABELS, "version"),
        "Always 1; the version of headrace.",
        lambda figures: [((figures.name, figures.version), 1)],
    ),
    Metric(
        "headrace_worker_info",
        "gauge",
        (*SUBTASK_LABELS, "task", "worker"),
        "Always 1; the worker of each subtask of a part, 0 if all run in one process.",
        samples.read_workers,
    ),
    Metric(
        "headrace_up",
        "gauge",
        JOB_LABELS,
        "1 while the job runs, 0 while it starts, restores, waits, rescales or stops.",
        read_job(lambda figures: float(figures.status == "running")),
    ),
    Metric(
        "headrace_status",
        "gauge",
        (*JOB_LABELS, "status"),
        "1 for the status of the job, 0 for all other statuses.",
        samples.read_status,
    ),
    Metric(
        "headrace_restarts_total",
        "counter",
        JOB_LABELS,
        "Restarts of the job, or of regions of it, after failures, in this process.",
        read_job(lambda figures: figures.history.restart_count),
    ),
    Metric(
        "headrace_attempts_total",
        "counter",
        JOB_LABELS,
        "Attempts of the job: its start, restarts and rescales.",
        read_job(lambda figures: figures.attempts),
    ),
    Metric(
        "headrace_checkpoints_total",
        "counter",
        (*JOB_LABELS, "outcome"),
        "Checkpoints that completed or failed.",
        samples.read_checkpoint_outcomes,
    ),
    Metric(
        "headrace_checkpoint_duration_seconds",
        "summary",
        JOB_LABELS,
        "Duration of completed checkpoints.",
        read_job(lambda figures: figures.history.total_seconds),
        lambda figures: figures.history.completed_count,
    ),
    Metric(
        "headrace_checkpoint_written_bytes_total",
        "counter",
        JOB_LABELS,
        "Bytes that checkpoints have newly written.",
        read_job(lambda figures: figures.history.total_new_bytes),
    ),
    Metric(
        "headrace_last_checkpoint_number",
        "gauge",
        JOB_LABELS,
        "Number of the newest completed checkpoint of this process.",
        read_newest_checkpoint(lambda newest: newest.number),
    ),
    Metric(
        "headrace_last_checkpoint_timestamp_seconds",
        "gauge",
        JOB_LABELS,
        "Start time of the newest completed checkpoint.",
        read_newest_checkpoint(lambda newest: newest.triggered_us / 1e6),
    ),
    Metric(
        "headrace_last_checkpoint_duration_seconds",
        "gauge",
        JOB_LABELS,
        "Duration of the newest completed checkpoint.",
        read_newest_checkpoint(lambda newest: newest.seconds),
    ),
    Metric(
        "headrace_last_checkpoint_bytes",
        "gauge",
        JOB_LABELS,
        "Size of the newest completed checkpoint, including bytes written by earlier ones.",
        read_newest_checkpoint(lambda newest: newest.total_bytes),
    ),
    Metric(
        "headrace_rows_in_total",
        "counter",
        SUBTASK_LABELS,
        "Rows that a part received; for a source, including bad records.",
        read_parts(lambda part: part.rows_in),
    ),
    Metric(
        "headrace_rows_out_total",
        "counter",
        SUBTASK_LABELS,
        "Rows that a part emitted, or that a sink wrote.",
        read_parts(lambda part: part.rows_out),
    ),
    Metric(
        "headrace_bad_rows_total",
        "counter",
        SUBTASK_LABELS,
        "Records that could not be decoded, and rows on which user code failed.",
        read_parts(lambda part: part.bad_rows),
    ),
    Metric(
        "headrace_late_rows_total",
        "counter",
        PART_LABELS,
        "Rows that were too late for all their windows, in this process.",
        samples.read_late_rows,
    ),
    Metric(
        "headrace_user_counter_total",
        "counter",
        USER_LABELS,
        "Counters of user code (`self.metrics.counter`) and of loops, in this process.",
        samples.read_user_counters,
    ),
    Metric(
        "headrace_user_gauge",
        "gauge",
        USER_LABELS,
        "Gauges of user code (`self.metrics.gauge`) and of loops, added up over the subtasks.",
        samples.read_user_gauges,
    ),
    Metric(
        "headrace_latency_seconds",
        "gauge",
        (*LATENCY_LABELS, "quantile"),
        "Latency from a source to a sink, of the newest markers (`latency_markers:`).",
        samples.read_latencies,
    ),
    Metric(
        "headrace_latency_markers",
        "gauge",
        LATENCY_LABELS,
        "Markers that the quantiles of the latency are of, at most 300 for each subtask.",
        samples.read_latency_markers,
    ),
    Metric(
        "headrace_lookup_keys_total",
        "counter",
        PART_LABELS,
        "Keys that a lookup requested, counted once per batch, in this attempt.",
        read_lookups(lambda lookup: lookup.keys),
    ),
    Metric(
        "headrace_lookup_known_keys_total",
        "counter",
        PART_LABELS,
        "Requested keys that were cached, or already being fetched.",
        read_lookups(lambda lookup: lookup.known),
    ),
    Metric(
        "headrace_lookup_calls_total",
        "counter",
        PART_LABELS,
        "Calls of a lookup's table, counting each attempt.",
        read_lookups(lambda lookup: lookup.calls),
    ),
    Metric(
        "headrace_lookup_failures_total",
        "counter",
        PART_LABELS,
        "Calls of a lookup's table that failed for good.",
        read_lookups(lambda lookup: lookup.failures),
    ),
    Metric(
        "headrace_lookup_missed_rows_total",
        "counter",
        PART_LABELS,
        "Rows for which a lookup's table had no match.",
        read_lookups(lambda lookup: lookup.missed),
    ),
    Metric(
        "headrace_busy_seconds_total",
        "counter",
        TASK_LABELS,
        "Time that a subtask was busy; the rate is the share of busy time.",
        read_subtasks(lambda subtask: subtask.task_time.busy_s),
    ),
    Metric(
        "headrace_backpressured_seconds_total",
        "counter",
        TASK_LABELS,
        "Time that a subtask waited for its readers, or for a sink's writer.",
        read_subtasks(lambda subtask: subtask.task_time.backpressured_s),
    ),
    Metric(
        "headrace_idle_seconds_total",
        "counter",
        TASK_LABELS,
        "Time that a subtask waited for rows or for its turn, until it ends.",
        read_subtasks(lambda subtask: subtask.task_time.idle_s),
    ),
    Metric(
        "headrace_watermark_timestamp_seconds",
        "gauge",
        TASK_LABELS,
        "Watermark of a subtask; absent without event time, and at its end.",
        read_subtasks(samples.watermark_seconds),
    ),
    Metric(
        "headrace_watermark_lag_seconds",
        "gauge",
        TASK_LABELS,
        "Time by which the wall clock is ahead of the watermark.",
        samples.read_watermark_lag,
    ),
    Metric(
        "headrace_queue_rows",
        "gauge",
        TASK_LABELS,
        "Rows queued in the input channels of a subtask.",
        read_queue(lambda queue: queue.rows),
    ),
    Metric(
        "headrace_queue_limit_rows",
        "gauge",
        TASK_LABELS,
        "The most rows that may be queued in the input channels.",
        read_queue(lambda queue: queue.max_rows),
    ),
    Metric(
        "headrace_queue_bytes",
        "gauge",
        TASK_LABELS,
        "Memory of the queued rows.",
        read_queue(lambda queue: queue.bytes),
    ),
    Metric(
        "headrace_queue_limit_bytes",
        "gauge",
        TASK_LABELS,
        "The most memory that queued rows may take.",
        read_queue(lambda queue: queue.max_bytes),
    ),
    Metric(
        "headrace_queue_elements",
        "gauge",
        TASK_LABELS,
        "Batches and control elements queued in the input channels.",
        read_queue(lambda queue: queue.elements),
    ),
    Metric(
        "headrace_splits",
        "gauge",
        (*SUBTASK_LABELS, "status"),
        "Splits of a source's subtask that are being read, are idle, or have ended.",
        samples.read_splits,
    ),
    Metric(
        "headrace_split_behind_records",
        "gauge",
        (*SUBTASK_LABELS, "split"),
        "Unread records of a split, if the broker reports them.",
        samples.read_split_lag,
    ),
    Metric(
        "headrace_state_rows",
        "gauge",
        STATE_LABELS,
        "Approximate number of rows in a state of a step.",
        read_states(lambda size: size.rows),
    ),
    Metric(
        "headrace_state_memory_bytes",
        "gauge",
        STATE_LABELS,
        "Approximate memory of a state of a step.",
        read_states(lambda size: size.bytes),
    ),
    Metric(
        "headrace_state_disk_bytes",
        "gauge",
        STATE_LABELS,
        "Approximate disk space of a state of a step that does not fit into memory.",
        read_states(lambda size: size.disk_bytes),
    ),
)
