"""Every example of a function or an aggregate has the value that help and docs show."""

import polars as pl
import pytest

from docs.functions_page import NO_RESULT
from headrace.core.aggregates import AGGREGATES as AGGREGATES
from headrace.core.aggregates import (
    EXAMPLE_ROWS,
    compute_partial_states,
    compute_results,
    type_aggregate_text,
)
from headrace.core.aggregates.catalog import ENTRIES
from headrace.core.expressions import to_expr, type_expression
from headrace.core.types.data_types import Field, Schema, Type, to_polars
from headrace.core.types.row_order import add_row_order
from headrace.core.types.type_parser import parse_type
from tests.support.spark_text import spark_text

COLUMNS = {name: (parse_type(type)[0], values) for name, (type, values) in EXAMPLE_ROWS.items()}
SCHEMA = Schema(tuple(Field(name, type) for name, (type, _) in COLUMNS.items()))
NOW = {"current_timestamp", "current_date", "now", "localtimestamp", "current_time"}

EXAMPLES = [
    pytest.param(entry.name, text, value, id=text)
    for entry in ENTRIES
    if entry.name not in NOW
    for text, value in entry.examples
]


PLACED_ROW = add_row_order(pl.DataFrame({"one": [1]}), pl.lit(0))
"""A row with a place, from which random values are made."""


def computed(text: str) -> tuple[object, Type]:
    """The value of an expression that reads no column."""
    typed = type_expression(text, Schema(()), has_row_place=True)
    return PLACED_ROW.select(to_expr(typed)).to_series()[0], typed.type


def aggregated(text: str) -> tuple[object, Type]:
    """The value of an aggregate over the example rows."""
    expression = type_aggregate_text(text, SCHEMA, Schema(()))
    rows = pl.DataFrame(
        {name: pl.Series(values, dtype=to_polars(type)) for name, (type, values) in COLUMNS.items()}
    ).with_row_index("__order")
    states = compute_partial_states(rows, [], expression.calls)
    return compute_results(states, [], expression.calls, {"r": expression})["r"][0], expression.type


def test_no_name_stands_twice() -> None:
    names = [name for entry in ENTRIES for name in (entry.name, *entry.aliases)]
    assert not [name for name in set(names) if names.count(name) > 1]


@pytest.mark.parametrize(("name", "text", "value"), EXAMPLES)
def test_an_example_has_the_value_that_is_shown(name: str, text: str, value: str) -> None:
    result, type = aggregated(text) if name in AGGREGATES else computed(text)
    shown = result.to_list() if isinstance(result, pl.Series) else result
    assert spark_text(shown, type) == value


@pytest.mark.parametrize(("text", "value"), NO_RESULT.items())
def test_what_fails_with_ansi_on_has_the_value_that_is_shown(text: str, value: str) -> None:
    result, type = computed(text)
    assert spark_text(result, type) == value
