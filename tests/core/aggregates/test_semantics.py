"""The aggregates, orders and groups of the measured semantics have the same results here."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from headrace.core.operators.folds import RowRanking
from headrace.core.plan.nodes import Ranking
from headrace.core.types.data_types import Field, Schema, to_polars
from headrace.core.types.elements import ORDER
from headrace.core.types.key_groups import encode_keys
from headrace.core.types.row_order import add_row_order
from headrace.core.types.type_parser import parse_type
from tests.support.aggregation import at_once, typed
from tests.support.paths import TESTS
from tests.support.spark_text import spark_text

FILE = TESTS / "core" / "expressions" / "semantics" / "spark_expressions.json"
CASES = json.loads(FILE.read_text("utf-8"))
AGGREGATES = [text for text in CASES if text.startswith("AGG ")]

VALUES: dict[str, tuple[str, list[Any]]] = {
    "NaNs": ("double", [math.nan, 1.0, -2.0, None]),
    "ints": ("int", [1, 2, 4]),
    "one": ("int", [1]),
    "bigs": ("bigint", [2**63 - 1, 1]),
    "decs": ("decimal(10,2)", [Decimal("1.10"), Decimal("2.25")]),
    "empty": ("int", []),
    "nulls": ("int", [None, 1]),
    "bools": ("boolean", [True, False]),
    "kv": ("int", [1, 2]),
}
"""The measured rows, by their names in the cases."""


def rows_of(name: str) -> tuple[pl.DataFrame, Schema]:
    type, values = VALUES[name]
    of_v, _ = parse_type(type)
    of_k, _ = parse_type("string")
    keys = [chr(ord("a") + at) for at in range(len(values))]
    columns = {
        "v": pl.Series(values, dtype=to_polars(of_v)),
        "k": pl.Series(keys, dtype=pl.String()),
        ORDER: pl.int_range(len(values), eager=True, dtype=pl.Int64),
    }
    return pl.DataFrame(columns), Schema((Field("v", of_v), Field("k", of_k)))


@pytest.mark.parametrize("case", AGGREGATES)
def test_an_aggregate_means_what_spark_measured(case: str) -> None:
    text, _, name = case.removeprefix("AGG ").rpartition(" ")
    value, type = CASES[case]["false"]
    rows, schema = rows_of(name)
    expression = typed(text, schema)
    result = at_once(rows, {"r": expression})["r"].to_list()[0]
    assert (spark_text(result, expression.type), str(expression.type)) == (value, type)


@pytest.mark.parametrize("descending", [False, True])
def test_values_are_ordered_as_spark_measured(descending: bool) -> None:
    rows, schema = rows_of("NaNs")
    v = typed("max(v)", schema).calls[0].inputs[0].typed
    ranks = RowRanking((Ranking(v, descending, nulls_last=descending, text="v"),), rows.height)
    ordered = ranks.sort_rows(add_row_order(rows, pl.int_range(pl.len())))["v"].to_list()
    words = [spark_text(value, v.type) for value in ordered]
    case = f"ORDER v {'desc' if descending else 'asc'} NaNs"
    assert str(words) == CASES[case]["false"][0]


def test_zeros_and_nans_are_a_group_each_as_spark_measured() -> None:
    assert CASES["GROUP zeros"]["false"][0] == "0.0:2;NaN:2"
    keys = encode_keys(pl.DataFrame({"v": [0.0, -0.0, math.nan, -math.nan]})).to_list()
    assert keys[0] == keys[1] != keys[2] == keys[3]


def test_every_measured_case_is_one_of_these_or_an_expression() -> None:
    others = {case for case in CASES if case.startswith(("ORDER ", "GROUP "))}
    assert others == {"ORDER v asc NaNs", "ORDER v desc NaNs", "GROUP zeros"}
