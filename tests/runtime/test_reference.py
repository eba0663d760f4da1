"""Random pipelines over rows out of order: the runtime against the interpreter of rows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime import meant


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_pipeline_gives_the_rows_that_its_plan_means(data: st.DataObject) -> None:
    text, splits = meant.of_one_input(data)
    meant.run(data, text, {"rows": splits})
