"""Aggregates of values give what those of Polars give."""

from __future__ import annotations

import math
import random
from itertools import product
from typing import Any

import polars as pl
import pytest

from headrace.core.aggregates import compute_partial_states, type_aggregate_text
from headrace.core.operators.matches.match_state import to_physical_type
from headrace.core.operators.matches.value_folds import build_value_fold
from headrace.core.types.data_types import Schema, to_polars
from tests.support.runtime.changelogs import schema_of

VALUES: dict[str, list[Any]] = {
    "bigint": [None, 0, -3, 2**63 - 1, -(2**63)],
    "tinyint": [None, 0, 5, 127, -128],
    "double": [None, 0.1, -1e300, 2.5, math.nan, math.inf, -math.inf],
    "float": [None, 0.5, -2.0, math.nan],
    "string": [None, "", "a", "ä", "𝄞", "�"],
    "boolean": [None, True, False],
    "timestamp": [None, 0, 1_000_000, -5],
    "date": [None, 0, 400],
}
NUMBERS = ("bigint", "tinyint", "double", "float")
CASES = [
    *product(("count", "min", "max"), VALUES),
    *product(("sum", "avg"), NUMBERS),
]


@pytest.mark.parametrize(("function", "type"), CASES)
def test_a_fold_gives_the_value_of_the_aggregate(function: str, type: str) -> None:
    schema = schema_of(x=type)
    call = type_aggregate_text(f"{function}(x)", schema, Schema(())).calls[0]
    physical, draw = to_physical_type(to_polars(schema.fields[0].type)), random.Random(7)
    fold = build_value_fold(function, schema.fields[0].type)
    assert fold is not None
    lists = [[], [None], *([draw.choice(VALUES[type]) for _ in range(n)] for n in range(1, 30))]
    for values in lists:
        rows = pl.DataFrame(
            {"x": pl.Series(values, dtype=physical).cast(to_polars(schema.fields[0].type))}
        )
        state = compute_partial_states(rows, (), [call])
        column = state.select(call.finish()).to_series()
        wanted = column.cast(to_physical_type(column.dtype)).item()
        found = fold(values)
        assert found == wanted or (found != found and wanted != wanted), values


def test_sums_of_many_doubles_are_those_of_polars() -> None:
    draw, fold = random.Random(7), build_value_fold("sum", schema_of(x="double").fields[0].type)
    values = [draw.choice([None, draw.random() * 10**5]) for _ in range(1000)]
    assert fold is not None and fold(values) == pl.Series(values, dtype=pl.Float64).sum()
