"""Bytes of texts: what Java reads as the escape of a byte in an address."""

from __future__ import annotations

import polars as pl
import pytest

from headrace.core.expressions import to_expr, type_expression
from headrace.core.types.data_types import STRING, Field, Schema

SCHEMA = Schema((Field("s", STRING),))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # What Spark gave; found by random expressions.
        ("50%+5z", "50\x05z"),
        ("a%-0b", "a\x00b"),
        ("%-00", "\x000"),
        ("%+f%c3%+9", "\x0f\ufffd\t"),
        ("%c3%a9+", "é "),
        ("%\uff11\uff12", "\x12"),
        ("%\u0663\u0664", "4"),
        ("%\uff211", "\ufffd"),
        *((text, None) for text in ("%-5", "%+", "%+g", "%--", "% 5", "%1_", "%", "a%1", "%é1")),
    ],
)
def test_escapes_of_addresses_are_read_as_java_reads_them(text: str, wanted: str | None) -> None:
    typed = type_expression("try_url_decode(s)", SCHEMA)
    assert pl.DataFrame({"s": [text]}).select(to_expr(typed)).item() == wanted
