"""Aggregates: each one as three column expressions, partial, merge and finish.

expression = type_aggregates(parse("sum(price) / count(*)"), schema, keys)
states = partial_states(frame, ["auction"], expression.calls)
"""

from headrace.core.aggregates.aggregate import Aggregate
from headrace.core.aggregates.calls import AggregateCall, AggregateExpression, distinct_calls
from headrace.core.aggregates.frames import merged_states, partial_states, results
from headrace.core.aggregates.table import EXAMPLE_ROWS, TABLE
from headrace.core.aggregates.typing import (
    AGGREGATE_NAMES,
    type_aggregate_text,
    type_aggregates,
)
from headrace.core.elements import ORDER

__all__ = [
    "AGGREGATE_NAMES",
    "EXAMPLE_ROWS",
    "ORDER",
    "TABLE",
    "Aggregate",
    "AggregateCall",
    "AggregateExpression",
    "distinct_calls",
    "merged_states",
    "partial_states",
    "results",
    "type_aggregate_text",
    "type_aggregates",
]
