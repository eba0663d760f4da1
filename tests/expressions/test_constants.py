"""Constants beside columns: Polars computes them early, and must not take them for something else.

All of these were found by random expressions (tests/spark/random_expressions.py).
"""

from __future__ import annotations

import polars as pl
import pytest

from headrace.core.expressions import to_expr, type_expression
from headrace.core.types import DOUBLE, FLOAT, INT, Field, Schema

SCHEMA = Schema((Field("i", INT), Field("x", DOUBLE), Field("f", FLOAT)))
FRAME = pl.DataFrame(
    {"i": [1, 0, None], "x": [3.0, 0.0, None], "f": [1.0, 0.0, None]},
    schema={"i": pl.Int32, "x": pl.Float64, "f": pl.Float32},
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # A float has the digits of a float, whatever divides by it.
        ("x / 0.1F", [29.999999552965171, 0.0, None]),
        # The sign of a zero that is computed counts like that of one that is written.
        ("bigint(double('NaN')) - f", [-1.0, 0.0, None]),
        ("try_subtract(bigint(double('NaN')), x)", [-3.0, 0.0, None]),
        ("try_add(x, 0.0D) / 1", [3.0, 0.0, None]),
        # Nothing behind a constant counts, but for the number of rows.
        ("1 >= nvl(2, i)", [False, False, False]),
        ("length(coalesce('ab', string(i))) + 1", [3, 3, 3]),
        ("get(cast(null as array<int>), i) is null", [True, True, True]),
        ("typeof(array(named_struct('a b', i)))", ["array<struct<a b:int>>"] * 3),
    ],
)
def test_a_constant_is_what_it_says_for_every_row(text: str, wanted: list[object]) -> None:
    typed = type_expression(text, SCHEMA)
    result = FRAME.with_columns(to_expr(typed).alias("r"))["r"].to_list()
    assert list(map(repr, result)) == list(map(repr, wanted))
