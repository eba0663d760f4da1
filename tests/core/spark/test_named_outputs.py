"""Steps give the same rows on Spark as in a stream, at each of their named outputs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.support.spark.random_named_outputs import (
    find_differences,
    write_known_steps,
    write_steps,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_named_outputs_have_the_rows_that_they_mean(quick: SparkSession) -> None:
    luck = random.Random(20)
    known = write_known_steps()
    assert not [*find_differences(quick, known | write_steps(luck, 3, len(known)), luck)]
