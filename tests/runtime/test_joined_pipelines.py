"""Random joins and broadcasts: the runtime, through whatever happens, against rows side by side.

Thousands more: `python -m tests.runtime.test_joined_pipelines 5000`; a seed that fails is shown.
"""

from __future__ import annotations

import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import joined, pipelines
from tests.runtime import meant

LIVES = 6


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_join_gives_the_rows_that_its_plan_means(data: st.DataObject) -> None:
    text, sides = drawn(data)
    meant.run(data, text, sides)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_whatever_happens_a_join_gives_the_rows_that_its_plan_means(data: st.DataObject) -> None:
    survive(data)


def drawn(data: st.DataObject) -> tuple[str, dict[str, meant.Splits]]:
    """A pipeline, and the rows of its two inputs, split by split."""
    text = data.draw(joined.pipelines())
    sides = [data.draw(pipelines.SPLITS) for _ in range(2)]
    text, in_order = meant.perhaps_in_order(data, text, *sides)
    return text, dict(zip("ab", in_order, strict=True))


def survive(data: st.DataObject) -> None:
    """Draw a join, rows, and what happens to it; run to the end, and compare."""
    text, sides = drawn(data)
    meant.survive(data, text, sides, LIVES)


if __name__ == "__main__":
    meant.more(survive, sys.argv[1:])
