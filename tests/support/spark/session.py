"""The session of Spark that tests share, with a Java that starts fast.

There is no archive of classes: it saved later sessions 3 of 10 seconds, and took 45 to make.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from headrace.core.spark.session import open_session
from tests.support.java import FAST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.driver.extraJavaOptions": " ".join(FAST),
    "spark.driver.memory": "1g",
}


def started() -> AbstractContextManager[SparkSession]:
    """Spark, as `--batch` has it."""
    return open_session("tests", "local[2]", SETTINGS)
