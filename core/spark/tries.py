"""Limits of concurrent writers and task attempts, and waiting for the last tasks."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.core.spark.writing import WriterLimits

if TYPE_CHECKING:
    from pyspark import SparkContext

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

    >>> max_attempts("local[2]", 4), max_attempts("local[2,3]", 4), max_attempts("spark://here:7077", 4)
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
