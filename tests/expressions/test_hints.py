"""A mistake that habits from elsewhere lead to is met with what to write here, at its place."""

from __future__ import annotations

import pytest

from headrace.core.expressions import ExpressionErrors, type_expression
from headrace.core.expressions.typed import ProcessingTime, walk
from headrace.core.type_parser import parse_type
from headrace.core.types import Field, Schema

COLUMNS = {
    **{"id": "bigint", "s": "string", "day": "date", "at": "timestamp"},
    **{"a": "boolean", "b": "boolean", "x": "double", "n": "int"},
}
SCHEMA = Schema(tuple(Field(name, *parse_type(type)) for name, type in COLUMNS.items()))


@pytest.mark.parametrize(
    ("text", "message", "at", "hint"),
    [
        # Names.
        ("md5(s)", 'function "md5" is not built yet', "md5", ""),
        ("hours(at)", 'function "hours" is not built yet', "hours", 'did you mean "hour"?'),
        ("o.id", 'unknown column "o"', "o", "write id: names have no table before"),
        ("s.length", 'no field "length": string has no fields', "length", "write length(s)"),
    ],
)
def test_a_habit_is_answered_with_what_to_write(
    text: str, message: str, at: str, hint: str
) -> None:
    with pytest.raises(ExpressionErrors) as raised:
        type_expression(text, SCHEMA)
    (error,) = raised.value.errors
    assert message in error.message
    assert text[error.span.start : error.span.end] == at
    assert (hint in error.hint) if hint else error.hint == ""


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("datediff(day, at)", "int"),
        ("date_add(day, 1)", "date"),
        ("dateadd(day, n)", "date"),
        ("datediff(day, day, at)", "bigint"),
        ("date_add(DAY, 1, at)", "timestamp"),
    ],
)
def test_a_column_named_like_a_unit_is_a_column(text: str, type: str) -> None:
    assert str(type_expression(text, SCHEMA).type) == type


@pytest.mark.parametrize("text", ["current_timestamp", "CURRENT_DATE", "current_date > day"])
def test_the_clock_is_read_without_parentheses(text: str) -> None:
    assert any(isinstance(node, ProcessingTime) for node in walk(type_expression(text, SCHEMA)))


def test_a_column_comes_before_the_clock() -> None:
    schema = Schema((Field("current_date", *parse_type("int")),))
    assert str(type_expression("current_date", schema).type) == "int"
