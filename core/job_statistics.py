"""The statistics of a running job as plain data, for the control API and for metrics.

`job_statistics` and `checkpoint_history` return everything there is. Times are texts in UTC,
durations are seconds, shares are between 0 and 1. A key without a value is present, and null.

Shares cover the time since the last sample (`TimeShareSampler`). The counts of parts are the job's,
across restarts; those of subtasks start at 0 with each attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from headrace.core.elements import FOREVER_US
from headrace.core.history import History, Remembered
from headrace.core.job import Job
from headrace.core.occupation import Shares
from headrace.core.plan import nodes
from headrace.core.sizes import Size
from headrace.core.statistics import PartCounts
from headrace.core.subtask_statistics import (
    Queue,
    SplitStatistics,
    SubtaskStatistics,
    lag_s,
)

MOST_SPLITS = 100
"""The maximum number of listed splits of a subtask: those being read come first."""


def job_statistics(job: Job) -> dict[str, object]:
    """Return the statistics of a job. Call it on the loop of the job.

    parts        by name: kind, parallelism, counts, watermark and lag
    subtasks     of each: its parts, its shares of time, watermark, queue, splits, states
    state        the total size of all states
    checkpoints  their number in this run, and the newest
    """
    subtasks = job.subtasks()
    seen = {(each.attempt, each.id): each.spent for each in subtasks}
    shares = job.looks.shares(asyncio.get_running_loop().time(), seen)
    now_us = job.setting.now_us()
    return {
        "time": time_text(now_us),
        "attempt": job.attempt_number,
        "parts": {
            name: _part(job.plan.part(name), counts, now_us)
            for name, counts in job.counts().items()
        },
        "subtasks": [
            _subtask(s, Shares() if s.ended else shares[s.attempt, s.id]) for s in subtasks
        ],
        "state": _size(sum((each.state for each in subtasks), Size())),
        "checkpoints": None if job.keeping is None else _checkpoints(job.keeping.history),
    }


def checkpoint_history(job: Job) -> dict[str, object]:
    """Return the latest checkpoints of this run, newest first, if it takes checkpoints."""
    history = job.keeping.history if job.keeping else History()
    return _checkpoints(history) | {"history": [_remembered(each) for each in history.last]}


def time_text(at_us: int | None) -> str | None:
    """Return a time or a watermark as text; the end of event time is a word.

    >>> time_text(1_767_225_600_000_000)
    '2026-01-01T00:00:00.000Z'
    """
    if at_us is None:
        return None
    if at_us == FOREVER_US:
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


def _part(part: nodes.PlanPart, counts: PartCounts, now_us: int) -> dict[str, object]:
    return {
        "kind": _kind(part),
        "parallelism": part.parallelism,
        "rows_in": counts.rows_in,
        "rows_out": counts.rows_out,
        "bad": counts.bad,
        "late": counts.late,
        "unfilled": counts.unfilled,
        "lookup": None if counts.lookup is None else counts.lookup.document(),
        "watermark": time_text(counts.watermark_us),
        "lag_s": lag_s(counts.watermark_us, now_us),
    }


def _subtask(subtask: SubtaskStatistics, shares: Shares) -> dict[str, object]:
    return {
        "parts": {
            name: {"rows_in": came.rows_in, "rows_out": came.rows_out, "bad": came.bad}
            for name, came in subtask.parts.items()
        },
        "subtask": subtask.id.index,
        "ended": subtask.ended,
        "busy": round(shares.busy, 4),
        "idle": round(shares.idle, 4),
        "backpressured": round(shares.blocked, 4),
        "backpressure": shares.backpressure,
        "watermark": time_text(subtask.watermark_us),
        "lag_s": subtask.lag_s,
        "queue": None if subtask.queue is None else _queue(subtask.queue),
        "splits": None if subtask.splits is None else _splits(subtask.splits),
        "state": _size(subtask.state),
        "states": {
            step: {name: _size(size) for name, size in sizes.items()}
            for step, sizes in subtask.states.items()
        },
    }


def _queue(queue: Queue) -> dict[str, int]:
    return {
        "channels": queue.channels,
        "elements": queue.elements,
        "rows": queue.rows,
        "most_rows": queue.most_rows,
        "bytes": queue.bytes,
        "most_bytes": queue.most_bytes,
    }


def _splits(splits: Iterable[SplitStatistics]) -> dict[str, object]:
    listed = sorted(splits, key=lambda split: split.ended)
    return {
        "count": len(listed),
        "idle": sum(split.idle for split in listed),
        "ended": sum(split.ended for split in listed),
        "splits": [
            {
                "split": split.name,
                "position": split.position,
                "watermark": time_text(split.watermark_us),
                "idle": split.idle,
                "ended": split.ended,
                "behind": split.behind,
            }
            for split in listed[:MOST_SPLITS]
        ],
    }


def _size(size: Size) -> dict[str, int]:
    return {"rows": size.rows, "bytes": size.bytes, "bytes_on_disk": size.on_disk}


def _checkpoints(history: History) -> dict[str, object]:
    newest = history.newest
    return {
        "completed": history.completed,
        "failed": history.failed,
        "newest": None if newest is None else _remembered(newest),
    }


def _remembered(one: Remembered) -> Mapping[str, object]:
    return {
        "number": one.number,
        "status": "failed" if one.failed else "completed",
        "triggered": time_text(one.triggered_us),
        "seconds": round(one.seconds, 3),
        "bytes_new": one.bytes_new,
        "bytes": one.bytes_all,
        "aligned_s": None if one.pauses is None else round(one.pauses.aligned_s, 4),
        "stood_still_s": None if one.pauses is None else round(one.pauses.stood_still_s, 4),
        "why": one.why or None,
    }
