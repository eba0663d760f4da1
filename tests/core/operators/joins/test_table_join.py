"""Random joins, aggregates and tops of rows that change, compared with the meaning of their plans.

`changelog/test_random_tables` compares them at each checkpoint, through crashes and rescales.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.reference import random_tables
from tests.support.runtime import expected_rows


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_query_over_tables_gives_the_rows_that_its_plan_means(data: st.DataObject) -> None:
    text, sides = expected_rows.of_two_inputs(data, random_tables.pipelines())
    expected_rows.run(data, text, sides)
