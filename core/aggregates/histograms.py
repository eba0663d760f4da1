"""Histograms of numbers, with bins of any width: histogram_numeric.

The counts of all values are stored, and the two nearest bins are joined until few enough are left.
Spark joins bins while it reads, so that its bins depend on the order of rows.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP
from decimal import Decimal as PythonDecimal
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.aggregates.accumulator import Accumulator
from headrace.core.aggregates.value_counts import build_value_counts
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import ExpressionError
from headrace.core.types.data_types import (
    DOUBLE,
    Array,
    Decimal,
    Field,
    Struct,
    Type,
    is_integer,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl

Number: TypeAlias = int | float | PythonDecimal
Bin: TypeAlias = tuple[Number, float]
"""The mean of the values of a bin, and their count."""


def histogram_type(bound: BoundArguments) -> Type:
    """Return the type of a histogram: bins of a value and a count."""
    return Array(Struct((Field("x", bound.types[0]), Field("y", DOUBLE))))


def check_bins(bound: BoundArguments) -> None:
    """Check the number of bins."""
    bins = bound.constants[1]
    if not isinstance(bins, int) or bins < 2:
        actual = "NULL" if bins is None else str(bins)
        raise ExpressionError(f"wanted at least 2 bins, got {actual}", bound.arguments[1].span)


def build_histogram(bound: BoundArguments) -> Accumulator:
    """Build histogram_numeric(x, bins): NULL if there are no values."""
    most, type = bound.constants[1], bound.types[0]
    assert isinstance(most, int)
    result = to_polars(histogram_type(bound))

    def finish(items: pl.Expr) -> pl.Expr:
        import polars as pl

        def reduce_bins(lists: pl.Series) -> pl.Series:
            """Join bins in Python: only groups with more values than bins have work to do."""
            made = [_build_bins(items, most, type) for items in lists.to_list()]
            return pl.Series(lists.name, made, dtype=result)

        return items.map_batches(reduce_bins, return_dtype=result, is_elementwise=True)

    return build_value_counts(type, finish)


def _build_bins(
    items: Sequence[Mapping[str, Number]] | None, most: int, type: Type
) -> list[dict[str, Number]] | None:
    if not items:
        return None
    bins: list[Bin] = [(item["value"], float(item["count"])) for item in items]
    if len(bins) > most:
        joined = join_nearest([(float(x), y) for x, y in bins], most)
        bins = [(_convert(x, type), y) for x, y in joined]
    return [{"x": x, "y": y} for x, y in bins]


def join_nearest(bins: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """Join the two nearest of sorted bins, of equally near ones the first, until few are left.

    >>> join_nearest([(1, 1), (2, 1), (4, 1), (10, 1), (11, 1)], 3)
    [(1.5, 2), (4, 1), (10.5, 2)]
    """
    x, y = [each[0] for each in bins], [each[1] for each in bins]
    before, after = list(range(-1, len(x) - 1)), list(range(1, len(x) + 1))
    gaps = [(_distance(x[at], x[at + 1]), at, at + 1) for at in range(len(x) - 1)]
    heapq.heapify(gaps)
    left, is_gone = len(x), [False] * len(x)
    while left > most:
        distance, at, right = heapq.heappop(gaps)
        if is_gone[at] or is_gone[right] or after[at] != right:
            continue
        if distance != _distance(x[at], x[right]):  # one of both was joined since
            continue
        total = y[at] + y[right]
        x[at], y[at] = (x[at] * y[at] + x[right] * y[right]) / total, total
        is_gone[right], after[at] = True, after[right]
        left -= 1
        if after[at] < len(x):
            before[after[at]] = at
            heapq.heappush(gaps, (_distance(x[at], x[after[at]]), at, after[at]))
        if before[at] >= 0:
            heapq.heappush(gaps, (_distance(x[before[at]], x[at]), before[at], at))
    return [(x[at], y[at]) for at in range(len(x)) if not is_gone[at]]


def _distance(low: float, high: float) -> float:
    distance = high - low
    return math.inf if math.isnan(distance) else distance


def _convert(value: float, type: Type) -> Number:
    if is_integer(type):
        return int(value)
    if isinstance(type, Decimal):
        unit = PythonDecimal(1).scaleb(-type.scale)
        return PythonDecimal(repr(value)).quantize(unit, ROUND_HALF_UP)
    return value
