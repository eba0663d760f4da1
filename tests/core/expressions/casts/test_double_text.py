"""Floats and doubles as text: Java 19's digits and layout.

Over random bits the text is the shortest that Python reads back as the same number, in Java's
layout. Spark's own texts (of a Java 17) are in casts.json of tests/core/spark/cases.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from headrace.core.expressions import to_expr, type_expression
from headrace.core.expressions.casts.double_text import format_double
from headrace.core.types.data_types import Schema

# Values and texts of Java's own tests and documentation.
DOUBLES = [
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (1.0, "1.0"),
    (-123456.789, "-123456.789"),
    (0.001, "0.001"),
    (9.999999999999998e-4, "9.999999999999998E-4"),
    (9999999.999999998, "9999999.999999998"),
    (1e7, "1.0E7"),
    (12345678.9, "1.23456789E7"),
    (-1e-5, "-1.0E-5"),
    (2e23, "2.0E23"),
    (2.0**-44, "5.684341886080802E-14"),
    (1.0000000000000005e15, "1.0000000000000005E15"),
    (1e100, "1.0E100"),
    (5e-324, "4.9E-324"),
    (1e-323, "9.9E-324"),
    (2e-323, "2.0E-323"),
    (-1e-322, "-9.9E-323"),
    (2.2250738585072014e-308, "2.2250738585072014E-308"),
    (1.7976931348623157e308, "1.7976931348623157E308"),
    (float("nan"), "NaN"),
    (float("inf"), "Infinity"),
    (float("-inf"), "-Infinity"),
    (None, None),
]
FLOATS = [
    (0.1, "0.1"),
    (1.1754944e-38, "1.1754944E-38"),
    (1e-45, "1.4E-45"),
    (-3e-45, "-2.8E-45"),
    (3.4028235e38, "3.4028235E38"),
    (16777216.0, "1.6777216E7"),
    (3.3554432e7, "3.3554432E7"),
    (float("-inf"), "-Infinity"),
    (None, None),
]


@pytest.mark.parametrize(("cases", "dtype"), [(DOUBLES, pl.Float64), (FLOATS, pl.Float32)])
def test_a_number_is_written_as_java_19_writes_it(
    cases: list[tuple[float | None, str | None]], dtype: type[pl.DataType]
) -> None:
    column = pl.Series([value for value, _ in cases], dtype=dtype)
    assert format_double(column).to_list() == [text for _, text in cases]
    for value, text in cases:
        assert format_double(pl.Series([value], dtype=dtype)).to_list() == [text]


def test_random_doubles_have_the_shortest_digits_in_javas_layout() -> None:
    random = np.random.default_rng(19)
    bits = random.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    numbers = [*bits, *10.0 ** random.uniform(-8, 20, 20_000), *2.0 ** np.arange(-1022, 1024)]
    finite = [float(number) for number in numbers if np.isfinite(number)]
    for number, text in zip(finite, format_double(pl.Series(finite)), strict=True):
        assert float(text) == number
        mantissa, _, exponent = text.lstrip("-").partition("E")
        whole, _, fraction = mantissa.partition(".")
        assert whole
        assert fraction == (fraction.rstrip("0") or "0")
        digits, shortest = (whole + fraction).strip("0"), repr(abs(number)).partition("e")[0]
        assert digits == shortest.replace(".", "").strip("0")
        assert bool(exponent) == (not 1e-3 <= abs(number) < 1e7)
        assert not exponent or (len(whole) == 1 and whole != "0")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("concat('x', 1e-5D, 2.5F)", "x1.0E-52.5"),
        ("1e7D || ''", "1.0E7"),
        ("concat_ws('/', 1.0D, 'a')", "1.0/a"),
        ("cast(array(1.0D, null, 1e10D) as string)", "[1.0, null, 1.0E10]"),
        ("cast(named_struct('a', 1.5D, 'b', array(1F)) as string)", "{1.5, [1.0]}"),
        ("cast('4.9E-324' as double)::string", "4.9E-324"),
    ],
)
def test_every_text_of_a_double_is_that_of_the_cast(text: str, value: str) -> None:
    assert pl.select(to_expr(type_expression(text, Schema(())))).item() == value
