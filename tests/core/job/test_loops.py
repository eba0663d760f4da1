"""Random loops, as they are and through crashes, rescales, drains and savepoints.

The rows are those that the reference interpreter gives. The tasks are slow, so that checkpoints are
taken while rows go round. Thousands more: `python -m tests.core.job.test_loops 5000`; a seed that
fails prints itself.
"""

from __future__ import annotations

import random
import sys
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.reference import random_loops
from tests.support.reference.random_pipelines import BEGIN, SPREAD_S
from tests.support.runtime import expected_rows

EVERY_S = (0.1, 0.3, 1.0)
"""The intervals of checkpoints."""


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_a_loop_gives_the_rows_that_its_plan_means(data: st.DataObject) -> None:
    text, rows = draw_loop(data)
    expected_rows.run(data, text, rows)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_whatever_happens_a_loop_gives_each_row_once(data: st.DataObject) -> None:
    survive(data)


def survive(data: st.DataObject) -> None:
    """Draw a loop, rows, and faults, and compare."""
    text, rows = draw_loop(data)
    expected_rows.survive(data, text, rows, every_s=EVERY_S, slow_share=0.7)


def draw_loop(data: st.DataObject) -> tuple[str, dict[str, expected_rows.Splits]]:
    """Draw a loop, and the rows of its sources."""
    chance = random.Random(data.draw(st.integers(0, 9999)))
    if data.draw(st.booleans()):
        text = data.draw(random_loops.loops(joins=True))
        rows = {"a": draw_rows(chance, 10), "b": draw_rows(chance, 5)}
    else:
        text = data.draw(random_loops.loops())
        rows = {"rows": draw_rows(chance, 25)}
    text, in_order = expected_rows.perhaps_in_order(data, text, *rows.values())
    return text, dict(zip(rows, in_order, strict=True))


def draw_rows(chance: random.Random, most: int) -> expected_rows.Splits:
    """Draw the rows of up to three splits."""
    return [
        [
            {
                "k": chance.choice([None, 1, 2, -7]),
                "s": chance.choice([None, "", "a", "größe"]),
                "v": chance.choice([None, *range(-5, 5)]),
                "x": 0.5,
                "at": BEGIN + timedelta(seconds=chance.randrange(SPREAD_S * 4) / 4),
            }
            for _ in range(chance.randrange(most))
        ]
        for _ in range(chance.randint(1, 3))
    ]


if __name__ == "__main__":
    expected_rows.more(survive, sys.argv[1:])
