"""A sum of intervals that is no interval is NULL, and so is an average of that sum."""

from __future__ import annotations

import random
from datetime import timedelta

import polars as pl
import pytest

from headrace.core.types.data_types import Field, Schema
from headrace.core.types.elements import ORDER
from headrace.core.types.type_parser import parse_type
from tests.support.aggregation import in_pieces, typed

LONGEST = timedelta(microseconds=2**63 - 1)
CASES = [
    ("interval month", [2**31 - 1, 1], None, None),
    ("interval year to month", [2**31 - 1, 1, -1], 2**31 - 1, 715827882),
    ("interval year to month", [-(2**31), -1], None, None),
    ("interval day", [LONGEST, timedelta(microseconds=1)], None, None),
    ("interval day to second", [LONGEST, LONGEST, -LONGEST], LONGEST, LONGEST // 3),
    ("interval second", [timedelta(microseconds=-3), timedelta()], -3, timedelta(microseconds=-2)),
    ("interval second", [timedelta(microseconds=3), timedelta()], 3, timedelta(microseconds=2)),
    ("interval month", [None, None], None, None),
]


@pytest.mark.parametrize("prefix", ["", "try_"])
@pytest.mark.parametrize(("type", "values", "sum", "mean"), CASES)
def test_the_sum_of_all_rows_decides(
    prefix: str, type: str, values: list[object], sum: object, mean: object
) -> None:
    schema = Schema((Field("v", *parse_type(type)),))
    column = pl.Series("v", values, dtype=pl.Int32 if "month" in type else pl.Duration("us"))
    rows = pl.DataFrame([column]).with_columns(pl.int_range(pl.len()).alias(ORDER))
    texts = (f"{prefix}sum(v)", f"{prefix}avg(v)")
    expressions = {text: typed(text, schema) for text in texts}
    wanted = timedelta(microseconds=sum) if "second" in type and isinstance(sum, int) else sum
    for seed in range(3):
        result = in_pieces(rows, expressions, random.Random(seed))
        assert result.row(0) == (wanted, mean)
