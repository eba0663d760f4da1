"""The steps of aggregation over frames: rows to states, states to fewer, states to results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.aggregates.calls import AggregateCall, AggregateExpression
from headrace.core.expressions.typed import to_expr

if TYPE_CHECKING:
    import polars as pl

MANY_ROWS = 65_536
"""From here on Polars' streaming engine groups rows faster, of many groups twice as fast."""


def partial_states(
    rows: pl.DataFrame, keys: Sequence[str], calls: Sequence[AggregateCall]
) -> pl.DataFrame:
    """The partial state of each group; without keys of all rows, also of none."""
    computed = {name: expr for call in calls for name, expr in call.prepare().items()}
    prepared = rows.with_columns(**computed) if computed else rows
    return _grouped(prepared, keys, [part for call in calls for part in call.partial()])


def merged_states(
    states: pl.DataFrame, keys: Sequence[str], calls: Sequence[AggregateCall]
) -> pl.DataFrame:
    """One state a group from several."""
    return _grouped(states, keys, [part for call in calls for part in call.merge()])


def results(
    states: pl.DataFrame,
    keys: Sequence[str],
    calls: Iterable[AggregateCall],
    expressions: Mapping[str, AggregateExpression],
) -> pl.DataFrame:
    """The keys and the named expressions, a row a state."""
    finished = states.select(*keys, *(call.finish() for call in calls))
    named = (to_expr(expression.finish).alias(name) for name, expression in expressions.items())
    return finished.with_columns(named).select(*keys, *expressions)


def _grouped(frame: pl.DataFrame, keys: Sequence[str], parts: list[pl.Expr]) -> pl.DataFrame:
    if not keys:
        return frame.select(parts)
    if frame.height < MANY_ROWS:
        return frame.group_by(keys).agg(parts)
    return frame.lazy().group_by(keys).agg(parts).collect(engine="streaming")
