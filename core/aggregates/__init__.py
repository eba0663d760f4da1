"""Aggregates: each one as three column expressions, partial, merge and finish.

expression = type_aggregates(parse("sum(price) / count(*)"), schema, keys)
states = partial_states(frame, ["auction"], expression.calls)

Tests: tests/core/aggregates, and tests/core/spark/test_aggregates.py.
"""

from headrace.core.aggregates.aggregate import AggregateFunction
from headrace.core.aggregates.aggregate_resolver import type_aggregate_text, type_aggregates
from headrace.core.aggregates.calls import AggregateCall, AggregateExpression, deduplicate_calls
from headrace.core.aggregates.group_by import compute_partial_states, compute_results, merge_states
from headrace.core.aggregates.table import AGGREGATES, EXAMPLE_ROWS
from headrace.core.types.elements import ORDER

__all__ = [
    "AGGREGATES",
    "EXAMPLE_ROWS",
    "ORDER",
    "AggregateCall",
    "AggregateExpression",
    "AggregateFunction",
    "compute_partial_states",
    "compute_results",
    "deduplicate_calls",
    "merge_states",
    "type_aggregate_text",
    "type_aggregates",
]
