"""Every expression of tests/core/spark/cases has the result that was recorded from Spark.

Doubles agree to the last bit, but for the expressions a file lists under `close`: there the two
mathematical libraries differ in the last place. Spark ran on Java 17, and `newer_java` lists the
numbers that Java writes with fewer digits from version 19 on.
"""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import polars as pl
import pytest

from headrace.core.errors.value_errors import ExpressionFailure
from headrace.core.expressions import ExpressionErrors, to_expr, type_expression
from headrace.core.types.data_types import Field, Schema, to_polars
from headrace.core.types.type_parser import parse_type
from tests.support.paths import SPARK_ANSWERS, SPARK_CASES
from tests.support.spark.shown_values import (
    from_spark_text,
    is_shown_as_text,
    to_spark_text,
)
from tests.support.spark.sql_values import decode, encode

FAMILIES = sorted(
    path.stem
    for path in SPARK_CASES.glob("*.json")
    if not json.loads(path.read_text()).get("aggregate")
)


@cache
def family(name: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]], pl.DataFrame, Schema]:
    """Load the cases, the recorded results by expression, the input and its schema."""
    cases = json.loads((SPARK_CASES / f"{name}.json").read_text())
    answers = json.loads((SPARK_ANSWERS / f"{name}.json").read_text())["results"]
    columns: dict[str, str] = cases.get("columns") or {"one": "int"}
    rows = cases.get("rows") or [[1]]
    fields = tuple(Field(name, *parse_type(ddl)) for name, ddl in columns.items())
    frame = pl.DataFrame([series(f, [row[i] for row in rows]) for i, f in enumerate(fields)])
    return cases, {answer["expr"]: answer for answer in answers}, frame, Schema(fields)


def series(field: Field, coded: list[Any]) -> pl.Series:
    """Build a column from coded values."""
    type = to_polars(field.type)
    if is_shown_as_text(str(field.type)):
        return from_spark_text(field.name, coded, field.type)
    if isinstance(type, pl.Datetime | pl.Date):
        physical = pl.Int64 if isinstance(type, pl.Datetime) else pl.Int32
        return pl.Series(field.name, coded, dtype=physical).cast(type)
    return pl.Series(field.name, [decode(value, str(field.type)) for value in coded], dtype=type)


def ours(text: str, frame: pl.DataFrame, schema: Schema) -> tuple[str, list[Any]]:
    """Evaluate an expression: its type and its coded values."""
    typed = type_expression(text, schema)
    result = frame.with_columns(to_expr(typed).alias("__r"))["__r"]
    assert result.dtype == to_polars(typed.type), f"typed {typed.type}, computed {result.dtype}"
    if is_shown_as_text(str(typed.type)):
        return str(typed.type), to_spark_text(result, typed.type).to_list()
    if isinstance(result.dtype, pl.Datetime | pl.Date):
        result = result.to_physical()
    return str(typed.type), [encode(value, str(typed.type)) for value in result.to_list()]


def same(a: Any, b: Any, close: bool) -> bool:
    """Whether two coded values are equal: 1 equals 1.0, -0.0 differs from 0.0."""
    if isinstance(a, float) and isinstance(b, float | int):
        exact = a == b and math.copysign(1, a) == math.copysign(1, b)
        return exact or (close and math.isclose(a, b, rel_tol=1e-15))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y, close) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[k], b[k], close) for k in a)
    return bool(a == b)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_expression_has_the_type_and_the_values_that_spark_gives(name: str) -> None:
    cases, answers, frame, schema = family(name)
    refused, close = cases.get("refused", {}), cases.get("close", [])
    newer, wrong = cases.get("newer_java", {}), []
    for text in cases["exprs"]:
        answer = answers[text]
        if newer and answer.get("type") == "string":
            answer = answer | {"values": [newer.get(value, value) for value in answer["values"]]}
        try:
            type, values = ours(text, frame, schema)
        except ExpressionErrors as error:
            # An expression that Spark refuses may be refused; any other only where a file lists it.
            if "error" not in answer and refused.get(text, "\0") not in str(error):
                wrong.append(f"{text}: refused: {error}")
            continue
        except ExpressionFailure as error:
            if "error" not in answer:
                wrong.append(f"{text}: failed: {error}")
            continue
        if "error" in answer or text in refused:
            wrong.append(f"{text}: accepted as {type}, but {answer.get('error', 'to be refused')}")
        elif type.replace("`", "") != answer["type"].replace(" not null", ""):
            wrong.append(f"{text}: {type}, spark {answer['type']}")
        elif not same(values, answer["values"], text in close):
            rows = [
                f"    row {i}: {a!r}, spark {b!r}"
                for i, (a, b) in enumerate(zip(values, answer["values"], strict=True))
                if not same(a, b, text in close)
            ]
            wrong.append("\n".join([f"{text}:", *rows[:3]]))
    assert not wrong, f"{len(wrong)} of {len(cases['exprs'])}\n" + "\n".join(wrong)


def test_every_cases_file_has_its_answers() -> None:
    names = {path.name for path in SPARK_CASES.glob("*.json")}
    assert names == {path.name for path in SPARK_ANSWERS.glob("*.json")}
