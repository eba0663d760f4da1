"""What is said about a run while it runs and when it is over: the contract, and which one is meant.

Everything goes to stderr: stdout belongs to the rows.
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
    """Tells one reader, a person or a program."""

    every_s: float
    """The time between two looks."""

    def problem(self, problem: Problem) -> None:
        """An error or a warning about the pipeline's file."""
        ...

    def start(self, plan: Plan) -> None:
        """The pipeline is sound, and begins."""
        ...

    def serving(self, url: str, *, chosen: bool) -> None:
        """Metrics and health are there; `chosen`: on a port that nobody named."""
        ...

    def showing(self) -> AbstractContextManager[object]:
        """Entered while the job runs."""
        ...

    def progress(self, look: Look) -> None:
        """It runs."""
        ...

    def stages(self, look: BatchLook) -> None:
        """It runs, on Spark."""
        ...

    def news(self, news: News) -> None:
        """Something has happened to the job."""
        ...

    def had_finished(self) -> None:
        """There was nothing to do: the run before had come to its end, and was killed then."""
        ...

    def stopping(self) -> None:
        """Somebody has asked for the end."""
        ...

    def refusal(self, message: str, hint: str, status: int) -> None:
        """Nothing was read: why not."""
        ...

    def failure(self, failure: Failure) -> None:
        """The job could not go on."""
        ...

    def interrupted(self, *, kept: bool) -> None:
        """Somebody has asked twice: what was open is lost, or made again if the job is kept."""
        ...

    def summary(self, outcome: Outcome, look: Look) -> None:
        """The end; after a failure, too."""
        ...

    def written(self, done: BatchDone) -> None:
        """The end of a batch, whose output is there."""
        ...

    def nothing_written(self) -> None:
        """Somebody has asked for the end of a batch before it had one."""
        ...


def report_for(pipeline: str, log: str, *, quiet: bool) -> Report:
    """How the run of a file is told: as JSON, live on a terminal, else in lines."""
    if log == "json":
        from headrace.cli.run_json import JsonReport

        return JsonReport(pipeline, quiet)
    if quiet or not sys.stderr.isatty() or os.environ.get("TERM") in (None, "", "dumb"):
        from headrace.cli.run_text import TextReport

        return TextReport(pipeline, quiet)
    from headrace.cli.run_live import LiveReport

    return LiveReport(pipeline, quiet)
