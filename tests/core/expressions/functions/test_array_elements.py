"""Elements of arrays and sequences: refusals, and the rows that fail as in Spark.

Values are compared with Spark's in tests/core/spark/cases/array_elements.json.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import polars as pl
import pytest

from headrace.core.errors.value_errors import ExpressionFailure
from headrace.core.expressions import to_expr, type_expression
from headrace.core.expressions.typed import AS_WRITTEN, NO_SPARK_FORM, FunctionCall
from headrace.core.types.data_types import (
    DATE,
    INT,
    STRING,
    Array,
    Field,
    MapType,
    Schema,
    to_polars,
)
from tests.support.expression_errors import assert_refused

SCHEMA = Schema(
    (
        Field("i", INT),
        Field("s", STRING),
        Field("d", DATE),
        Field("a", Array(INT)),
        Field("m", Array(MapType(STRING, INT))),
    )
)


def evaluate(text: str, **columns: list[Any]) -> list[Any]:
    """Evaluate an expression over these columns of SCHEMA."""
    fields = {field.name: to_polars(field.type) for field in SCHEMA}
    frame = pl.DataFrame([pl.Series(name, v, dtype=fields[name]) for name, v in columns.items()])
    return frame.select(to_expr(type_expression(text, SCHEMA)).alias("r"))["r"].to_list()


@pytest.mark.parametrize(
    ("text", "message", "at", "hint"),
    [
        ("array_position(i, 1)", "array_position wants an array, got int", "i", ""),
        ("array_position(a)", "array_position takes 2 arguments, got 1", None, "as in"),
        ("array_position(a, 1.5)", "wants a value of type int, got decimal(2,1)", "1.5", ""),
        ("array_position(m, m[0])", "array_position cannot compare maps", "m", "compare one of"),
        ("array_remove(m, m[0])", "array_remove cannot compare maps", "m", "compare one of"),
        ("array_insert(a, 0, 1)", "array_insert counts from 1, or with -1", "0", "1 inserts at"),
        ("array_insert(a, 1L, 1)", "wants an int position, got bigint", "1L", "cast(... as int)"),
        ("arrays_zip(a, i)", "arrays_zip wants arrays, got int", "i", ""),
        ("arrays_zip(a, a)", 'two fields named "a"', "a", "concat(array) gives the field"),
        ("sequence(1)", "sequence takes 2 or 3 arguments, got 1", None, "its signature is"),
        ("sequence(s, 1)", "sequence wants integers, dates or timestamps, got string", "s", ""),
        ("sequence(i, d)", "sequence wants bounds of one type, got int and date", "d", ""),
        ("sequence(d, d, 1)", "sequence wants an interval as step of a date", "1", "interval 1"),
        ("sequence(1, 5, s)", "an integer as step of integers, got string", "s", "cast(... as"),
        ("sequence(1, 5, 0)", "sequence wants a step that is not 0", "0", ""),
        ("sequence(5, 1, 2)", "no step of 2 leads from 5 to 1", None, "without a step"),
    ],
)
def test_a_misuse_is_pointed_at(text: str, message: str, at: str | None, hint: str) -> None:
    assert_refused(text, SCHEMA, message, text if at is None else at, hint)


DAY = date(2026, 1, 31)
AWAY = "the step does not lead from the start to the stop"


@pytest.mark.parametrize(
    ("text", "sound", "wrong", "reason"),
    [
        ("array_insert(array(1), i, 7)", (2, [1, 7]), 0, "the position is 0"),
        ("sequence(1, 3, i)", (1, [1, 2, 3]), -1, AWAY),
        ("sequence(1, 3, i)", (2, [1, 3]), 0, AWAY),
        ("sequence(1, i, 1)", (None, None), 0, AWAY),
        ("size(sequence(d, d, interval 1 hour * i))", (24, 1), 23, "less than a day"),
        ("size(sequence(d, date_add(d, 1), interval 1 month * i))", (1, 1), -1, AWAY),
    ],
)
def test_a_row_fails_where_spark_does(
    text: str, sound: tuple[Any, Any], wrong: int, reason: str
) -> None:
    given, made = sound
    assert evaluate(text, i=[given], d=[DAY]) == [made]
    with pytest.raises(ExpressionFailure, match=re.escape(reason)):
        evaluate(text, i=[given, wrong], d=[DAY] * 2)


def test_a_long_sequence_of_literals_and_one_of_columns_are_checked() -> None:
    forms = {}
    for text in ("sequence(1, 5)", "sequence(1, 500)", "sequence(1, i)", "sequence(1, 5, i)"):
        typed = type_expression(text, SCHEMA)
        assert isinstance(typed, FunctionCall)
        forms[text] = (typed.growth is not None, typed.failure is not None, typed.spark)
    assert forms == {
        "sequence(1, 5)": (False, False, AS_WRITTEN),
        "sequence(1, 500)": (True, False, NO_SPARK_FORM),
        "sequence(1, i)": (True, False, NO_SPARK_FORM),
        "sequence(1, 5, i)": (True, True, NO_SPARK_FORM),
    }
    with pytest.raises(ExpressionFailure, match="more than max_value"):
        evaluate("sequence(-9223372036854775807, i)", i=[2147483647])
