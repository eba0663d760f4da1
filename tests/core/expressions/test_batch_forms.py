"""Constants with columns: Polars computes constants early, and must not change their meaning.

All cases were found by random expressions (tests/support/spark/random_expressions.py).
"""

from __future__ import annotations

import polars as pl
import pytest

from headrace.core.expressions import to_expr, type_expression
from headrace.core.types.data_types import DOUBLE, FLOAT, INT, Field, Schema

SCHEMA = Schema((Field("i", INT), Field("x", DOUBLE), Field("f", FLOAT)))
FRAME = pl.DataFrame(
    {"i": [1, 0, None], "x": [3.0, 0.0, None], "f": [1.0, 0.0, None]},
    schema={"i": pl.Int32, "x": pl.Float64, "f": pl.Float32},
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # A float has the digits of a float, also as a divisor.
        ("x / 0.1F", [29.999999552965171, 0.0, None]),
        # The sign of a computed zero counts like that of a literal one.
        ("bigint(double('NaN')) - f", [-1.0, 0.0, None]),
        ("try_subtract(bigint(double('NaN')), x)", [-3.0, 0.0, None]),
        ("try_add(x, 0.0D) / 1", [3.0, 0.0, None]),
        # Arguments after a constant only determine the number of rows.
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


def test_a_null_text_contains_nothing_also_in_an_empty_batch() -> None:
    # Polars computes a text that is NULL, and no row of it, as one row.
    typed = type_expression("contains(cast(timestamp('1') as string), string(i))", SCHEMA)
    for batch in (FRAME, FRAME[:1], FRAME[:0]):
        result = batch.with_columns(to_expr(typed).alias("r"))["r"]
        assert result.to_list() == [None] * batch.height


@pytest.mark.parametrize(
    "text",
    [
        "1 < 2",
        "null <=> null",
        "2 in (1, null)",
        "2 in (2)",
        "2 in (1, 2, 3)",
        "if(true, 1, 2)",
        "case when 1 > 2 then 'a' else 'b' end",
        "coalesce(null, 1)",
        "greatest(1.5D, 2)",
        "nullif(1, 1)",
        "null is null",
        "2 between 1 and 3",
        "1 + 1 between 1 and 3",
        "1 + 1 between 1 and 2.5",
        "case 1 + 1 when 1 then 'a' when 2.0 then 'b' end",
        "make_date(2024, 5, 6)",
        "make_timestamp(2024, 5, 6, 7, 8, 9.5)",
        "to_timestamp('6.5.2024', 'd.M.yyyy')",
        "to_timestamp('2024-05-06', 'yyyy-MM-dd')",
        "date_format(timestamp '2024-05-06 07:08:09', 'yyyy')",
        "date_format(timestamp '2024-05-06 07:08:09', \"'text'\")",
        "months_between(date '2024-05-06', date '2024-02-29')",
        "timestampdiff(MONTH, date '2024-05-06', date '2024-02-29')",
        "add_months(date '2024-05-06', 1)",
        "from_unixtime(0)",
        "extract(second from timestamp '2024-05-06 07:08:09')",
    ],
)
def test_an_expression_of_literals_has_one_value_for_each_row(text: str) -> None:
    expr = to_expr(type_expression(text, SCHEMA)).alias("r")
    assert FRAME.with_columns(expr)["r"].n_unique() == 1
    assert FRAME.with_columns(expr).height == 3
    assert FRAME.clear().with_columns(expr).height == 0
