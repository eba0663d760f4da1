"""The columns of the states of `over`: of rows that wait, and of keys.

Tests: tests/core/operators/test_over.py, tests/core/state_reader/test_step_states.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.aggregates.over_calls import (
    FrameCall,
    RankCall,
    deduplicate_over_calls,
    find_computed_inputs,
    list_carried_calls,
)
from headrace.core.operators.dedup import NEWEST_TIME
from headrace.core.plan.nodes import Over
from headrace.core.plan.over_reach import measure_reach
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import EVENT_TIME, ORDER
from headrace.core.types.row_order import ORDER_TYPE

if TYPE_CHECKING:
    import polars as pl

LAST_ROWS = "__rows"
"""The list of the last rows of a key."""
WAITING_ROWS = "__waiting"
"""The number of rows at the end of the list that have not been emitted."""
EARLIER_ROWS = "__before"
"""The number of rows of the key before the first of the list."""
EARLIER_TIMES = "__times"
"""The number of different times before that of the first row of the list."""


def list_row_columns(operation: Over) -> dict[str, pl.DataType]:
    """Return the columns of the rows that wait: those of input rows, and computed arguments."""
    calls = deduplicate_over_calls(column.expression for column in operation.columns)
    own = (field for field in operation.row if operation.stores_column(field.name))
    return {
        **{field.name: to_polars(field.type) for field in own},
        **{name: to_polars(typed.type) for name, typed in find_computed_inputs(calls).items()},
        EVENT_TIME: to_polars(TIMESTAMP),
        ORDER: to_polars(ORDER_TYPE),
    }


def list_table_columns(operation: Over) -> dict[str, pl.DataType]:
    """Return the columns that are stored of a key."""
    import polars as pl

    columns: dict[str, pl.DataType] = {NEWEST_TIME: to_polars(TIMESTAMP)}
    calls = deduplicate_over_calls(column.expression for column in operation.columns)
    functions = {call.function for call in calls if isinstance(call, RankCall)}
    if functions & {"row_number", "rank"}:
        columns[EARLIER_ROWS] = pl.Int64()
    if "dense_rank" in functions:
        columns[EARLIER_TIMES] = pl.Int64()
    for call in list_carried_calls(column.expression for column in operation.columns):
        columns |= {n: to_polars(t) for n, t in call.state_types(ORDER_TYPE).items()}
    if names := choose_state_columns(operation):
        types = list_row_columns(operation)
        columns[LAST_ROWS] = pl.List(pl.Struct({name: types[name] for name in names}))
    if measure_reach(operation).follows:
        columns[WAITING_ROWS] = pl.Int64()
    return columns


def choose_state_columns(operation: Over) -> tuple[str, ...]:
    """Return the columns of the rows that are stored with a key."""
    reach, names = measure_reach(operation), tuple(list_row_columns(operation))
    if reach.follows:
        return names
    if not reach.looks_back:
        return ()
    calls = deduplicate_over_calls(column.expression for column in operation.columns)
    read = {EVENT_TIME, *(each.name for call in calls for each in call.inputs)}
    if any(isinstance(call, FrameCall) and call.aggregate.needs_order for call in calls):
        read.add(ORDER)
    return tuple(name for name in names if name in read)
