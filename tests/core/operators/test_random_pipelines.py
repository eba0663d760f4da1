"""Random pipelines over rows out of order: the runtime against the interpreter of rows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.runtime import expected_rows


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_a_pipeline_gives_the_rows_that_its_plan_means(data: st.DataObject) -> None:
    text, splits = expected_rows.of_one_input(data)
    expected_rows.run(data, text, {"rows": splits})
