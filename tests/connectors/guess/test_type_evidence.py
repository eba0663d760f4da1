"""Evidence of many values at once is that of the values one by one."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from headrace.connectors.guess.type_evidence import TypeEvidence

PLAIN: list[Callable[[], object]] = [
    lambda: None,
    lambda: True,
    lambda: random.randint(-5, 10 ** random.randint(1, 25)),
    lambda: 1.5,
    lambda: random.choice(["x", "NaN", "2024-01-01", "2024-02-30", "2024-01-01T08:00:00Z"]),
    lambda: [random.choice(PLAIN)() for _ in range(2)],
    lambda: {"a": random.choice(PLAIN)(), "b": 1},
]
FIELDS: list[Callable[[], object]] = [
    *PLAIN,
    lambda: random.choice([1, None]),
    lambda: random.choice(PLAIN)(),
    lambda: "text",
]


@pytest.mark.parametrize("seed", range(300))
def test_rows_at_once_are_as_rows_one_by_one(seed: int) -> None:
    random.seed(seed)
    values = dict(zip("xyz", random.choices(FIELDS, k=3), strict=True))
    share = random.choice([1, 0.8])
    one, all = TypeEvidence(), TypeEvidence()
    for _ in range(2):
        rows = [
            {name: value() for name, value in values.items() if random.random() <= share}
            for _ in range(random.randint(0, 9))
        ]
        lines = random.sample(range(1, 20), len(rows))
        for row, line in zip(rows, lines, strict=True):
            one.add(row, line)
        all.add_all(rows, lines)
    assert all == one
    assert list(all.fields) == list(one.fields)
    assert (all.type, all.doubt) == (one.type, one.doubt)
