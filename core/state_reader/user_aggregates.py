"""The state of user-defined aggregates, shown without user code: their partial states.

Where the state has a copy of the emitted row, that is shown.

Only the user's class knows what a partial state means, and how to merge several. So the partial
states are shown in place of the result, in an array: most often one, several where a window
consists of several panes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.core.aggregates.accumulator import Accumulator, explode_group_lists
from headrace.core.aggregates.calls import AggregateCall, AggregateExpression
from headrace.core.expressions.typed import ColumnReference, Span
from headrace.core.plan.nodes import AggregatedColumn, KeyedOperation
from headrace.core.types.data_types import Array, Field, Struct
from headrace.core.types.type_parser import parse_type

if TYPE_CHECKING:
    import polars as pl

PARTIALS = "partials"


def build_partials_column(name: str, document: Mapping[str, Any]) -> AggregatedColumn:
    """Return the column that shows the partial states of a call."""
    call = document["call"]
    fields = tuple(Field(part, parse_type(type)[0]) for part, type in document["keeps"])
    type = Array(Struct(fields))
    triple = Accumulator(
        state=((PARTIALS, type),),
        partial=lambda rows: (_reject_rows(),),
        merge=lambda partials: (explode_group_lists(partials).implode(),),
        finish=lambda partials: partials,
    )
    aggregate_call = AggregateCall(call, type, True, (), None, triple)
    expression = AggregateExpression(
        (aggregate_call,), ColumnReference(type, True, Span(0, 0), call)
    )
    return AggregatedColumn(name, expression, call)


def build_results_column(name: str, document: Mapping[str, Any]) -> AggregatedColumn:
    """Return the column with the results of a call, of which the state has a copy."""
    call = document["call"]
    type, nullable = parse_type(call.rpartition(" -> ")[2])
    column = ColumnReference(type, nullable, Span(0, 0), name)
    return AggregatedColumn(name, AggregateExpression((), column), call)


def collect_partials(frame: pl.DataFrame, operation: KeyedOperation) -> pl.DataFrame:
    """Collect the partial states of each user-defined call in one column, as an array."""
    import polars as pl

    for column in getattr(operation, "columns", None) or ():
        for call in column.expression.calls if isinstance(column, AggregatedColumn) else ():
            (part, type), *_ = call.accumulator.state
            if part != PARTIALS or not isinstance(type, Array):
                continue
            assert isinstance(type.element, Struct)
            parts = {field.name: f"{call.name}.{field.name}" for field in type.element.fields}
            if not all(each in frame.columns for each in parts.values()):
                continue
            partial = pl.struct(pl.col(each).alias(n) for n, each in parts.items())
            whole = pl.concat_list(partial).alias(f"{call.name}.{PARTIALS}")
            frame = frame.with_columns(whole).drop(parts.values())
    return frame


def _reject_rows() -> pl.Expr:
    raise AssertionError("no rows come to what is read")
