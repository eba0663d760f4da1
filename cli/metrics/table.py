"""Table of all metrics: their names, meanings and readers. docs/metrics.md is generated from it.

Counters of subtasks start at 0 with each attempt, that is after each restart or rescale, as
counters of a process do with each process: `rate` and `increase` handle such resets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from headrace.cli.metrics import samples
from headrace.cli.metrics.figures import Figures
from headrace.cli.metrics.samples import (
    Read,
    of_job,
    of_lookup,
    of_newest,
    of_part,
    of_queue,
    of_state,
    of_task,
)

Kind: TypeAlias = Literal["counter", "gauge", "summary"]

JOB = ("job",)
PART = (*JOB, "part")
SUBTASK = (*PART, "subtask")
TASK = (*JOB, "task", "subtask")
STATE = (*PART, "state", "subtask")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: a family of samples."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    read: Read
    count: Callable[[Figures], int] | None = None
    """The count of a summary; `read` gives its sum."""

    @property
    def samples(self) -> tuple[str, ...]:
        """The names of its samples in a scrape."""
        if self.kind == "summary":
            return f"{self.name}_count", f"{self.name}_sum"
        return (self.name,)


METRICS: tuple[Metric, ...] = (
    Metric(
        "headrace_info",
        "gauge",
        (*JOB, "version"),
        "Always 1; the version of headrace.",
        lambda figures: [((figures.name, figures.version), 1)],
    ),
    Metric(
        "headrace_up",
        "gauge",
        JOB,
        "1 while the job runs, 0 while it starts, restores, waits, rescales or stops.",
        of_job(lambda figures: float(figures.status == "running")),
    ),
    Metric(
        "headrace_status",
        "gauge",
        (*JOB, "status"),
        "1 for the status of the job, 0 for all other statuses.",
        samples.status,
    ),
    Metric(
        "headrace_restarts_total",
        "counter",
        JOB,
        "Restarts of the job after failures, in this process.",
        of_job(lambda figures: figures.history.restarts),
    ),
    Metric(
        "headrace_attempts_total",
        "counter",
        JOB,
        "Attempts of the job: its start, restarts and rescales.",
        of_job(lambda figures: figures.attempts),
    ),
    Metric(
        "headrace_checkpoints_total",
        "counter",
        (*JOB, "outcome"),
        "Checkpoints that completed or failed.",
        samples.outcomes,
    ),
    Metric(
        "headrace_checkpoint_duration_seconds",
        "summary",
        JOB,
        "Duration of completed checkpoints.",
        of_job(lambda figures: figures.history.seconds),
        lambda figures: figures.history.completed,
    ),
    Metric(
        "headrace_checkpoint_written_bytes_total",
        "counter",
        JOB,
        "Bytes that checkpoints have newly written.",
        of_job(lambda figures: figures.history.bytes_new),
    ),
    Metric(
        "headrace_last_checkpoint_number",
        "gauge",
        JOB,
        "Number of the newest completed checkpoint of this process.",
        of_newest(lambda newest: newest.number),
    ),
    Metric(
        "headrace_last_checkpoint_timestamp_seconds",
        "gauge",
        JOB,
        "Start time of the newest completed checkpoint.",
        of_newest(lambda newest: newest.triggered_us / 1e6),
    ),
    Metric(
        "headrace_last_checkpoint_duration_seconds",
        "gauge",
        JOB,
        "Duration of the newest completed checkpoint.",
        of_newest(lambda newest: newest.seconds),
    ),
    Metric(
        "headrace_last_checkpoint_bytes",
        "gauge",
        JOB,
        "Size of the newest completed checkpoint, including bytes written by earlier ones.",
        of_newest(lambda newest: newest.bytes_all),
    ),
    Metric(
        "headrace_rows_in_total",
        "counter",
        SUBTASK,
        "Rows that a part received; for a source, including bad records.",
        of_part(lambda passed: passed.rows_in),
    ),
    Metric(
        "headrace_rows_out_total",
        "counter",
        SUBTASK,
        "Rows that a part emitted, or that a sink wrote.",
        of_part(lambda passed: passed.rows_out),
    ),
    Metric(
        "headrace_bad_rows_total",
        "counter",
        SUBTASK,
        "Records that could not be decoded, and rows on which user code failed.",
        of_part(lambda passed: passed.bad),
    ),
    Metric(
        "headrace_late_rows_total",
        "counter",
        PART,
        "Rows that were too late for all their windows, in this process.",
        samples.late,
    ),
    Metric(
        "headrace_lookup_keys_total",
        "counter",
        PART,
        "Keys that a lookup requested, counted once per batch, in this attempt.",
        of_lookup(lambda asking: asking.keys),
    ),
    Metric(
        "headrace_lookup_known_keys_total",
        "counter",
        PART,
        "Requested keys that were cached, or already being fetched.",
        of_lookup(lambda asking: asking.known),
    ),
    Metric(
        "headrace_lookup_calls_total",
        "counter",
        PART,
        "Calls of a lookup's table, counting each attempt.",
        of_lookup(lambda asking: asking.calls),
    ),
    Metric(
        "headrace_lookup_failures_total",
        "counter",
        PART,
        "Calls of a lookup's table that failed for good.",
        of_lookup(lambda asking: asking.failures),
    ),
    Metric(
        "headrace_lookup_missed_rows_total",
        "counter",
        PART,
        "Rows for which a lookup's table had no match.",
        of_lookup(lambda asking: asking.missed),
    ),
    Metric(
        "headrace_busy_seconds_total",
        "counter",
        TASK,
        "Time that a subtask was busy; the rate is the share of busy time.",
        of_task(lambda subtask: subtask.spent.busy_s),
    ),
    Metric(
        "headrace_backpressured_seconds_total",
        "counter",
        TASK,
        "Time that a subtask waited for its readers, or for a sink's writer.",
        of_task(lambda subtask: subtask.spent.blocked_s),
    ),
    Metric(
        "headrace_idle_seconds_total",
        "counter",
        TASK,
        "Time that a subtask waited for rows or for its turn, until it ends.",
        of_task(lambda subtask: subtask.spent.idle_s),
    ),
    Metric(
        "headrace_watermark_timestamp_seconds",
        "gauge",
        TASK,
        "Watermark of a subtask; absent without event time, and at its end.",
        of_task(samples.watermark_s),
    ),
    Metric(
        "headrace_watermark_lag_seconds",
        "gauge",
        TASK,
        "Time by which the wall clock is ahead of the watermark.",
        of_task(lambda subtask: subtask.lag_s),
    ),
    Metric(
        "headrace_queue_rows",
        "gauge",
        TASK,
        "Rows queued in the input channels of a subtask.",
        of_queue(lambda queue: queue.rows),
    ),
    Metric(
        "headrace_queue_limit_rows",
        "gauge",
        TASK,
        "The most rows that may be queued in the input channels.",
        of_queue(lambda queue: queue.most_rows),
    ),
    Metric(
        "headrace_queue_bytes",
        "gauge",
        TASK,
        "Memory of the queued rows.",
        of_queue(lambda queue: queue.bytes),
    ),
    Metric(
        "headrace_queue_limit_bytes",
        "gauge",
        TASK,
        "The most memory that queued rows may take.",
        of_queue(lambda queue: queue.most_bytes),
    ),
    Metric(
        "headrace_queue_elements",
        "gauge",
        TASK,
        "Batches and control elements queued in the input channels.",
        of_queue(lambda queue: queue.elements),
    ),
    Metric(
        "headrace_splits",
        "gauge",
        (*SUBTASK, "status"),
        "Splits of a source's subtask that are being read, are idle, or have ended.",
        samples.splits,
    ),
    Metric(
        "headrace_split_behind_records",
        "gauge",
        (*SUBTASK, "split"),
        "Unread records of a split, if the broker reports them.",
        samples.behind,
    ),
    Metric(
        "headrace_state_rows",
        "gauge",
        STATE,
        "Approximate number of rows in a state of a step.",
        of_state(lambda size: size.rows),
    ),
    Metric(
        "headrace_state_memory_bytes",
        "gauge",
        STATE,
        "Approximate memory of a state of a step.",
        of_state(lambda size: size.bytes),
    ),
    Metric(
        "headrace_state_disk_bytes",
        "gauge",
        STATE,
        "Approximate disk space of a state of a step that does not fit into memory.",
        of_state(lambda size: size.on_disk),
    ),
)
