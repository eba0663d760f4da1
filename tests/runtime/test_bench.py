"""Which calls are done in a thread: many rows, and few rows that have been seen to take long."""

from __future__ import annotations

import pytest

from headrace.core.bench import LARGE_ROWS, Pace


@pytest.mark.parametrize(
    ("calls", "long_from"),
    [
        ((), LARGE_ROWS),
        (((1, 0.0009),), LARGE_ROWS),
        (((100_000, 0.001),), LARGE_ROWS),
        (((10, 0.101),), 1),
        (((100, 0.011),), 10),
        (((10, 0.101), (1, 0.0001)), 10),
        (((10, 0.101), (1000, 0.0001)), LARGE_ROWS),
        (((0, 5.0),), LARGE_ROWS),
    ],
)
def test_a_call_is_long_by_its_rows_or_by_what_others_took(
    calls: tuple[tuple[int, float], ...], long_from: int
) -> None:
    pace = Pace()
    for rows, seconds in calls:
        pace.learn(rows, seconds)
    assert pace.is_long(long_from)
    assert not pace.is_long(long_from - 1)
