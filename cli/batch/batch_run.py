"""A batch from the command line: starts Spark, runs the plan on it, and reports the result.

The first Ctrl-C cancels Spark's jobs, and no output becomes visible; the exit status is not 0,
since nothing can be resumed. The second Ctrl-C stops the process at once. For `headrace explain
--batch` nothing is run, and Spark's plan is returned as text.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from headrace.cli.batch.batch_report import BatchProgress, BatchResult
from headrace.core.api.failures import ConnectorError, format_refusal
from headrace.core.api.snapshots import SnapshotError, format_now
from headrace.core.api.splits import Failure
from headrace.core.api.user_code import UserCodeError
from headrace.core.coordination.events import ExternalWarning
from headrace.core.errors.interrupts import INTERRUPTED_STATUS
from headrace.core.job.signals import SignalHandler
from headrace.core.spark.batch_job import (
    BatchOutcome,
    check_output,
    complete_previous_run,
    explain_sinks,
    run_batch,
)
from headrace.core.spark.code_archive import ship_code
from headrace.core.spark.errors import to_failure
from headrace.core.spark.executor_context import ExecutorContext
from headrace.core.spark.installation import SparkUnavailable, check_installed
from headrace.core.spark.session import open_session
from headrace.core.spark.settings import is_local, parse_conf
from headrace.core.spark.spark_jobs import BatchCancellation, StageTracker
from headrace.state.storage.batch_home import BatchHome, hold_batch_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.cli.pipeline_file import CheckedPipeline
    from headrace.cli.run_options import RunOptions
    from headrace.cli.run_report import RunReport
    from headrace.core.api.user_metrics import MetricValues
    from headrace.core.errors.problems import Problem
    from headrace.core.pipeline.settings import Settings
    from headrace.core.plan.connector import Connectors
    from headrace.core.plan.nodes import Plan

BatchEnd: TypeAlias = "BatchResult | BatchOutcome | Failure | Exception | None"
"""The end of a batch: done, done by the previous run, failed, rejected, or stopped (None)."""


def find_batch_problems(checked: CheckedPipeline, plan: Plan) -> Sequence[Problem]:
    """Return the problems for which a batch rejects this pipeline."""
    from headrace.connectors.registry import REGISTRY
    from headrace.core.spark.batch_plan import find_problems

    return find_problems(checked.pipeline, plan, REGISTRY)


def build_executor_context(
    plan: Plan, settings: Settings, folder: Path, job: str, connectors: Connectors
) -> ExecutorContext:
    """Build the context that executors are sent."""
    from headrace.state.backends import open_backend

    return ExecutorContext(
        str(plan.name),
        folder.absolute(),
        job,
        connectors,
        partial(open_backend, settings.state),
        settings.key_groups,
        frozenset(edge.stream for edge in plan.edges),
    )


def _build_context(checked: CheckedPipeline, plan: Plan, job: str) -> ExecutorContext:
    from headrace.connectors.registry import REGISTRY

    folder = Path(checked.file).parent
    return build_executor_context(plan, checked.pipeline.settings, folder, job, REGISTRY)


class BatchRun:
    """One run of a plan, with its report.

    The home records output that was written and is not committed yet, so that the next run can
    complete the commit, unless it has the option `fresh`.
    """

    def __init__(
        self, options: RunOptions, checked: CheckedPipeline, plan: Plan, report: RunReport
    ) -> None:
        self._options = options
        self._pipeline = checked
        self._plan = plan
        self._report = report
        self._cancellation = BatchCancellation()
        self._began_s = time.monotonic()
        self._stages: StageTracker | None = None
        self._metrics: dict[str, MetricValues] = {}
        """The metrics of loops so far, by step."""

    def run(self, signals: SignalHandler) -> int:
        """Run the batch, unless it is rejected; return the exit status."""
        if refusals := find_batch_problems(self._pipeline, self._plan):
            for problem in refusals:
                self._report.report_problem(problem)
            return 2
        try:
            home, name = self._options.home, str(self._plan.name)
            with hold_batch_home(home, name, format_now(), report=self._report_line) as log:
                status = self._run_recorded(log, signals)
                if status == 0:
                    log.clear_finished()
            return status
        except SnapshotError as error:
            return self._report_rejection(format_refusal(error), error.hint, error.exit_status)

    def _run_recorded(self, log: BatchHome, signals: SignalHandler) -> int:
        self._report.report_start(self._plan)
        signals.describe_end = partial(self._report.format_interrupted, is_resumable=False)
        with (
            signals.send_to_job(self._cancellation.request, end=None),
            self._report.open_display(),
            self._report_progress(),
        ):
            ended = self._run_to_end(log, signals)
        # Recorded output must be committed, whatever happens.
        return self._report_end(ended, is_decided=log.read_record() is not None)

    def _run_to_end(self, log: BatchHome, signals: SignalHandler) -> BatchEnd:
        options = self._options
        context = _build_context(self._pipeline, self._plan, log.job)
        try:
            before = complete_previous_run(
                self._plan, context, log, self._report_line, fresh=options.fresh
            )
            if before is not None:
                return before
            check_installed()
            check_output(self._plan, context, log, self._report_line)
            with open_session(
                str(self._plan.name), options.master, parse_conf(options.conf)
            ) as spark:
                # pyspark installs a handler of SIGINT as well.
                signals.reinstall()
                return (
                    None
                    if self._cancellation.is_requested
                    else self._run_in_session(spark, context, log)
                )
        except Exception as error:
            return error

    def _run_in_session(
        self, spark: SparkSession, context: ExecutorContext, log: BatchHome
    ) -> BatchEnd:
        try:
            return self._run_on_spark(spark, context, log)
        except (ConnectorError, SnapshotError, UserCodeError):
            raise
        except Exception as error:
            # Exceptions of pyspark request their text from Java, so it is read while Java runs.
            return to_failure(error)

    def _run_on_spark(
        self, spark: SparkSession, context: ExecutorContext, log: BatchHome
    ) -> BatchResult:
        spark_context = spark.sparkContext
        self._stages = StageTracker(spark_context)
        local = is_local(str(spark_context.master))
        folder = self._options.folder
        sent = nullcontext() if local else ship_code(spark_context, self._plan, folder)
        with sent, self._cancellation.cancel_jobs(spark_context):
            if self._options.fresh:
                log.discard_rounds()
            every_s, metrics = self._checkpoint_every_s, self._metrics
            outcome = run_batch(
                spark, self._plan, context, self._report_line, log, every_s, metrics
            )
        return BatchResult(
            self._elapsed_s, outcome.source_counts, outcome.sink_rows, outcome.metrics
        )

    def _report_end(self, ended: BatchEnd, *, is_decided: bool) -> int:
        """Report how the batch ended; return the exit status."""
        match ended:
            case BatchResult():
                self._report.report_batch_done(ended)
                return 0
            case BatchOutcome():
                self._report.report_already_finished()
                return 0
            case _ if self._cancellation.is_requested and not is_decided:
                self._report.report_nothing_written()
                return INTERRUPTED_STATUS
            case SparkUnavailable():
                return self._report_rejection(ended.message, ended.hint, ended.exit_status)
            case ConnectorError() | SnapshotError():
                return self._report_rejection(format_refusal(ended), ended.hint, ended.exit_status)
            case UserCodeError():
                return self._report_rejection(ended.message, ended.hint, 2)
            case Exception():
                ended = to_failure(ended)
        assert ended is not None
        self._report.report_failure(ended)
        return 1

    def _report_rejection(self, message: str, hint: str, status: int) -> int:
        self._report.report_rejection(message, hint, status)
        return status

    @property
    def _checkpoint_every_s(self) -> float | None:
        every = self._pipeline.pipeline.settings.checkpoint.every
        return None if every is None else every.total_seconds()

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    @contextmanager
    def _report_progress(self) -> Iterator[None]:
        """Report progress periodically within the `with`."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(self._report.interval_s):
                stages = None if self._stages is None else self._stages.poll()
                look = BatchProgress(self._elapsed_s, stages, dict(self._metrics))
                self._report.report_stages(look)

        watching = threading.Thread(target=watch, name="headrace-watch", daemon=True)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()

    def _report_line(self, line: str) -> None:
        self._report.report_event(ExternalWarning(line))


def explain_on_spark(
    checked: CheckedPipeline, plan: Plan, master: str | None, conf: Sequence[str]
) -> dict[str, str]:
    """Return Spark's plan of each sink. Raises SparkUnavailable, ConnectorError."""
    with open_session(str(plan.name), master, parse_conf(conf)) as spark:
        return explain_sinks(spark, plan, _build_context(checked, plan, uuid.uuid4().hex))


def format_spark_plans(plans: dict[str, str]) -> str:
    """Format the plans one after the other."""
    return "".join(f"\non Spark, for the sink {name}:\n{plan}\n" for name, plan in plans.items())
