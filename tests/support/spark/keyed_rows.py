"""Rows for random keyed steps: hard values, few keys, times that meet the bounds of windows."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import polars as pl

from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    Decimal,
    Type,
)
from tests.support.spark import random_rows as values

SHORT, LONG = Decimal(9, 3), Decimal(28, 4)

KEYS: dict[str, tuple[Type, list[Any]]] = {
    "ki": (INT, [None, 1, 2, -7]),
    "ks": (STRING, [None, "", "a", "größe"]),
    "kx": (DOUBLE, [None, 0.0, -0.0, 0.5, math.nan, math.inf]),
    "kf": (FLOAT, [None, 0.0, -0.0, math.nan]),
    "kp": (BOOLEAN, [None, True, False]),
    "kd": (DATE, [None, 0, -1, 19_782]),
    "kt": (TIMESTAMP, [None, 0, -1, 2**62]),
    "km": (Decimal(10, 2), [None, 0, 1, 99_999_999]),
}
"""Columns of few values, which make groups."""

EXACT: dict[str, Type] = {"n1": SHORT, "n2": LONG, "n3": DOUBLE, "n4": FLOAT}
"""Numbers whose sums do not depend on their order."""

COLUMNS: dict[str, Type] = {
    **values.COLUMNS,
    **{name: type for name, (type, _) in KEYS.items()},
    **EXACT,
    "at": TIMESTAMP,
    "nr": BIGINT,
}
_DECLARED = ", ".join(f'{name}: "{type}"' for name, type in COLUMNS.items())
SCHEMA = f"{{{_DECLARED}}}"
QUARTER = 250_000
YEAR_1, YEAR_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999


def frame(random: Random, cases: int, most: int) -> pl.DataFrame:
    """Draw the rows of this number of cases, each with rows at its own times."""
    sizes = [random.randint(0, most) for _ in range(cases)]
    count = sum(sizes)
    times = [at for size in sizes for at in _times(random, size)]
    numbers = [case for case, size in enumerate(sizes) for _ in range(size)]
    few = [
        values.series(name, [random.choice(found) for _ in range(count)], type)
        for name, (type, found) in KEYS.items()
    ]
    exact = [
        values.series(name, [_exact(type, random) for _ in range(count)], type)
        for name, type in EXACT.items()
    ]
    ends = values.series("at", times, TIMESTAMP), values.series("nr", numbers, BIGINT)
    hard = values.frame(random, count).get_columns()
    whole = pl.DataFrame([*hard, *few, *exact, *ends])
    return whole[random.sample(range(count), count)]


def _times(random: Random, count: int) -> list[int]:
    """Draw times near one; many are at or next to a window's bound, and some are equal."""
    about = random.choice([0, 0, 1_700_000_000_000_000, YEAR_1 + 10**12, YEAR_9999 - 10**12])
    spread = random.choice([1, 40, 40, 400])
    offsets = [0, 0, 0, 1, -1]
    return [
        about + random.randint(-spread, spread) * QUARTER + random.choice(offsets)
        for _ in range(count)
    ]


def _exact(type: Type, random: Random) -> Any:
    if random.random() < 1 / 8:
        return None
    if isinstance(type, Decimal):
        return values.value(type, random)
    if random.random() < 1 / 16:
        return random.choice([math.nan, math.inf, -math.inf, -0.0])
    return random.randint(-4000, 4000) / 4
