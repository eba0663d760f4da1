"""Arguments of functions that Spark would fail on, or that have no meaning, are refused."""

from __future__ import annotations

import pytest

from headrace.core.expressions import ExpressionErrors, type_expression
from headrace.core.types.data_types import BIGINT, INT, STRING, Array, Field, Schema

SCHEMA = Schema((Field("i", INT), Field("l", BIGINT), Field("s", STRING), Field("a", Array(INT))))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("getbit(i, 32)", "the bits of int are numbered 0 to 31, got 32"),
        ("getbit(l, -1)", "the bits of bigint are numbered 0 to 63, got -1"),
        ("getbit(i, i)", "getbit wants a constant int, got int"),
        ("slice(a, 0, 1)", "slice counts from 1, or with -1 from the end, got 0"),
        ("slice(a, 1, -1)", "slice wants a length that is not negative, got -1"),
        ("elt(1)", "elt takes at least 2 arguments, got 1"),
        ("elt(s, s)", "elt wants an int as number, got string"),
        ("mask(s, 'ab')", "mask wants one character in quotes, or null"),
        ("mask(s, s)", "mask wants one character in quotes, or null"),
        ("mask(i)", "mask wants string, got int"),
        ("encode(s, 'utf-7')", 'unknown character set "utf-7"'),
        ("decode(i, 'utf-8')", "decode wants binary, got int"),
        ("decode(i, s, 1)", "decode cannot compare int with string"),
        ("nullifzero(s)", "nullifzero wants a number, got string"),
        ("zeroifnull()", "zeroifnull takes 1 argument, got 0"),
        ("equal_null(1)", "equal_null takes 2 arguments, got 1"),
        ("overlay(s placing 'x')", 'wanted "from", got ")"'),
        ("sort_array(array(a))", "sort_array wants a type with an order, got array<array<int>>"),
    ],
)
def test_an_argument_is_refused_with_what_is_wanted(text: str, message: str) -> None:
    with pytest.raises(ExpressionErrors) as raised:
        type_expression(text, SCHEMA)
    assert raised.value.errors[0].message == message
