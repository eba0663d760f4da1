"""Reports of a run: their protocol, and the choice of one.

All reports go to stderr: stdout is for rows.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from typing import Protocol

from headrace.cli.batch.told import BatchDone, BatchLook
from headrace.cli.run_progress import Look
from headrace.core.job import Outcome
from headrace.core.messages import Failure
from headrace.core.news import News
from headrace.core.plan import Plan
from headrace.core.problems import Problem


class Report(Protocol):
    """A report of a run, for a person or a program."""

    every_s: float
    """The time between two samples of progress."""

    def problem(self, problem: Problem) -> None:
        """Report an error or a warning about the pipeline's file."""
        ...

    def start(self, plan: Plan) -> None:
        """Report that the pipeline is valid and starts."""
        ...

    def serving(self, url: str, *, chosen: bool) -> None:
        """Report the URL of metrics and health; `chosen`: the system chose the port."""
        ...

    def showing(self) -> AbstractContextManager[object]:
        """Return a context that is entered while the job runs."""
        ...

    def progress(self, look: Look) -> None:
        """Report the progress of a job."""
        ...

    def stages(self, look: BatchLook) -> None:
        """Report the progress of a batch on Spark."""
        ...

    def news(self, news: News) -> None:
        """Report an event of the job."""
        ...

    def had_finished(self) -> None:
        """Report that the job had finished when the previous run was killed."""
        ...

    def stopping(self) -> None:
        """Report that a stop was requested."""
        ...

    def refusal(self, message: str, hint: str, status: int) -> None:
        """Report why nothing was read."""
        ...

    def failure(self, failure: Failure) -> None:
        """Report the failure that has ended the job."""
        ...

    def interrupted(self, *, kept: bool) -> None:
        """Report an immediate stop; open output is lost, or made again if the job is `kept`."""
        ...

    def summary(self, outcome: Outcome, look: Look) -> None:
        """Report the end of a job, also after a failure."""
        ...

    def written(self, done: BatchDone) -> None:
        """Report the end of a batch, whose output is committed."""
        ...

    def nothing_written(self) -> None:
        """Report that a batch was stopped before its output was committed."""
        ...


def report_for(pipeline: str, log: str, *, quiet: bool) -> Report:
    """Return the report of a run: JSON, live on a terminal, else lines."""
    if log == "json":
        from headrace.cli.run_json import JsonReport

        return JsonReport(pipeline, quiet)
    if quiet or not sys.stderr.isatty() or os.environ.get("TERM") in (None, "", "dumb"):
        from headrace.cli.run_text import TextReport

        return TextReport(pipeline, quiet)
    from headrace.cli.run_live import LiveReport

    return LiveReport(pipeline, quiet)
