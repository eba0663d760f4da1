"""Functions of text: the messages of refusals, and their use in frames."""

from __future__ import annotations

import polars as pl
import pytest

from headrace.core.expressions import ExpressionError, ExpressionErrors, to_expr, type_expression
from headrace.core.types.data_types import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    Array,
    Field,
    Schema,
    Struct,
)

SCHEMA = Schema(
    (
        Field("s", STRING),
        Field("n", INT),
        Field("v", DOUBLE),
        Field("bytes", BINARY),
        Field("list", Array(STRING)),
        Field("numbers", Array(INT)),
        Field("record", Struct((Field("a", INT),))),
        Field("sure", STRING, nullable=False),
    )
)


def refused(text: str) -> ExpressionError:
    with pytest.raises(ExpressionErrors) as raised:
        type_expression(text, SCHEMA)
    return raised.value.errors[0]


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("substring(s)", "substring(s)", "substring takes 2 to 3 arguments, got 1"),
        ("concat(s, record)", "record", "concat cannot convert struct<a:int> to text"),
        ("concat(list, s)", "s", "concat joins arrays here, got string"),
        ("concat_ws()", "concat_ws()", "wants a separator and texts, got nothing"),
        ("split_part(s, '.', 0)", "0", "parts are numbered from 1"),
        ("split_part(s, '.', n)", "n", "split_part wants a constant int"),
        ("translate(s, s, 'x')", "s", "translate wants a constant string"),
    ],
)
def test_a_refusal_says_what_was_wanted_and_what_came(text: str, at: str, message: str) -> None:
    error = refused(text)
    assert text[error.span.start : error.span.end] == at
    assert message in error.message


def test_a_result_is_null_only_where_an_argument_is() -> None:
    for text in ("upper(sure)", "sure || 'x'", "concat_ws(',', s)", "lpad(sure, 3, 'x')"):
        assert not type_expression(text, SCHEMA).nullable, text
    for text in ("upper(s)", "sure || s", "concat_ws(s, sure)", "lpad(sure, n)"):
        assert type_expression(text, SCHEMA).nullable, text


def test_literals_alone_fill_every_row_of_a_frame() -> None:
    frame = pl.DataFrame({"s": ["a", "b", "c"]})
    for text in ("upper('x')", "locate('b', 'abc', 1)", "lpad('x', 3, 'ab')", "split('a,b', ',')"):
        typed = to_expr(type_expression(text, SCHEMA))
        assert frame.with_columns(r=typed)["r"].n_unique() == 1, text
        assert frame.head(0).with_columns(r=typed).height == 0, text


def test_an_argument_that_is_needed_twice_is_computed_once() -> None:
    text = "s"
    for _ in range(12):
        text = f"regexp_extract(repeat(lpad({text}, 3, 'ab'), 1), '.*', 0)"
    frame = pl.DataFrame({"s": ["x"]})
    assert frame.select(r=to_expr(type_expression(text, SCHEMA)))["r"].to_list() == ["abx"]


def test_the_empty_text_is_nowhere_to_be_replaced() -> None:
    frame = pl.DataFrame({"s": ["abc", "", None]})
    typed = type_expression("replace(s, '', 'x')", SCHEMA)
    assert frame.select(r=to_expr(typed))["r"].to_list() == ["abc", "", None]


def test_types_follow_the_arguments() -> None:
    types = {
        "s || n": STRING,
        "list || list": Array(STRING),
        "bytes || bytes": BINARY,
        "length(s)": INT,
        "contains(s, 'a')": BOOLEAN,
        "concat()": STRING,
    }
    for text, type in types.items():
        assert type_expression(text, SCHEMA).type == type
