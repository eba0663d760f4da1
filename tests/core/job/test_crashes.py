"""Random pipelines through crashes, failures and stops: the rows are those that their plans define.

Thousands more: `python -m tests.core.job.test_crashes 5000`; a seed that fails prints itself.
"""

from __future__ import annotations

import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.runtime import expected_rows


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_whatever_happens_a_pipeline_gives_the_rows_that_its_plan_means(
    data: st.DataObject,
) -> None:
    survive(data)


def survive(data: st.DataObject) -> None:
    """Draw a pipeline, rows, and faults."""
    text, splits = expected_rows.of_one_input(data)
    expected_rows.survive(data, text, {"rows": splits})


if __name__ == "__main__":
    expected_rows.more(survive, sys.argv[1:])
