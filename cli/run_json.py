"""Report of a run for programs: one JSON object per line, each with its `event` and the time.

`start`, `serving`, `resumed`, `progress` (every ten seconds), `checkpoint`, `checkpoint_failed`,
`restarting`, `asked`, `savepoint`, `rescaled`, `not_done`, `notice`, `warning`, `error`,
`stopping`, `failure`, `summary`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime

import orjson

from headrace.cli.batch.told import (
    BatchDone,
    BatchLook,
    batch_document,
    batch_summary_document,
)
from headrace.cli.run_progress import Look, PartLook, time_said
from headrace.cli.run_text import INTERRUPTED, NOTHING_WRITTEN
from headrace.core.job import Outcome
from headrace.core.messages import CheckpointFailed, CheckpointTaken, Failure
from headrace.core.news import (
    Asked,
    News,
    NotDone,
    Noticed,
    Rescaled,
    Restarting,
    Resumed,
    Savepointed,
)
from headrace.core.plan import Plan
from headrace.core.problems import Problem
from headrace.core.sizes import Size


class JsonReport:
    """JSON lines on stderr. When quiet, errors only."""

    every_s = 10.0

    def __init__(self, pipeline: str, quiet: bool) -> None:
        self._pipeline = pipeline
        self._quiet = quiet

    def _tell(self, event: str, **values: object) -> None:
        head = {"event": event, "time": datetime.now(UTC), "pipeline": self._pipeline}
        line = orjson.dumps(head | values, option=orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE)
        sys.stderr.write(line.decode())
        sys.stderr.flush()

    def problem(self, problem: Problem) -> None:
        """Write `error` or `warning`, with its position in the file."""
        if problem.severity == "error" or not self._quiet:
            self._tell(problem.severity, **_problem(problem))

    def start(self, plan: Plan) -> None:
        """Write `start`: the job and its parts."""
        if not self._quiet:
            self._tell("start", name=str(plan.name), parts=[part.name for part in plan])

    def serving(self, url: str, *, chosen: bool) -> None:
        """Write `serving`: the URL; also when quiet, if the port was chosen by the system."""
        if chosen or not self._quiet:
            self._tell("serving", url=url)

    def showing(self) -> AbstractContextManager[object]:
        """Return a context without effect: lines need no setup."""
        return nullcontext()

    def progress(self, look: Look) -> None:
        """Write `progress`: counts since the start, rates since the last sample."""
        if not self._quiet:
            self._tell("progress", **look_document(look))

    def stages(self, look: BatchLook) -> None:
        """Write `progress` of a batch: its stages."""
        if not self._quiet:
            self._tell("progress", **batch_document(look))

    def news(self, news: News) -> None:
        """Write `resumed`, `checkpoint`, `checkpoint_failed`, or `restarting` with the failure.

        For clients' requests `asked`, `savepoint`, `rescaled` and `not_done`; `notice` when an
        external system has a problem, and when that is over.
        """
        match news:
            case Resumed() if not self._quiet:
                self._tell("resumed", **_resumed(news))
            case CheckpointTaken(number, seconds, size) if not self._quiet:
                self._tell("checkpoint", number=number, seconds=round(seconds, 3), bytes=size)
            case CheckpointFailed(number, why):
                self._tell("checkpoint_failed", number=number, message=why)
            case Restarting(failure, delay_s):
                self._tell("restarting", delay_s=round(delay_s, 3), **_failure(failure))
            case Asked(drain) if not self._quiet:
                self._tell("asked", drain=drain)
            case Savepointed(number, path) if not self._quiet:
                self._tell("savepoint", checkpoint=number, path=path)
            case Rescaled(parallelism, stood_s) if not self._quiet:
                still = round(stood_s, 3)
                self._tell("rescaled", parallelism=dict(parallelism), stood_still_s=still)
            case NotDone(what, why):
                self._tell("not_done", what=what, message=why)
            case Noticed(line):
                self._tell("notice", message=line)

    def had_finished(self) -> None:
        """Write `summary` without counts."""
        self._tell("summary", status="finished_before")

    def stopping(self) -> None:
        """Write `stopping`: a stop was requested."""
        if not self._quiet:
            self._tell("stopping")

    def refusal(self, message: str, hint: str, status: int) -> None:
        """Write a `failure` before anything was read."""
        self._tell("failure", message=message, hint=hint, exit_status=status)

    def failure(self, failure: Failure) -> None:
        """Write `failure`, with the traceback if it is a bug in headrace."""
        self._tell("failure", **_failure(failure), exit_status=1)

    def interrupted(self, *, kept: bool) -> None:
        """Write `failure`: the run was interrupted."""
        self._tell("failure", message=INTERRUPTED, hint="", exit_status=130)

    def summary(self, outcome: Outcome, look: Look) -> None:
        """Write `summary`: how the job ended, and all counts."""
        if not self._quiet:
            ended = "failed" if outcome.failure else "stopped" if outcome.stopped else "done"
            resumable: dict[str, object] = {}
            if outcome.checkpoint is not None:
                resumable = {"checkpoint": outcome.checkpoint, "drained": outcome.drained}
            self._tell("summary", status=ended, **resumable, **look_document(look))

    def written(self, done: BatchDone) -> None:
        """Write `summary` of a batch: the rows of sources and sinks."""
        if not self._quiet:
            self._tell("summary", status="done", **batch_summary_document(done))

    def nothing_written(self) -> None:
        """Write `failure`: the batch was interrupted."""
        self._tell("failure", message=NOTHING_WRITTEN, hint="", exit_status=130)


def _resumed(resumed: Resumed) -> Mapping[str, object]:
    return {
        "checkpoint": resumed.number,
        "taken_at": resumed.taken_at,
        "sources": dict(resumed.sources),
        "killed": resumed.killed,
        "changes": list(resumed.changes),
        "removed": list(resumed.removed),
        "again": dict(resumed.again),
        "savepoint": resumed.savepoint,
        "forgotten": resumed.forgotten,
    }


def _failure(failure: Failure) -> Mapping[str, object]:
    return {**failure_document(failure), "defect": failure.defect or None}


def failure_document(failure: Failure) -> Mapping[str, object]:
    """Return where a job failed, and why, as plain data."""
    return {
        "step": failure.step,
        "split": failure.split,
        "position": failure.position,
        "message": failure.message,
        "hint": failure.hint,
    }


def look_document(look: Look) -> Mapping[str, object]:
    """Return all counts and rates as plain data."""
    return {
        "seconds": round(look.seconds, 3),
        "rows_in": look.rows_in,
        "rows_out": look.rows_out,
        "bad": look.bad,
        **({} if look.late is None else {"late": look.late}),
        "in_per_s": round(look.in_per_s, 1),
        "out_per_s": round(look.out_per_s, 1),
        "parts": {part.name: _part(part) for part in look.parts},
    }


def _part(part: PartLook) -> Mapping[str, object]:
    return {
        "rows_in": part.counts.rows_in,
        "rows_out": part.counts.rows_out,
        "bad": part.counts.bad,
        **{
            name: value
            for name, value in (("late", part.counts.late), ("unfilled", part.counts.unfilled))
            if value is not None
        },
        **({} if part.counts.state is None else {"state": _state(part.counts.state)}),
        **({} if part.counts.lookup is None else {"lookup": part.counts.lookup.document()}),
        **({} if part.counts.watermark_us is None else {"watermark": time_said(part)}),
        "in_per_s": round(part.in_per_s, 1),
        "out_per_s": round(part.out_per_s, 1),
        "waits": round(part.waits, 3),
        "backpressure": part.backpressure,
    }


def _state(size: Size) -> Mapping[str, object]:
    return {"rows": size.rows, "bytes": size.bytes, "bytes_on_disk": size.on_disk}


def _problem(problem: Problem) -> Mapping[str, object]:
    place = problem.place
    return {
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "subject": problem.subject,
        "message": problem.message,
        "hint": problem.hint,
    }
