"""Report of a run for programs: one JSON object per line, each with its `event` and the time.

`start`, `serving`, `resumed`, `progress` (every ten seconds), `checkpoint`, `checkpoint_failed`,
`restarting`, `asked`, `savepoint`, `rescaled`, `not_done`, `notice`, `warning`, `error`,
`stopping`, `no_output`, `failure`, `summary`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import orjson

from headrace.cli.batch.batch_report import (
    BatchProgress,
    BatchResult,
    build_batch_document,
    build_batch_summary,
)
from headrace.cli.run_progress import JobProgress, PartProgress, format_watermark
from headrace.cli.run_text import INTERRUPTED_TEXT, NOTHING_WRITTEN_TEXT
from headrace.core.api.splits import Failure
from headrace.core.api.state_sizes import StateSize
from headrace.core.coordination.events import (
    ExternalWarning,
    JobEvent,
    JobRescaled,
    JobRestarting,
    JobResumed,
    RegionsRestarted,
    RequestFailed,
    SavepointTaken,
    StopRequested,
    WorkerLost,
    WorkerStarted,
)
from headrace.core.coordination.messages import CheckpointCompleted, CheckpointFailed
from headrace.core.errors.problems import Problem
from headrace.core.job.job import JobOutcome
from headrace.core.plan.nodes import Plan

if TYPE_CHECKING:
    from headrace.cli.job_diagnosis import MissingOutput


class JsonReport:
    """JSON lines on stderr. When quiet, errors only."""

    interval_s = 10.0

    def __init__(self, pipeline: str, quiet: bool) -> None:
        self._pipeline = pipeline
        self._quiet = quiet

    def _write_event(self, event: str, **values: object) -> None:
        sys.stderr.write(f"{self._format_event(event, **values)}\n")
        sys.stderr.flush()

    def _format_event(self, event: str, **values: object) -> str:
        head = {"event": event, "time": datetime.now(UTC), "pipeline": self._pipeline}
        return orjson.dumps(head | values, option=orjson.OPT_UTC_Z).decode()

    def report_problem(self, problem: Problem) -> None:
        """Write `error` or `warning`, with its position in the file."""
        if problem.severity == "error" or not self._quiet:
            self._write_event(problem.severity, **_problem_document(problem))

    def report_start(self, plan: Plan) -> None:
        """Write `start`: the job and its parts."""
        if not self._quiet:
            self._write_event("start", name=str(plan.name), parts=[part.name for part in plan])

    def report_url(self, url: str, *, chosen: bool) -> None:
        """Write `serving`: the URL; also when quiet, if the port was chosen by the system."""
        if chosen or not self._quiet:
            self._write_event("serving", url=url)

    def open_display(self) -> AbstractContextManager[object]:
        """Return a context without effect: lines need no setup."""
        return nullcontext()

    def report_progress(self, look: JobProgress) -> None:
        """Write `progress`: counts since the start, rates since the last sample."""
        if not self._quiet:
            self._write_event("progress", **build_progress_document(look))

    def report_missing_output(self, missing: MissingOutput) -> None:
        """Write `no_output`: for how long, and why."""
        if not self._quiet:
            self._write_event(
                "no_output",
                seconds=round(missing.seconds, 3),
                findings=[each.to_document() for each in missing.findings],
            )

    def report_stages(self, look: BatchProgress) -> None:
        """Write `progress` of a batch: its stages."""
        if not self._quiet:
            self._write_event("progress", **build_batch_document(look))

    def report_event(self, event: JobEvent) -> None:
        """Write `resumed`, `checkpoint`, `checkpoint_failed`, or `restarting` with the failure.

        For worker processes `worker_started` and `worker_lost`. For clients' requests `asked`,
        `savepoint`, `rescaled` and `not_done`; `notice` when an external system has a problem, and
        when that is over.
        """
        match event:
            case JobResumed() if not self._quiet:
                self._write_event("resumed", **_resumed_document(event))
            case CheckpointCompleted(number, seconds, size) if not self._quiet:
                self._write_event(
                    "checkpoint", number=number, seconds=round(seconds, 3), bytes=size
                )
            case CheckpointFailed(number, why):
                self._write_event("checkpoint_failed", number=number, message=why)
            case JobRestarting(failure, delay_s):
                self._write_event(
                    "restarting", delay_s=round(delay_s, 3), **_failure_event(failure)
                )
            case StopRequested(drain, now) if not self._quiet:
                self._write_event("asked", drain=drain, now=now)
            case SavepointTaken(number, path) if not self._quiet:
                self._write_event("savepoint", checkpoint=number, path=path)
            case JobRescaled(parallelism, stood_s, workers) if not self._quiet:
                still, changed = round(stood_s, 3), dict(parallelism)
                self._write_event(
                    "rescaled", parallelism=changed, workers=workers, stood_still_s=still
                )
            case RequestFailed(what, why):
                self._write_event("not_done", what=what, message=why)
            case WorkerStarted(number, pid) if not self._quiet:
                self._write_event("worker_started", worker=number, pid=pid)
            case RegionsRestarted(checkpoint, restarted) if not self._quiet:
                self._write_event("region_restarted", checkpoint=checkpoint, subtasks=restarted)
            case WorkerLost(number, why):
                self._write_event("worker_lost", worker=number, message=why)
            case ExternalWarning(line):
                self._write_event("notice", message=line)

    def report_already_finished(self) -> None:
        """Write `summary` without counts."""
        self._write_event("summary", status="finished_before")

    def report_stopping(self) -> None:
        """Write `stopping`: a stop was requested."""
        if not self._quiet:
            self._write_event("stopping")

    def report_rejection(self, message: str, hint: str, status: int) -> None:
        """Write a `failure` before anything was read."""
        self._write_event("failure", message=message, hint=hint, exit_status=status)

    def report_failure(self, failure: Failure) -> None:
        """Write `failure`, with the traceback if it is a bug in headrace."""
        self._write_event("failure", **_failure_event(failure), exit_status=1)

    def report_interrupted(self, *, is_resumable: bool) -> None:
        """Write `failure`: the run was interrupted."""
        sys.stderr.write(f"{self.format_interrupted(is_resumable=is_resumable)}\n")
        sys.stderr.flush()

    def format_interrupted(self, *, is_resumable: bool) -> str:
        """Return `failure`: the run was interrupted."""
        return self._format_event("failure", message=INTERRUPTED_TEXT, hint="", exit_status=130)

    def report_summary(self, outcome: JobOutcome, look: JobProgress) -> None:
        """Write `summary`: how the job ended, and all counts."""
        if not self._quiet:
            ended = "failed" if outcome.failure else "stopped" if outcome.is_stopped else "done"
            fields: dict[str, object] = {}
            if outcome.checkpoint is not None:
                fields = {"checkpoint": outcome.checkpoint, "drained": outcome.is_drained}
            if look.endless_loops:
                fields["findings"] = [each.to_document() for each in look.endless_loops]
            if rounds := {
                part.name: metrics.list_rounds()
                for part in look.parts
                if (metrics := part.counts.metrics).rounds
            }:
                fields["rounds"] = rounds
            self._write_event("summary", status=ended, **fields, **build_progress_document(look))

    def report_batch_done(self, done: BatchResult) -> None:
        """Write `summary` of a batch: the rows of sources and sinks."""
        if not self._quiet:
            self._write_event("summary", status="done", **build_batch_summary(done))

    def report_nothing_written(self) -> None:
        """Write `failure`: the batch run was interrupted."""
        self._write_event("failure", message=NOTHING_WRITTEN_TEXT, hint="", exit_status=130)


def _resumed_document(resumed: JobResumed) -> Mapping[str, object]:
    return {
        "checkpoint": resumed.number,
        "taken_at": resumed.taken_at,
        "sources": dict(resumed.sources),
        "killed": resumed.killed_process,
        "changes": list(resumed.changes),
        "removed": list(resumed.removed_checkpoints),
        "again": dict(resumed.repeated_rows),
        "savepoint": resumed.savepoint,
        "forgotten": resumed.dropped_checkpoints,
    }


def _failure_event(failure: Failure) -> Mapping[str, object]:
    return {**build_failure_document(failure), "defect": failure.traceback or None}


def build_failure_document(failure: Failure) -> Mapping[str, object]:
    """Return where a job failed, and why, as plain data."""
    return {
        "step": failure.step,
        "split": failure.split,
        "position": failure.position,
        "message": failure.message,
        "hint": failure.hint,
    }


def build_progress_document(look: JobProgress) -> Mapping[str, object]:
    """Return all counts and rates as plain data."""
    return {
        "seconds": round(look.seconds, 3),
        "rows_in": look.rows_in,
        "rows_out": look.rows_out,
        "bad": look.bad_rows,
        **({} if look.late_rows is None else {"late": look.late_rows}),
        "in_per_s": round(look.in_per_s, 1),
        "out_per_s": round(look.out_per_s, 1),
        "parts": {part.name: _part_document(part) for part in look.parts},
    }


def _part_document(part: PartProgress) -> Mapping[str, object]:
    return {
        "rows_in": part.counts.rows_in,
        "rows_out": part.counts.rows_out,
        "bad": part.counts.bad_rows,
        **{
            name: value
            for name, value in (
                ("late", part.counts.late_rows),
                ("unfilled", part.counts.unfilled_rows),
            )
            if value is not None
        },
        **({} if part.counts.state is None else {"state": _state_document(part.counts.state)}),
        **({"metrics": metrics} if (metrics := part.counts.metrics.list_all()) else {}),
        **_latency_document(part),
        **({} if part.counts.lookup is None else {"lookup": part.counts.lookup.document()}),
        **({} if part.counts.watermark_us is None else {"watermark": format_watermark(part)}),
        "in_per_s": round(part.in_per_s, 1),
        "out_per_s": round(part.out_per_s, 1),
        "waits": round(part.wait_share, 3),
        "backpressure": part.backpressure,
    }


def _latency_document(part: PartProgress) -> Mapping[str, object]:
    latencies = part.counts.summarize_latencies()
    if not latencies:
        return {}
    return {"latency": {source: each.to_document() for source, each in latencies.items()}}


def _state_document(size: StateSize) -> Mapping[str, object]:
    return {"rows": size.rows, "bytes": size.bytes, "bytes_on_disk": size.disk_bytes}


def _problem_document(problem: Problem) -> Mapping[str, object]:
    place = problem.location
    return {
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "subject": problem.subject,
        "message": problem.message,
        "hint": problem.hint,
    }
