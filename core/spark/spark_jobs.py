"""Spark's jobs while they run: progress of their stages, cancellation, and limits of tasks.

The status tracker of pyspark knows neither a job's description nor its number of rows. The store
behind Spark's own web pages knows both, and exists whether the pages are served or not.

Spark cancels only the jobs that run at that time, not later ones. So jobs are cancelled repeatedly
until the batch run has given up. The commit of written output has no Spark job, and is allowed to
finish.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from headrace.core.spark.sinks import WriterLimits
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark import SparkContext


@dataclass(frozen=True, slots=True)
class SparkStage:
    """A stage of a Spark job: tasks that run in parallel."""

    number: int
    job: str
    """The job's description."""
    tasks: int
    done: int
    running: int
    failed: int
    rows_in: int
    """Rows read from earlier stages."""
    rows_out: int
    """Rows written for later stages."""
    ended: bool = False

    def document(self) -> dict[str, object]:
        """Returns the stage under the names that programs know."""
        return {
            "number": self.number,
            "job": self.job,
            "tasks": self.tasks,
            "done": self.done,
            "running": self.running,
            "failed": self.failed,
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "ended": self.ended,
        }


class StageTracker:
    """All stages seen running so far, in their order."""

    def __init__(self, context: SparkContext) -> None:
        self._store = context._jsc.sc().statusStore()
        self._stages: dict[int, SparkStage] = {}

    def poll(self) -> tuple[SparkStage, ...]:
        """Poll Spark, and return all stages seen so far; the last known ones if Spark is gone."""
        from py4j.protocol import Py4JError

        with suppress(Py4JError, OSError):
            self._poll()
        return tuple(self._stages[number] for number in sorted(self._stages))

    def _poll(self) -> None:
        found = self._store.activeStages()
        active = [_read_stage(found.apply(at), ended=False) for at in range(found.size())]
        now = {stage.number for stage in active}
        for number, stage in self._stages.items():
            if number not in now and not stage.ended:
                self._stages[number] = _read_stage(self._store.lastStageAttempt(number), ended=True)
        self._stages |= {stage.number: stage for stage in active}


def _read_stage(data: JavaObject, *, ended: bool) -> SparkStage:
    about = data.description()
    return SparkStage(
        data.stageId(),
        about.get() if about.isDefined() else "",
        data.numTasks(),
        data.numCompleteTasks(),
        data.numActiveTasks(),
        data.numFailedTasks(),
        data.shuffleReadRecords(),
        data.shuffleWriteRecords(),
        ended,
    )


CANCEL_EVERY_S = 0.2


class BatchCancellation:
    """A request to stop, from any thread."""

    def __init__(self) -> None:
        self._stop_event = threading.Event()
        self._end_event = threading.Event()

    @property
    def is_requested(self) -> bool:
        """Whether the batch run must stop."""
        return self._stop_event.is_set()

    def request(self) -> None:
        """Request the batch run to stop."""
        self._stop_event.set()

    @contextmanager
    def cancel_jobs(self, context: SparkContext) -> Iterator[None]:
        """Cancel Spark's jobs within the `with`, once a stop is requested."""
        thread = threading.Thread(target=self._cancel, args=(context,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._end_event.set()
            thread.join()

    def _cancel(self, context: SparkContext) -> None:
        while not self._end_event.wait(CANCEL_EVERY_S):
            if self.is_requested:
                with suppress(Exception):  # Spark may have ended just now
                    context.cancelAllJobs()


WRITERS_PER_CORE = 2
"""Writers per core, for sinks that count writers."""


MAX_WAIT_S = 10.0


POLL_S = 0.05


_LOCAL_RETRIES = re.compile(r"local(?:\[[^,\]]*(?:, *(\d+))?\])?")


def limit_writers(context: SparkContext) -> WriterLimits:
    """Return the writer limits of a sink that counts writers."""
    failures = int(context.getConf().get("spark.task.maxFailures") or 4)
    return WriterLimits(
        WRITERS_PER_CORE * context.defaultParallelism, max_attempts(str(context.master), failures)
    )


def max_attempts(master: str, failures: int) -> int:
    """Return the most attempts of a task: on a cluster, each may also have a speculative copy.

    >>> (
    ...     max_attempts("local[2]", 4),
    ...     max_attempts("local[2,3]", 4),
    ...     max_attempts("spark://here:7077", 4),
    ... )
    (1, 3, 8)
    """
    local = _LOCAL_RETRIES.fullmatch(master)
    return int(local[1] or 1) if local else 2 * failures


def wait_for_tasks(context: SparkContext) -> None:
    """Wait until no task of an ended job is running: a cancelled task may still write."""
    until_s = time.monotonic() + MAX_WAIT_S
    with suppress(Exception):  # Spark itself may have ended
        tracker = context._jsc.sc().statusTracker()
        while time.monotonic() < until_s:
            if not any(each.numRunningTasks() for each in tracker.getExecutorInfos()):
                return
            time.sleep(POLL_S)
