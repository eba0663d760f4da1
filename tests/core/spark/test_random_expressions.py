"""Expressions drawn from the function table give in a batch what they give in a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.spark.expression_generator import ROWS
from tests.support.spark.random_expressions import AT_ONCE, hold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# An example is a whole job, of hundreds of expressions over as many rows as they are hard: what is
# wrong names its expression, so that there is nothing to shrink.
@settings(max_examples=1, derandomize=True, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_random_expressions_give_the_same_in_batch_and_stream(
    spark: SparkSession, seed: int
) -> None:
    found = hold(spark, seed, 3 * AT_ONCE)
    assert not found.wrong, "\n".join(found.wrong)
    assert found.native > found.ours > 0
    assert len(found.untaken) < found.native / 100, "\n".join(found.untaken)


def test_every_function_can_be_drawn() -> None:
    assert len(ROWS) <= 3 * AT_ONCE
