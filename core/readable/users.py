"""The state of user-defined aggregates, shown without user code: their partial states.

Only the user's class knows what a partial state means, and how to merge several. So the partial
states are shown in place of the result, in an array: most often one, several where a window
consists of several panes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.core.aggregates.calls import AggregateCall, AggregateExpression
from headrace.core.aggregates.triple import Triple, flatten
from headrace.core.expressions.typed import Column, Span
from headrace.core.plan.nodes import Aggregated, Keyed
from headrace.core.type_parser import parse_type
from headrace.core.types import Array, Field, Struct

if TYPE_CHECKING:
    import polars as pl

PARTIALS = "partials"


def kept_for_users(name: str, said: Mapping[str, Any]) -> Aggregated:
    """Return the column that shows the partial states of a call."""
    call = said["call"]
    fields = tuple(Field(part, parse_type(type)[0]) for part, type in said["keeps"])
    type = Array(Struct(fields))
    triple = Triple(
        state=((PARTIALS, type),),
        partial=lambda rows: (_nothing(),),
        merge=lambda partials: (flatten(partials).implode(),),
        finish=lambda partials: partials,
    )
    made = AggregateCall(call, type, True, (), None, triple)
    expression = AggregateExpression((made,), Column(type, True, Span(0, 0), call))
    return Aggregated(name, expression, call)


def with_partials(frame: pl.DataFrame, operation: Keyed) -> pl.DataFrame:
    """Collect the partial states of each user-defined call in one column, as an array."""
    import polars as pl

    for column in getattr(operation, "columns", None) or ():
        for call in column.expression.calls if isinstance(column, Aggregated) else ():
            (part, type), *_ = call.triple.state
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


def _nothing() -> pl.Expr:
    raise AssertionError("no rows come to what is read")
