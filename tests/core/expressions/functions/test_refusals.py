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
        ("mask(s, 'ab')", "mask wants one character in quotes, or null"),
        ("mask(s, s)", "mask wants one character in quotes, or null"),
        ("encode(s, 'utf-7')", 'unknown character set "utf-7"'),
        ("decode(i, 'utf-8')", "decode wants binary, got int"),
        ("zeroifnull()", "zeroifnull takes 1 argument, got 0"),
        ("equal_null(1)", "equal_null takes 2 arguments, got 1"),
        ("overlay(s placing 'x')", 'wanted "from", got ")"'),
        ("format_string('%d')", "'%d' has no argument"),
        ("format_string('%d', s)", "'%d' wants a whole number, got string"),
        ("format_string('%q', s)", "'%q' is not a conversion that is known here"),
        ("format_string('%-d', i)", "'%-d' has flags or a precision that do not go together"),
        ("format_string('%20000s', s)", "'%20000s' is wider than 10,000 characters"),
        ("format_string('%s', a)", "%s does not take array<int>"),
        ("format_string(s, i)", "format_string wants a format in quotes, got string"),
        ("format_number(i, '0.0.0')", "format_number does not take the pattern '0.0.0'"),
        ("to_number(s, '9,')", "a comma has digits on both sides in a pattern of numbers"),
        ("to_char(i, '')", "a pattern of numbers has 1 to 38 digits"),
        ("to_char(x'41', 'utf-7')", "to_char wants 'base64', 'hex' or 'utf-8' for bytes"),
        ("to_binary(s, 'utf-7')", "to_binary wants a format in quotes"),
        ("parse_url(s, 'QUERY', 'a|b')", "a key of a query is plain text, got 'a|b'"),
        ("aes_encrypt(s, s, 'CTR')", "aes_encrypt does not know 'CTR'"),
        ("hash()", "hash takes at least 1 argument, got 0"),
        (
            "sort_array(array(map(i, i)))",
            "sort_array wants a type with an order, got array<map<int,int>>",
        ),
    ],
)
def test_an_argument_is_refused_with_what_is_wanted(text: str, message: str) -> None:
    with pytest.raises(ExpressionErrors) as raised:
        type_expression(text, SCHEMA)
    assert raised.value.errors[0].message == message
