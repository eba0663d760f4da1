"""Messages for exceptions of Spark."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pyspark.errors import AnalysisException, PySparkRuntimeError
from pyspark.sql import SparkSession, functions

from headrace.core.api.splits import Failure
from headrace.core.spark.arrow_functions import ExecutorFailure
from headrace.core.spark.errors import to_failure

JOB = "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, "
LAST = "most recent failure: Lost task 0.3 in stage 1.0 (TID 7) (10.0.0.2 executor 1): "


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        (
            "Traceback (most recent call last):\nModuleNotFoundError: No module named 'polars.x'",
            "a worker's Python has no package polars",
            "pip install 'headrace[batch]'",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in "
            "driver: 3.11, PySpark cannot run with different minor versions.",
            "wanted Python 3.11 on all workers, as here, got 3.9",
            "spark.pyspark.python",
        ),
        (
            f'{JOB}{LAST}java.io.IOException: Cannot run program "python3": error=2, No such file',
            "a worker has no program python3",
            "spark.pyspark.python",
        ),
        (
            f"{JOB}{LAST}java.lang.OutOfMemoryError: Java heap space\n\tat x.y.z",
            "java.lang.OutOfMemoryError: Java heap space",
            "spark.driver.memory",
        ),
        (
            "An error occurred while calling o9.save.\n: x.SparkException: Exception thrown in "
            "awaitResult: \n\tat x.y.z\nCaused by: x.Y: Job aborted\n\tat x.y.z\n\t... 9 more\n"
            "Caused by: java.io.IOException: it is full\n\tat x.y.z\n",
            "it is full",
            "spark.log.level=INFO",
        ),
        ("\nAll is lost\n\tat x.y.z", "All is lost", "spark.log.level=INFO"),
    ],
)
def test_a_line_says_what_is_wrong_and_a_hint_what_to_do(
    said: str, message: str, hint: str
) -> None:
    told = to_failure(PySparkRuntimeError(said))
    assert told.message == message
    assert hint in told.hint and not told.traceback


def test_a_file_that_spark_cannot_read_is_named_with_the_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "é 1.parquet"
    pl.DataFrame({"x": range(1000)}).write_parquet(file)
    data = file.read_bytes()
    rows = spark.read.schema("x bigint").parquet(f"file://{file}")
    for damaged in (data[:4] + b"\xff" * 60 + data[64:], data[:-9], None):
        file.unlink() if damaged is None else file.write_bytes(damaged)
        for act in (rows.collect, rows.toArrow):
            with pytest.raises(Exception, match="FAILED_READ_FILE") as failed:
                act()
            told = to_failure(failed.value)
            assert told.message.startswith("the file cannot be read: ")
            assert (told.split, told.traceback) == (str(file), "")
            assert "Exception" not in told.message and "\n" not in told.message


def test_a_failure_in_an_executor_is_reported_as_in_a_stream() -> None:
    failed = Failure('wanted bigint, got "x"', "ids", "in/a.jsonl", 120, "see the file")
    said = f"{JOB}{LAST}PythonException: FailedInside: {ExecutorFailure(failed)}\n\tat x.y.z"
    assert to_failure(PySparkRuntimeError(said)) == failed


@pytest.mark.parametrize("error", [AnalysisException("no such column"), KeyError("x")])
def test_what_cannot_be_analysed_is_a_defect_of_ours(error: Exception) -> None:
    assert (
        "Traceback" in to_failure(error).traceback
        or type(error).__name__ in to_failure(error).traceback
    )


def test_what_is_raised_is_not_written_as_well(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AnalysisException):
        spark.range(1).selectExpr("nothing + 1")
    with pytest.raises(AnalysisException):
        spark.range(1).select(functions.col("nothing") + 1)
    assert not capfd.readouterr().err


def test_a_package_that_our_own_code_lacks_is_missing_on_the_worker() -> None:
    lacking = Failure(
        "ModuleNotFoundError: No module named 'polars'", "bids", traceback="Traceback"
    )
    told = to_failure(PySparkRuntimeError(f"Python says: {ExecutorFailure(lacking)}"))
    assert told.message == "a worker's Python has no package polars"
    assert "on each machine of the cluster" in told.hint and not told.traceback
