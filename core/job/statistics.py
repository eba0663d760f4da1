"""Reports of a job's statistics as plain data, for the control API and for metrics.

`collect_job_statistics` and `collect_checkpoint_history` return everything there is. Times are
texts in UTC, durations are seconds, shares are between 0 and 1. A key without a value is present,
and null.

Shares cover the time since the last sample (`TimeShareSampler`). The counts of parts are the job's,
across restarts; those of subtasks start at 0 with each attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from headrace.core.api.state_sizes import StateSize
from headrace.core.checkpoint.history import CheckpointHistory, CheckpointRecord
from headrace.core.job.job import Job
from headrace.core.operators.rejected_rows import RejectedRow, select_newest
from headrace.core.plan import nodes
from headrace.core.types.elements import MAX_WATERMARK_US
from headrace.core.worker.report import (
    InputQueue,
    SplitStatistics,
    SubtaskStatistics,
    WorkerIdentity,
)
from headrace.core.worker.statistics import PartCounts, compute_lag_s
from headrace.core.worker.time_shares import TimeShares

MAX_LISTED_SPLITS = 100
"""The maximum number of listed splits of a subtask: those being read come first."""


def collect_job_statistics(job: Job) -> dict[str, object]:
    """Return the statistics of a job. Call it on the loop of the job.

    parts        by name: kind, parallelism, counts, watermark and lag
    subtasks     of each: its worker, parts, shares of time, watermark, queue, splits, states
    state        the total size of all states
    checkpoints  their number in this run, and the newest
    """
    collected = job.collect_statistics()
    subtasks = collected.subtasks
    seen = {(each.attempt, each.id): each.task_time for each in subtasks}
    shares = job.time_share_sampler.sample(asyncio.get_running_loop().time(), seen)
    now_us = job.spec.operator_context.now_us()
    return {
        "time": format_time(now_us),
        "attempt": job.attempt_number,
        "parts": {
            name: _describe_part(job.plan.part(name), counts, now_us)
            for name, counts in collected.parts.items()
        },
        "subtasks": [
            _describe_worker(collected.workers.get(s.id))
            | _describe_subtask(s, TimeShares() if s.is_ended else shares[s.attempt, s.id], now_us)
            for s in subtasks
        ],
        "state": _describe_size(sum((each.total_state_size for each in subtasks), StateSize())),
        "checkpoints": None if job.storage is None else _describe_checkpoints(job.storage.history),
    }


def collect_checkpoint_history(job: Job) -> dict[str, object]:
    """Return the latest checkpoints of this run, newest first, if it takes checkpoints."""
    history = job.storage.history if job.storage else CheckpointHistory()
    return _describe_checkpoints(history) | {
        "history": [_describe_checkpoint(each) for each in history.records]
    }


def collect_rejected_rows(job: Job) -> dict[str, Any]:
    """Return the newest bad and late rows of each part in this attempt, the newest first.

    The texts may have secrets of the pipeline, since rows may be made with them.
    """
    found: dict[str, tuple[RejectedRow, ...]] = {}
    for report in job.collect_reports():
        for part, rows in report.rejected_rows.items():
            found[part] = select_newest((*found.get(part, ()), *rows))
    parts = {part: [_describe_rejected(row) for row in found[part]] for part in sorted(found)}
    return {"attempt": job.attempt_number, "parts": parts}


def _describe_rejected(row: RejectedRow) -> dict[str, object]:
    return {
        "kind": row.kind,
        "time": format_time(row.at_us),
        "error": row.error,
        "watermark": format_time(row.watermark_us),
        "split": row.split,
        "position": row.position,
        "text": row.text,
        "length": row.length,
    }


def format_time(at_us: int | None) -> str | None:
    """Return a time or a watermark as text; the end of event time is a word.

    >>> format_time(1_767_225_600_000_000)
    '2026-01-01T00:00:00.000Z'
    """
    if at_us is None:
        return None
    if at_us == MAX_WATERMARK_US:
        return "end"
    try:
        at = datetime(1970, 1, 1) + timedelta(microseconds=at_us)
    except OverflowError:
        return "before time" if at_us < 0 else "after time"
    return at.isoformat(timespec="milliseconds") + "Z"


def _kind(part: nodes.PlanPart) -> str:
    match part:
        case nodes.Source():
            return "source"
        case nodes.Step():
            return "step"
        case nodes.Sink():
            return "sink"


def _describe_part(part: nodes.PlanPart, counts: PartCounts, now_us: int) -> dict[str, object]:
    return {
        "kind": _kind(part),
        "parallelism": part.parallelism,
        "rows_in": counts.rows_in,
        "rows_out": counts.rows_out,
        "bad": counts.bad_rows,
        "late": counts.late_rows,
        "unfilled": counts.unfilled_rows,
        "lookup": None if counts.lookup is None else counts.lookup.document(),
        "metrics": counts.metrics.list_all(),
        "latency": {
            source: latency.to_document()
            for source, latency in counts.summarize_latencies().items()
        },
        "watermark": format_time(counts.watermark_us),
        "lag_s": compute_lag_s(counts.watermark_us, now_us),
    }


def _describe_worker(worker: WorkerIdentity | None) -> dict[str, object]:
    return {"worker": worker and worker.number, "pid": worker and worker.pid}


def _describe_subtask(
    subtask: SubtaskStatistics, shares: TimeShares, now_us: int
) -> dict[str, object]:
    return {
        "parts": {
            name: {
                "rows_in": counters.rows_in,
                "rows_out": counters.rows_out,
                "bad": counters.bad_rows,
            }
            for name, counters in subtask.parts.items()
        },
        "subtask": subtask.id.index,
        "ended": subtask.is_ended,
        "busy": round(shares.busy, 4),
        "idle": round(shares.idle, 4),
        "backpressured": round(shares.backpressured, 4),
        "backpressure": shares.backpressure,
        "watermark": format_time(subtask.watermark_us),
        "lag_s": compute_lag_s(subtask.watermark_us, now_us),
        "queue": None if subtask.queue is None else _describe_queue(subtask.queue),
        "splits": None if subtask.splits is None else _describe_splits(subtask.splits),
        "state": _describe_size(subtask.total_state_size),
        "states": {
            step: {name: _describe_size(size) for name, size in sizes.items()}
            for step, sizes in subtask.state_sizes.items()
        },
    }


def _describe_queue(queue: InputQueue) -> dict[str, int]:
    return {
        "channels": queue.channels,
        "elements": queue.elements,
        "rows": queue.rows,
        "most_rows": queue.max_rows,
        "bytes": queue.bytes,
        "most_bytes": queue.max_bytes,
    }


def _describe_splits(splits: Iterable[SplitStatistics]) -> dict[str, object]:
    listed = sorted(splits, key=lambda split: split.is_ended)
    return {
        "count": len(listed),
        "idle": sum(split.is_idle for split in listed),
        "ended": sum(split.is_ended for split in listed),
        "splits": [
            {
                "split": split.name,
                "position": split.position,
                "watermark": format_time(split.watermark_us),
                "idle": split.is_idle,
                "ended": split.is_ended,
                "behind": split.unread_records,
            }
            for split in listed[:MAX_LISTED_SPLITS]
        ],
    }


def _describe_size(size: StateSize) -> dict[str, int]:
    return {"rows": size.rows, "bytes": size.bytes, "bytes_on_disk": size.disk_bytes}


def _describe_checkpoints(history: CheckpointHistory) -> dict[str, object]:
    newest = history.newest_completed
    return {
        "completed": history.completed_count,
        "failed": history.failed_count,
        "newest": None if newest is None else _describe_checkpoint(newest),
    }


def _describe_checkpoint(one: CheckpointRecord) -> Mapping[str, object]:
    return {
        "number": one.number,
        "status": "failed" if one.is_failed else "completed",
        "triggered": format_time(one.triggered_us),
        "seconds": round(one.seconds, 3),
        "bytes_new": one.new_bytes,
        "bytes": one.total_bytes,
        "aligned_s": None if one.pauses is None else round(one.pauses.alignment_s, 4),
        "stood_still_s": None if one.pauses is None else round(one.pauses.sync_s, 4),
        "why": one.failure_reason or None,
    }
