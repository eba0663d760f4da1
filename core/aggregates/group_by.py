"""The steps of aggregation over frames: from rows to states, merged states, and results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.aggregates.calls import AggregateCall, AggregateExpression
from headrace.core.aggregates.user_aggregates import (
    UserAggregateCall,
    apply_user_calls,
    select_user_calls,
)
from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.typed import ColumnReference
from headrace.core.types.frames import select_columns

if TYPE_CHECKING:
    import polars as pl

STREAMING_MIN_ROWS = 65_536
"""From here on Polars' streaming engine groups rows faster, with many groups twice as fast."""


def compute_partial_states(
    rows: pl.DataFrame,
    keys: Sequence[str],
    calls: Sequence[AggregateCall],
    more: Sequence[pl.Expr] = (),
) -> pl.DataFrame:
    """Return the partial state of each group; without keys one of all rows, also of none.

    `more` are expressions that are computed for each group as well.
    """
    computed = {name: expr for call in calls for name, expr in call.prepare().items()}
    prepared = rows.with_columns(**computed) if computed else rows
    parts = [part for call in calls for part in call.partial()]
    states = _group_by(prepared, keys, [*parts, *more])
    return apply_user_calls(states, keys, calls, UserAggregateCall.apply_partial, more)


def merge_states(
    states: pl.DataFrame,
    keys: Sequence[str],
    calls: Sequence[AggregateCall],
    more: Sequence[pl.Expr] = (),
) -> pl.DataFrame:
    """Merge the states of each group into one.

    `more` are expressions that are computed for each group as well.
    """
    parts = [part for call in calls for part in call.merge()]
    states = _group_by(states, keys, [*parts, *more])
    return apply_user_calls(states, keys, calls, UserAggregateCall.apply_merge, more)


def compute_results(
    states: pl.DataFrame,
    keys: Sequence[str],
    calls: Iterable[AggregateCall],
    expressions: Mapping[str, AggregateExpression],
) -> pl.DataFrame:
    """Return the keys and the named expressions, a row for each state."""
    calls = tuple(calls)
    for user in select_user_calls(calls):
        states = user.apply_finish(states, keys)
    finish = {call.name: call.finish() for call in calls}
    ends = {name: expression.finish for name, expression in expressions.items()}
    bare = {
        n: e.name for n, e in ends.items() if isinstance(e, ColumnReference) and e.name in finish
    }
    if len(bare) == len(ends) > 0:
        return select_columns(states, *keys, *(finish[call].alias(n) for n, call in bare.items()))
    finished = select_columns(states, *keys, *finish.values())
    named = (to_expr(end).alias(name) for name, end in ends.items())
    if not keys:  # a frame of constants would have no height
        return finished.with_columns(named).select(*expressions)
    return select_columns(finished, *keys, *named)


def _group_by(frame: pl.DataFrame, keys: Sequence[str], parts: list[pl.Expr]) -> pl.DataFrame:
    if not keys:
        return frame.select(parts)
    if frame.height < STREAMING_MIN_ROWS:
        return frame.group_by(keys).agg(parts)
    return frame.lazy().group_by(keys).agg(parts).collect(engine="streaming")
