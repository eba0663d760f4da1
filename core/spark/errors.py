"""Conversion of exceptions of a batch run into failures for the user."""

from __future__ import annotations

import re
from urllib.parse import unquote

from headrace.core.api.failures import build_failure
from headrace.core.api.splits import Failure
from headrace.core.spark.arrow_functions import decode_failure
from headrace.core.spark.installation import INSTALL_HINT
from headrace.core.spark.session import SHOW_LOG_HINT

SPARK_PART = "Spark"
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_OTHER_PYTHON = re.compile(
    r"Python in worker has different version: (?P<there>[\d.]+)"
    r" than that in driver: (?P<here>[\d.]+)"
)
_NO_PYTHON = re.compile(r'Cannot run program "([^"]+)"')
_WORKER_PYTHON_HINT = "or name another Python there with --conf spark.pyspark.python=PATH"
_HINTS = {
    "OutOfMemoryError": "--conf spark.driver.memory=8g gives more to Spark here, "
    "spark.executor.memory on a cluster",
    "No space left on device": "--conf spark.local.dir=DIR names another place for Spark's "
    "temporary files",
}
_UNREADABLE_FILE = re.compile(r"\[FAILED_READ_FILE\S*\] .*?reading file (?:file:/*(?=/))?(\S+)\.\s")
DAMAGED_HINT = "it may be damaged, still being written, or removed since"
_ROOT_CAUSE = re.compile(r"^Caused by: [\w.$]+: (?!Traceback)(.+)", re.MULTILINE)
"""Java's lines for nested exceptions; the last one is the root cause."""
_TASK_FAILURE = re.compile(
    r"most recent failure: (?:Lost task \S+ in stage \S+ \([^)]*\)[^:]*: )?(.+)"
)


def to_failure(error: BaseException) -> Failure:
    """Convert an exception of a batch run into a failure."""
    if (failed := decode_failure(error)) is not None:
        # headrace's code is complete here: a missing module is missing on the worker.
        return (_describe_worker_error(failed.message) if failed.traceback else None) or failed
    if not _is_spark_error(error):
        return build_failure(error, SPARK_PART)
    return _describe_worker_error(str(error)) or _describe_spark_error(error)


def _is_spark_error(error: BaseException) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    # Spark's SQL comes from headrace: an analysis error is a bug in headrace.
    ours = isinstance(error, AnalysisException | ParseException)
    return isinstance(error, PySparkException | Py4JError | OSError) and not ours


def _describe_worker_error(text: str) -> Failure | None:
    """Return the failure for missing software on a worker's machine, if that is the cause."""
    if match := _MISSING_MODULE.search(text):
        name = match[1].partition(".")[0]
        hint = f"{INSTALL_HINT}, on each machine of the cluster; {_WORKER_PYTHON_HINT}"
        return Failure(f"a worker's Python has no package {name}", SPARK_PART, hint=hint)
    if match := _OTHER_PYTHON.search(text):
        message = f"wanted Python {match['here']} on all workers, as here, got {match['there']}"
        return Failure(message, SPARK_PART, hint=f"install it there, {_WORKER_PYTHON_HINT}")
    if match := _NO_PYTHON.search(text):
        hint = f"install Python there, {_WORKER_PYTHON_HINT}"
        return Failure(f"a worker has no program {match[1]}", SPARK_PART, hint=hint)
    return None


def _describe_spark_error(error: BaseException) -> Failure:
    """Return the failure for any other error of Spark, in one line."""
    message = str(error)
    causes = _ROOT_CAUSE.findall(message)
    if file := _UNREADABLE_FILE.search(message):
        path, why = unquote(file[1]), causes[-1].strip() if causes else "Spark gives no reason"
        return Failure(f"the file cannot be read: {why}", SPARK_PART, path, hint=DAMAGED_HINT)
    hint = next((hint for sign, hint in _HINTS.items() if sign in message), SHOW_LOG_HINT)
    tail = _TASK_FAILURE.search(message)
    first = next((line for line in message.splitlines() if line.strip()), type(error).__name__)
    why = tail[1] if tail else causes[-1] if causes else first
    return Failure(why.strip(), SPARK_PART, hint=hint)
