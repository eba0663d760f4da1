"""Rounding of texts, which Spark reads as a decimal when digits are given."""

from __future__ import annotations

from decimal import Decimal as PythonDecimal

import polars as pl
import pytest

from headrace.core.expressions import to_expr, type_expression
from headrace.core.types.data_types import STRING, Decimal, Field, Schema, Type

SCHEMA = Schema((Field("s", STRING),))


@pytest.mark.parametrize(
    ("text", "type", "first"),
    [
        ("ceil(s, 1)", Decimal(22, 1), "12345678901234567.9"),
        ("floor(s, 1)", Decimal(22, 1), "12345678901234567.8"),
        ("floor(s, -1)", Decimal(21, 0), "12345678901234560"),
    ],
)
def test_a_text_is_rounded_as_a_decimal(text: str, type: Type, first: str) -> None:
    expression = type_expression(text, SCHEMA)
    assert expression.type == type
    frame = pl.DataFrame({"s": ["12345678901234567.89", "1e3", "x", None]})
    result = frame.select(to_expr(expression).alias("r"))["r"].to_list()
    assert result == [PythonDecimal(first), PythonDecimal(1000), None, None]
