"""Reports of a run: their protocol, and the choice of one.

All reports go to stderr: stdout is for rows.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from headrace.cli.batch.batch_report import BatchProgress, BatchResult
from headrace.cli.run_progress import JobProgress
from headrace.core.api.splits import Failure
from headrace.core.coordination.events import JobEvent
from headrace.core.errors.problems import Problem
from headrace.core.job.job import JobOutcome
from headrace.core.plan.nodes import Plan

if TYPE_CHECKING:
    from headrace.cli.job_diagnosis import MissingOutput


class RunReport(Protocol):
    """A report of a run, for a person or a program."""

    interval_s: float
    """The time between two samples of progress."""

    def report_problem(self, problem: Problem) -> None:
        """Report an error or a warning about the pipeline's file."""
        ...

    def report_start(self, plan: Plan) -> None:
        """Report that the pipeline is valid and starts."""
        ...

    def report_url(self, url: str, *, chosen: bool) -> None:
        """Report the URL of metrics and health; `chosen`: the system chose the port."""
        ...

    def open_display(self) -> AbstractContextManager[object]:
        """Return a context that is entered while the job runs."""
        ...

    def report_progress(self, look: JobProgress) -> None:
        """Report the progress of a job."""
        ...

    def report_missing_output(self, missing: MissingOutput) -> None:
        """Report why nothing is emitted, though rows come in."""
        ...

    def report_stages(self, look: BatchProgress) -> None:
        """Report the progress of a batch run."""
        ...

    def report_event(self, event: JobEvent) -> None:
        """Report an event of the job."""
        ...

    def report_already_finished(self) -> None:
        """Report that the job had finished before: in a run that was killed, or its savepoint."""
        ...

    def report_stopping(self) -> None:
        """Report that a stop was requested."""
        ...

    def report_rejection(self, message: str, hint: str, status: int) -> None:
        """Report why nothing was read."""
        ...

    def report_failure(self, failure: Failure) -> None:
        """Report the failure that has ended the job."""
        ...

    def format_interrupted(self, *, is_resumable: bool) -> str:
        """Format the report of an immediate stop, without any wait."""
        ...

    def report_interrupted(self, *, is_resumable: bool) -> None:
        """Report an immediate stop; open output is lost, or made again by a run that resumes."""
        ...

    def report_summary(self, outcome: JobOutcome, look: JobProgress) -> None:
        """Report the end of a job, also after a failure."""
        ...

    def report_batch_done(self, done: BatchResult) -> None:
        """Report the end of a batch, whose output is committed."""
        ...

    def report_nothing_written(self) -> None:
        """Report that a batch run was stopped before its output was committed."""
        ...


def choose_report(pipeline: str, log: str, *, quiet: bool) -> RunReport:
    """Return the report of a run: JSON, live on a terminal, else lines."""
    if log == "json":
        from headrace.cli.run_json import JsonReport

        return JsonReport(pipeline, quiet)
    if quiet or not sys.stderr.isatty() or os.environ.get("TERM") in (None, "", "dumb"):
        from headrace.cli.run_text import TextReport

        return TextReport(pipeline, quiet)
    from headrace.cli.run_live import LiveReport

    return LiveReport(pipeline, quiet)
