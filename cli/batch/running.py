"""A batch from the command line: starts Spark, runs the plan on it, and reports the result.

The first Ctrl-C cancels Spark's jobs, and no output becomes visible; the exit status is not 0,
since nothing can be resumed. The second Ctrl-C stops the process at once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from headrace.cli.batch.told import BatchDone, BatchLook
from headrace.cli.resuming import now
from headrace.core.contracts import ConnectorError
from headrace.core.messages import Failure
from headrace.core.news import Noticed
from headrace.core.signals import INTERRUPTED, Signals
from headrace.core.snapshots import SnapshotError
from headrace.core.spark.absent import NoSpark
from headrace.core.spark.inside import Inside
from headrace.core.spark.progress import Stages
from headrace.core.spark.running import Outcome, completed, run_batch
from headrace.core.spark.session import session
from headrace.core.spark.settings import is_local, parsed
from headrace.core.spark.shipping import shipped
from headrace.core.spark.stopping import Stopping
from headrace.core.spark.troubles import trouble
from headrace.core.telling import refusal
from headrace.core.user_code import UserCodeError
from headrace.state.storage.batch import BatchHome, batch_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.cli.pipelines import Checked
    from headrace.cli.run_report import Report
    from headrace.core.plan import Plan
    from headrace.core.problems import Problem

Ended: TypeAlias = "BatchDone | Outcome | Failure | Exception | None"
"""The end of a batch: done, done by the previous run, failed, rejected, or stopped (None)."""


def refused(checked: Checked, plan: Plan) -> Sequence[Problem]:
    """Return the problems for which a batch rejects this pipeline."""
    from headrace.connectors.registry import REGISTRY
    from headrace.core.spark.refusing import problems

    return problems(checked.pipeline, plan, REGISTRY)


def inside_of(checked: Checked, plan: Plan, job: str) -> Inside:
    """Build the context that executors are sent."""
    from headrace.connectors.registry import REGISTRY
    from headrace.state.backends import backend

    settings = checked.pipeline.settings
    return Inside(
        str(plan.name),
        Path(checked.file).parent.absolute(),
        job,
        REGISTRY,
        partial(backend, settings.state),
        settings.key_groups,
        frozenset(edge.stream for edge in plan.edges),
    )


class Batch:
    """One run of a plan, with its report.

    The home records output that was written and is not committed yet, so that the next run can
    complete the commit, unless it starts `fresh`.
    """

    def __init__(
        self, checked: Checked, plan: Plan, report: Report, home: str, *, fresh: bool = False
    ) -> None:
        self._checked = checked
        self._plan = plan
        self._folder = Path(checked.file).parent
        self._report = report
        self._home = home
        self._fresh = fresh
        self._stopping = Stopping()
        self._began_s = time.monotonic()
        self._stages: Stages | None = None

    def run(self, master: str | None, conf: Sequence[str], signals: Signals) -> int:
        """Run the batch, unless it is rejected; return the exit status."""
        if refusals := refused(self._checked, self._plan):
            for problem in refusals:
                self._report.problem(problem)
            return 2
        try:
            with batch_home(self._home, str(self._plan.name), now()) as log:
                status = self._run(log, master, conf, signals)
                if status == 0:
                    log.over()
            return status
        except SnapshotError as error:
            return self._refused(refusal(error), error.hint, error.exit_status)

    def _run(
        self, log: BatchHome, master: str | None, conf: Sequence[str], signals: Signals
    ) -> int:
        self._report.start(self._plan)
        with signals.heard(self._ask, _end), self._report.showing(), self._watched():
            ended = self._ended(log, master, conf, signals)
        # Recorded output must be committed, whatever happens.
        return self._status(ended, is_decided=log.recorded() is not None)

    def _ended(
        self, log: BatchHome, master: str | None, conf: Sequence[str], signals: Signals
    ) -> Ended:
        context = inside_of(self._checked, self._plan, log.job)
        try:
            before = completed(self._plan, context, log, self._tell, fresh=self._fresh)
            if before is not None:
                return before
            with session(str(self._plan.name), master, parsed(conf)) as spark:
                # pyspark installs a handler of SIGINT as well.
                signals.renew()
                return None if self._stopping.asked else self._at_work(spark, context, log)
        except Exception as error:
            return error

    def _at_work(self, spark: SparkSession, context: Inside, log: BatchHome) -> Ended:
        try:
            return self._done(spark, context, log)
        except (ConnectorError, SnapshotError, UserCodeError):
            raise
        except Exception as error:
            # Exceptions of pyspark request their text from Java, so it is read while Java runs.
            return trouble(error)

    def _done(self, spark: SparkSession, context: Inside, log: BatchHome) -> BatchDone:
        spark_context = spark.sparkContext
        self._stages = Stages(spark_context)
        local = is_local(str(spark_context.master))
        sent = nullcontext() if local else shipped(spark_context, self._plan, self._folder)
        with sent, self._stopping.heard(spark_context):
            outcome = run_batch(spark, self._plan, context, self._tell, log)
        return BatchDone(self._passed_s, outcome.read, outcome.rows)

    def _status(self, ended: Ended, *, is_decided: bool) -> int:
        """Report how the batch ended; return the exit status."""
        match ended:
            case BatchDone():
                self._report.written(ended)
                return 0
            case Outcome():
                self._report.had_finished()
                return 0
            case _ if self._stopping.asked and not is_decided:
                self._report.nothing_written()
                return INTERRUPTED
            case NoSpark():
                return self._refused(ended.message, ended.hint, ended.exit_status)
            case ConnectorError() | SnapshotError():
                return self._refused(refusal(ended), ended.hint, ended.exit_status)
            case UserCodeError():
                return self._refused(ended.message, ended.hint, 2)
            case Exception():
                ended = trouble(ended)
        assert ended is not None
        self._report.failure(ended)
        return 1

    def _refused(self, message: str, hint: str, status: int) -> int:
        self._report.refusal(message, hint, status)
        return status

    @property
    def _passed_s(self) -> float:
        return time.monotonic() - self._began_s

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Report progress periodically within the `with`."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(self._report.every_s):
                stages = None if self._stages is None else self._stages.look()
                self._report.stages(BatchLook(self._passed_s, stages))

        watching = threading.Thread(target=watch, name="headrace-watch", daemon=True)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()

    def _tell(self, line: str) -> None:
        self._report.news(Noticed(line))

    def _ask(self) -> None:
        self._report.stopping()
        self._stopping.ask()


def _end() -> None:
    """End the process at once; Spark's Java ends with it."""
    os.write(2, b"stopped\n")
    os._exit(INTERRUPTED)
