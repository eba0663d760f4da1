"""`headrace run --batch` on two cores, and the time that it spends in Spark.

`python -m benchmarks.batch_inside PIPELINE` prints the seconds between the start and the end of the
session.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack

from headrace.cli.batch import batch_run
from headrace.cli.main import run_command_line
from headrace.core.spark.batch_job import BatchOutcome, run_batch


def inside(pipeline: str) -> int:
    """Run the pipeline as users do, and return the exit status."""
    took = []

    def timed(*arguments: object) -> BatchOutcome:
        start = time.perf_counter()
        done = run_batch(*arguments)  # type: ignore[arg-type]
        took.append(time.perf_counter() - start)
        return done

    vars(batch_run)["run_batch"] = timed
    memory = ("--conf", "spark.driver.memory=4g")
    with ExitStack() as lasting:
        home = f"{pipeline}.home"
        words = ["run", pipeline, "--batch", "--master", "local[2]", "--quiet", "--home", home]
        status = run_command_line([*words, *memory], lasting)
    print(*took)
    return status


if __name__ == "__main__":
    sys.exit(inside(sys.argv[1]))
