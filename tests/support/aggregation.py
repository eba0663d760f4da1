"""Aggregation as in a job: rows in batches, states merged in any order."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from headrace.core.aggregates import (
    ORDER,
    AggregateExpression,
    compute_partial_states,
    compute_results,
    deduplicate_calls,
    merge_states,
    type_aggregate_text,
)
from headrace.core.types.data_types import BIGINT, Field, Schema, Type, to_polars
from headrace.core.types.type_parser import parse_type
from tests.core.expressions.test_spark_answers import series
from tests.support.paths import SPARK_ANSWERS, SPARK_CASES

FAMILIES = sorted(path.stem for path in SPARK_CASES.glob("aggregates*.json"))


def cases(family: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Load a file of cases, and Spark's answers by expression."""
    answers = json.loads((SPARK_ANSWERS / f"{family}.json").read_text())["results"]
    return json.loads((SPARK_CASES / f"{family}.json").read_text()), {
        answer["expr"]: answer for answer in answers
    }


def input_of(case: dict[str, Any]) -> tuple[pl.DataFrame, Schema]:
    """Return the rows of a file of cases, numbered by the order key."""
    fields = tuple(Field(name, *parse_type(ddl)) for name, ddl in case["columns"].items())
    columns = [series(f, [row[i] for row in case["rows"]]) for i, f in enumerate(fields)]
    frame = pl.DataFrame(columns)
    return frame.with_columns(pl.int_range(pl.len()).alias(ORDER)), Schema(fields)


def typed(text: str, schema: Schema, keys: Sequence[str] = ()) -> AggregateExpression:
    """Type an aggregate expression over rows of that schema, grouped by these columns."""
    grouped = Schema(tuple(field for field in schema if field.name in keys))
    return type_aggregate_text(text, schema, grouped)


def at_once(
    rows: pl.DataFrame, expressions: Mapping[str, AggregateExpression], keys: Sequence[str] = ()
) -> pl.DataFrame:
    """Return the results from one state a group."""
    calls = deduplicate_calls(expressions.values())
    return compute_results(compute_partial_states(rows, keys, calls), keys, calls, expressions)


def in_pieces(
    rows: pl.DataFrame,
    expressions: Mapping[str, AggregateExpression],
    luck: random.Random,
    keys: Sequence[str] = (),
    order: Type = BIGINT,
) -> pl.DataFrame:
    """Return the results from states of random batches of the rows, merged in random order."""
    calls = deduplicate_calls(expressions.values())
    states = [compute_partial_states(piece, keys, calls) for piece in cut(rows, luck)]
    wanted = {name: to_polars(t) for call in calls for name, t in call.state_types(order).items()}
    while len(states) > 1 or luck.random() < 0.3:
        luck.shuffle(states)
        some = luck.randint(1, len(states))
        merged = merge_states(pl.concat(states[:some]), keys, calls)
        states = [merged, *states[some:]]
    columns = {name: type for name, type in states[0].schema.items() if name not in keys}
    assert columns == wanted
    return compute_results(states[0], keys, calls, expressions)


def cut(rows: pl.DataFrame, luck: random.Random) -> list[pl.DataFrame]:
    """Split the rows into batches in random order, at least one; some may be empty."""
    shuffled = rows[luck.sample(range(rows.height), rows.height)]
    ends = sorted(luck.randint(0, rows.height) for _ in range(luck.randint(0, 4)))
    return [shuffled[a:b] for a, b in zip([0, *ends], [*ends, rows.height], strict=True)]


def same(a: Any, b: Any, near: float = 0.0) -> bool:
    """Whether two coded values are equal; doubles up to the rounding of another order.

    `near` is the difference that sums may have that nearly cancel out.
    """
    if isinstance(a, float) and isinstance(b, float | int):
        return a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=near)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y, near) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[k], b[k], near) for k in a)
    return bool(a == b)
