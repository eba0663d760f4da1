"""Progress of Spark's stages, read while its jobs run.

The status tracker of pyspark knows neither a job's description nor its number of rows. The store
behind Spark's own web pages knows both, and exists whether the pages are served or not.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
