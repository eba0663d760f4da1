"""How many tasks write at once, how often Spark tries each, and when none of them is left."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.core.spark.writing import Writers

if TYPE_CHECKING:
    from pyspark import SparkContext

A_CORE = 2
"""So many writers there are for each core, where they are counted."""
LONGEST_S = 10.0
LOOK_S = 0.05

_LOCAL = re.compile(r"local(?:\[[^,\]]*(?:, *(\d+))?\])?")


def writers(context: SparkContext) -> Writers:
    """Of a sink that has to know them."""
    failures = int(context.getConf().get("spark.task.maxFailures") or 4)
    return Writers(A_CORE * context.defaultParallelism, tries(str(context.master), failures))


def tries(master: str, failures: int) -> int:
    """How often a task may be begun: on a cluster, each of those that fail may have a double.

    >>> tries("local[2]", 4), tries("local[2,3]", 4), tries("spark://here:7077", 4)
    (1, 3, 8)
    """
    local = _LOCAL.fullmatch(master)
    return int(local[1] or 1) if local else 2 * failures


def quiet(context: SparkContext) -> None:
    """Wait until no task is left of jobs that have ended: one that was cancelled still writes."""
    until_s = time.monotonic() + LONGEST_S
    with suppress(Exception):  # Spark itself may have ended
        tracker = context._jsc.sc().statusTracker()
        while time.monotonic() < until_s:
            if not any(each.numRunningTasks() for each in tracker.getExecutorInfos()):
                return
            time.sleep(LOOK_S)
