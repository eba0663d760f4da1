"""Results of operations that may fail, computed by operations after them.

`having` and the expressions over aggregates are computed for each result, and the condition of a
join for each pair. Where they may fail, the operation emits what they read, and a projection or a
filter computes them: so the row that fails is the result or the pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.core.aggregates.calls import AggregateCall, AggregateExpression
from headrace.core.expressions.typed import (
    NOWHERE,
    ColumnReference,
    TypedExpression,
    is_fallible,
    reference_field,
    substitute_columns,
    walk,
)
from headrace.core.plan.nodes import (
    WINDOW_BOUNDS,
    Aggregate,
    AggregatedColumn,
    ComputedColumn,
    Filter,
    Join,
    Operation,
    Project,
)
from headrace.core.plan.nodes.matching import AsOfMatch, BroadcastMatch, ConnectedMatch
from headrace.core.types.data_types import TIMESTAMP, Field


def split_results(operation: Operation) -> tuple[Operation, ...]:
    """Return the operation, and those that compute its results that may fail."""
    match operation:
        case Aggregate():
            return _split_aggregate(operation)
        case Join(residual_filter=Filter(condition) as residual) if is_fallible(condition):
            last = isinstance(operation.matching, AsOfMatch | BroadcastMatch | ConnectedMatch)
            if operation.type == "inner" and not last:
                return replace(operation, residual_filter=None, has_later_filter=True), residual
    return (operation,)


def _split_aggregate(aggregate: Aggregate) -> tuple[Operation, ...]:
    fallible = [c for c in aggregate.columns if is_fallible(c.expression.finish)]
    having = aggregate.having
    if not fallible:
        if having is None or not is_fallible(having.condition):
            return (aggregate,)
        return replace(aggregate, having=None), having
    names = _name_calls(aggregate, fallible)
    raw = {
        call.name: _make_raw_column(call, names[call.name])
        for column in fallible
        for call in column.expression.calls
    }
    plain = tuple(column for column in aggregate.columns if column not in fallible)
    first = replace(aggregate, columns=(*plain, *raw.values()), having=None)
    text = ", ".join(f"{column.name}: {column.text}" for column in fallible)
    project = Project("select", tuple(_compute_columns(aggregate, names)), text)
    return (first, project) if having is None else (first, project, having)


def _name_calls(aggregate: Aggregate, fallible: list[AggregatedColumn]) -> dict[str, str]:
    """Return the names of the columns of the calls: their texts, which are no other column's."""
    taken = {*WINDOW_BOUNDS, *(key.name for key in aggregate.key)}
    taken |= {column.name for column in aggregate.columns}
    names: dict[str, str] = {}
    for column in fallible:
        for call in column.expression.calls:
            name = call.name.removeprefix("__")
            while name in taken and call.name not in names:
                name += "_"
            names.setdefault(call.name, name)
            taken.add(name)
    return names


def _make_raw_column(call: AggregateCall, name: str) -> AggregatedColumn:
    value = ColumnReference(call.type, call.nullable, NOWHERE, call.name)
    return AggregatedColumn(name, AggregateExpression((call,), value), name)


def _compute_columns(aggregate: Aggregate, names: dict[str, str]) -> Iterator[ComputedColumn]:
    """Yield the output columns of the aggregate, computed from those of the calls."""
    for key in aggregate.key:
        yield _keep_column(Field(key.name, key.value.type, key.value.nullable))
    if aggregate.window is not None and aggregate.window.has_bounds:
        for name in WINDOW_BOUNDS:
            yield _keep_column(Field(name, TIMESTAMP, nullable=False))
    for column in aggregate.columns:
        finish = column.expression.finish
        if is_fallible(finish):
            yield ComputedColumn(column.name, _read_calls(finish, names), column.text)
        else:
            yield _keep_column(Field(column.name, finish.type, finish.nullable))


def _keep_column(field: Field) -> ComputedColumn:
    return ComputedColumn(field.name, reference_field(field))


def _read_calls(finish: TypedExpression, names: dict[str, str]) -> TypedExpression:
    """Return an expression over calls as one over their columns."""
    read = {
        node.name: replace(node, name=names.get(node.name, node.name))
        for node in walk(finish)
        if isinstance(node, ColumnReference)
    }
    return substitute_columns(finish, read)
