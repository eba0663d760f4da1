"""Limits of concurrent writers and task attempts, and waiting for the last tasks."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.core.spark.writing import Writers

if TYPE_CHECKING:
    from pyspark import SparkContext

A_CORE = 2
"""Writers per core, for sinks that count writers."""
LONGEST_S = 10.0
LOOK_S = 0.05

_LOCAL = re.compile(r"local(?:\[[^,\]]*(?:, *(\d+))?\])?")


def writers(context: SparkContext) -> Writers:
    """Return the writer limits of a sink that counts writers."""
    failures = int(context.getConf().get("spark.task.maxFailures") or 4)
    return Writers(A_CORE * context.defaultParallelism, tries(str(context.master), failures))


def tries(master: str, failures: int) -> int:
    """Return the most attempts of a task: on a cluster, each may also have a speculative copy.

    >>> tries("local[2]", 4), tries("local[2,3]", 4), tries("spark://here:7077", 4)
    (1, 3, 8)
    """
    local = _LOCAL.fullmatch(master)
    return int(local[1] or 1) if local else 2 * failures


def quiet(context: SparkContext) -> None:
    """Wait until no task of an ended job is running: a cancelled task may still write."""
    until_s = time.monotonic() + LONGEST_S
    with suppress(Exception):  # Spark itself may have ended
        tracker = context._jsc.sc().statusTracker()
        while time.monotonic() < until_s:
            if not any(each.numRunningTasks() for each in tracker.getExecutorInfos()):
                return
            time.sleep(LOOK_S)
