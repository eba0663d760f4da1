"""The steps of aggregation over frames: from rows to states, merged states, and results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.aggregates.calls import AggregateCall, AggregateExpression
from headrace.core.aggregates.users import UserCall, by_users, of_users
from headrace.core.expressions.typed import Column, to_expr
from headrace.core.frames import projected

if TYPE_CHECKING:
    import polars as pl

MANY_ROWS = 65_536
"""From here on Polars' streaming engine groups rows faster, with many groups twice as fast."""


def partial_states(
    rows: pl.DataFrame, keys: Sequence[str], calls: Sequence[AggregateCall]
) -> pl.DataFrame:
    """Return the partial state of each group; without keys one of all rows, also of none."""
    computed = {name: expr for call in calls for name, expr in call.prepare().items()}
    prepared = rows.with_columns(**computed) if computed else rows
    states = _grouped(prepared, keys, [part for call in calls for part in call.partial()])
    return by_users(states, keys, calls, UserCall.begun)


def merged_states(
    states: pl.DataFrame, keys: Sequence[str], calls: Sequence[AggregateCall]
) -> pl.DataFrame:
    """Merge the states of each group into one."""
    states = _grouped(states, keys, [part for call in calls for part in call.merge()])
    return by_users(states, keys, calls, UserCall.merged)


def results(
    states: pl.DataFrame,
    keys: Sequence[str],
    calls: Iterable[AggregateCall],
    expressions: Mapping[str, AggregateExpression],
) -> pl.DataFrame:
    """Return the keys and the named expressions, a row for each state."""
    calls = tuple(calls)
    for user in of_users(calls):
        states = user.finished(states, keys)
    finish = {call.name: call.finish() for call in calls}
    ends = {name: expression.finish for name, expression in expressions.items()}
    bare = {n: e.name for n, e in ends.items() if isinstance(e, Column) and e.name in finish}
    if len(bare) == len(ends) > 0:
        return projected(states, *keys, *(finish[call].alias(n) for n, call in bare.items()))
    finished = projected(states, *keys, *finish.values())
    named = (to_expr(end).alias(name) for name, end in ends.items())
    if not keys:  # a frame of constants would have no height
        return finished.with_columns(named).select(*expressions)
    return projected(finished, *keys, *named)


def _grouped(frame: pl.DataFrame, keys: Sequence[str], parts: list[pl.Expr]) -> pl.DataFrame:
    if not keys:
        return frame.select(parts)
    if frame.height < MANY_ROWS:
        return frame.group_by(keys).agg(parts)
    return frame.lazy().group_by(keys).agg(parts).collect(engine="streaming")
