"""Random joins and broadcasts: the runtime, through whatever happens, against rows side by side.

Thousands more: `python -m tests.core.operators.joins.test_random_joins 5000`;
it prints the seed that fails.
"""

from __future__ import annotations

import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.reference import random_joins
from tests.support.runtime import expected_rows

LIVES = 6


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_a_join_gives_the_rows_that_its_plan_means(data: st.DataObject) -> None:
    text, sides = expected_rows.of_two_inputs(data, random_joins.pipelines())
    expected_rows.run(data, text, sides)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_whatever_happens_a_join_gives_the_rows_that_its_plan_means(data: st.DataObject) -> None:
    survive(data)


def survive(data: st.DataObject) -> None:
    """Draw a join, rows, and what happens to it; run to the end, and compare."""
    text, sides = expected_rows.of_two_inputs(data, random_joins.pipelines())
    expected_rows.survive(data, text, sides, LIVES)


if __name__ == "__main__":
    expected_rows.more(survive, sys.argv[1:])
