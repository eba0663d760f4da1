"""Operations whose expressions have growing calls (`FunctionCall.growth`) over their input rows.

A row of these operations fails if one of its values would be too large.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.expressions.typed import TypedExpression, is_growing
from headrace.core.plan.nodes import (
    Aggregate,
    Apply,
    Dedup,
    Filter,
    Operation,
    Process,
    Project,
    Route,
    Top,
)


def find_growing_expressions(operation: Operation) -> Mapping[str, TypedExpression]:
    """Return the expressions over input rows that have growing calls, each under its own name."""
    values: list[TypedExpression] = []
    match operation:
        case Filter(condition):
            values = [condition]
        case Project(columns=columns):
            values = [column.value for column in columns]
        case Route(branches):
            values = [condition for _, condition, _ in branches]
        case Aggregate(key=key, columns=aggregated):
            calls = (call for column in aggregated for call in column.expression.calls)
            values = [value for call in calls for value in call.computed_inputs.values()]
            values += [column.value for column in key]
        case Top(key=key, by=by):
            values = [column.value for column in key] + [ranking.value for ranking in by]
        case Apply(key=key) | Dedup(key=key) | Process(key=key):
            values = [column.value for column in key]
    return {f"__value{at}": value for at, value in enumerate(values) if is_growing(value)}


def is_growing_operation(operation: Operation) -> bool:
    """Whether a row may fail because an expression of the operation makes too large a value."""
    return bool(find_growing_expressions(operation))
