"""Every metric: its name, what it means, and how it is read. docs/metrics.md is made of this.

Counters of subtasks begin at 0 with each attempt, which a restart or a rescale makes, as those of a
process do with each process: `rate` and `increase` know that.
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
    """One family of samples."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    read: Read
    count: Callable[[Figures], int] | None = None
    """Of a summary: how many there were; `read` gives what they come to together."""

    @property
    def samples(self) -> tuple[str, ...]:
        """The names under which a scrape has it."""
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
        "1 for what the job is doing, 0 for all else that it might.",
        samples.status,
    ),
    Metric(
        "headrace_restarts_total",
        "counter",
        JOB,
        "How often the job has failed and begun again, in this process.",
        of_job(lambda figures: figures.history.restarts),
    ),
    Metric(
        "headrace_attempts_total",
        "counter",
        JOB,
        "How often the job was begun: its start, restarts and rescales.",
        of_job(lambda figures: figures.attempts),
    ),
    Metric(
        "headrace_checkpoints_total",
        "counter",
        (*JOB, "outcome"),
        "Checkpoints that are complete, and those that are not and never will be.",
        samples.outcomes,
    ),
    Metric(
        "headrace_checkpoint_duration_seconds",
        "summary",
        JOB,
        "How long checkpoints that are complete have taken.",
        of_job(lambda figures: figures.history.seconds),
        lambda figures: figures.history.completed,
    ),
    Metric(
        "headrace_checkpoint_written_bytes_total",
        "counter",
        JOB,
        "What checkpoints have written that was not there before.",
        of_job(lambda figures: figures.history.bytes_new),
    ),
    Metric(
        "headrace_last_checkpoint_number",
        "gauge",
        JOB,
        "The newest checkpoint of this process that is complete.",
        of_newest(lambda newest: newest.number),
    ),
    Metric(
        "headrace_last_checkpoint_timestamp_seconds",
        "gauge",
        JOB,
        "When it was begun.",
        of_newest(lambda newest: newest.triggered_us / 1e6),
    ),
    Metric(
        "headrace_last_checkpoint_duration_seconds",
        "gauge",
        JOB,
        "How long it has taken.",
        of_newest(lambda newest: newest.seconds),
    ),
    Metric(
        "headrace_last_checkpoint_bytes",
        "gauge",
        JOB,
        "What it is made of, with all that earlier ones wrote.",
        of_newest(lambda newest: newest.bytes_all),
    ),
    Metric(
        "headrace_rows_in_total",
        "counter",
        SUBTASK,
        "Rows that came to a part; bad records are among those of a source.",
        of_part(lambda passed: passed.rows_in),
    ),
    Metric(
        "headrace_rows_out_total",
        "counter",
        SUBTASK,
        "Rows that left a part, or that a sink wrote.",
        of_part(lambda passed: passed.rows_out),
    ),
    Metric(
        "headrace_bad_rows_total",
        "counter",
        SUBTASK,
        "Records that could not be decoded, and rows on which a user's function failed.",
        of_part(lambda passed: passed.bad),
    ),
    Metric(
        "headrace_late_rows_total",
        "counter",
        PART,
        "Rows that came too late for every window of theirs, in this process.",
        samples.late,
    ),
    Metric(
        "headrace_lookup_keys_total",
        "counter",
        PART,
        "Keys that a lookup was to find, those of a batch once each, in this attempt.",
        of_lookup(lambda asking: asking.keys),
    ),
    Metric(
        "headrace_lookup_known_keys_total",
        "counter",
        PART,
        "Those of them that were remembered, or on their way already.",
        of_lookup(lambda asking: asking.known),
    ),
    Metric(
        "headrace_lookup_calls_total",
        "counter",
        PART,
        "Calls of the table of a lookup, each try counted.",
        of_lookup(lambda asking: asking.calls),
    ),
    Metric(
        "headrace_lookup_failures_total",
        "counter",
        PART,
        "Calls of the table of a lookup that were given up for good.",
        of_lookup(lambda asking: asking.failures),
    ),
    Metric(
        "headrace_lookup_missed_rows_total",
        "counter",
        PART,
        "Rows for which the table of a lookup had nothing.",
        of_lookup(lambda asking: asking.missed),
    ),
    Metric(
        "headrace_busy_seconds_total",
        "counter",
        TASK,
        "How long a subtask has worked: its rate is the share of time in which it is busy.",
        of_task(lambda subtask: subtask.spent.busy_s),
    ),
    Metric(
        "headrace_backpressured_seconds_total",
        "counter",
        TASK,
        "How long it has waited for those who read from it, or for a sink's writer behind it.",
        of_task(lambda subtask: subtask.spent.blocked_s),
    ),
    Metric(
        "headrace_idle_seconds_total",
        "counter",
        TASK,
        "How long it has waited for rows, or for its turn; it stops when the subtask ends.",
        of_task(lambda subtask: subtask.spent.idle_s),
    ),
    Metric(
        "headrace_watermark_timestamp_seconds",
        "gauge",
        TASK,
        "How far event time has come; absent where it plays no part, and at its end.",
        of_task(samples.watermark_s),
    ),
    Metric(
        "headrace_watermark_lag_seconds",
        "gauge",
        TASK,
        "How far the wall clock is ahead of that.",
        of_task(lambda subtask: subtask.lag_s),
    ),
    Metric(
        "headrace_queue_rows",
        "gauge",
        TASK,
        "Rows that wait in the channels that a subtask reads.",
        of_queue(lambda queue: queue.rows),
    ),
    Metric(
        "headrace_queue_limit_rows",
        "gauge",
        TASK,
        "How many rows may wait there.",
        of_queue(lambda queue: queue.most_rows),
    ),
    Metric(
        "headrace_queue_bytes",
        "gauge",
        TASK,
        "What the rows that wait take.",
        of_queue(lambda queue: queue.bytes),
    ),
    Metric(
        "headrace_queue_limit_bytes",
        "gauge",
        TASK,
        "What they may take.",
        of_queue(lambda queue: queue.most_bytes),
    ),
    Metric(
        "headrace_queue_elements",
        "gauge",
        TASK,
        "Batches, and marks between them, that wait there.",
        of_queue(lambda queue: queue.elements),
    ),
    Metric(
        "headrace_splits",
        "gauge",
        (*SUBTASK, "status"),
        "Splits of a source's subtask: those that are being read, are idle, or have ended.",
        samples.splits,
    ),
    Metric(
        "headrace_split_behind_records",
        "gauge",
        (*SUBTASK, "split"),
        "Records of a split that there are and that were not read, where a broker tells.",
        samples.behind,
    ),
    Metric(
        "headrace_state_rows",
        "gauge",
        STATE,
        "About how many rows a state of a step has.",
        of_state(lambda size: size.rows),
    ),
    Metric(
        "headrace_state_memory_bytes",
        "gauge",
        STATE,
        "About what they take in memory.",
        of_state(lambda size: size.bytes),
    ),
    Metric(
        "headrace_state_disk_bytes",
        "gauge",
        STATE,
        "About what they take on disk, where they do not fit into memory.",
        of_state(lambda size: size.on_disk),
    ),
)
