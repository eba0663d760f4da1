"""Conversion of exceptions of a running batch into failures for the user."""

from __future__ import annotations

import re
from urllib.parse import unquote

from headrace.core.messages import Failure
from headrace.core.spark.absent import INSTALL
from headrace.core.spark.failing import failure_in
from headrace.core.spark.session import SHOW_LOG
from headrace.core.telling import failure

SPARK = "Spark"
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_OTHER_PYTHON = re.compile(
    r"Python in worker has different version: (?P<there>[\d.]+)"
    r" than that in driver: (?P<here>[\d.]+)"
)
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')
_ON_WORKERS = "or name another Python there with --conf spark.pyspark.python=PATH"
_HINTS = {
    "OutOfMemoryError": "--conf spark.driver.memory=8g gives more to Spark here, "
    "spark.executor.memory on a cluster",
    "No space left on device": "--conf spark.local.dir=DIR names another place for Spark's "
    "temporary files",
}
_UNREAD = re.compile(r"\[FAILED_READ_FILE\S*\] .*?reading file (?:file:/*(?=/))?(\S+)\.\s")
DAMAGED = "it may be damaged, still being written, or removed since"
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (?!Traceback)(.+)", re.MULTILINE)
"""Java's lines for nested exceptions; the last one is the root cause."""
_TAIL = re.compile(r"most recent failure: (?:Lost task \S+ in stage \S+ \([^)]*\)[^:]*: )?(.+)")


def trouble(error: BaseException) -> Failure:
    """Convert an exception of a running batch into a failure."""
    if (failed := failure_in(error)) is not None:
        # headrace's code is complete here: a missing module is missing on the worker.
        return (_of_worker(failed.message) if failed.defect else None) or failed
    if not _is_of_spark(error):
        return failure(error, SPARK)
    return _of_worker(str(error)) or _of_spark(error)


def _is_of_spark(error: BaseException) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    # Spark's SQL comes from headrace: an analysis error is a bug in headrace.
    ours = isinstance(error, AnalysisException | ParseException)
    return isinstance(error, PySparkException | Py4JError | OSError) and not ours


def _of_worker(said: str) -> Failure | None:
    """Return the failure for missing software on a worker's machine, if that is the cause."""
    if found := _MISSING.search(said):
        name = found[1].partition(".")[0]
        hint = f"{INSTALL}, on each machine of the cluster; {_ON_WORKERS}"
        return Failure(f"a worker's Python has no package {name}", SPARK, hint=hint)
    if found := _OTHER_PYTHON.search(said):
        message = f"wanted Python {found['here']} on all workers, as here, got {found['there']}"
        return Failure(message, SPARK, hint=f"install it there, {_ON_WORKERS}")
    if found := _NO_PYTHON.search(said):
        hint = f"install Python there, {_ON_WORKERS}"
        return Failure(f"a worker has no program {found[1]}", SPARK, hint=hint)
    return None


def _of_spark(error: BaseException) -> Failure:
    """Return the failure for any other error of Spark, in one line."""
    said = str(error)
    causes = _CAUSE.findall(said)
    if file := _UNREAD.search(said):
        path, why = unquote(file[1]), causes[-1].strip() if causes else "Spark gives no reason"
        return Failure(f"the file cannot be read: {why}", SPARK, path, hint=DAMAGED)
    hint = next((hint for sign, hint in _HINTS.items() if sign in said), SHOW_LOG)
    tail = _TAIL.search(said)
    first = next((line for line in said.splitlines() if line.strip()), type(error).__name__)
    why = tail[1] if tail else causes[-1] if causes else first
    return Failure(why.strip(), SPARK, hint=hint)
