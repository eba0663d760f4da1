"""The types of the columns in which state is shown.

Frames alone do not have them: an interval of months is stored as a whole number.

Tests: tests/cli/state/test_state_values.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.plan import nodes
from headrace.core.process.declarations import Kind
from headrace.core.state_reader.columns import make_unique_name
from headrace.core.state_reader.state_schema import JoinStateSchema, StateSchema
from headrace.core.types.data_types import Field, Type


def list_column_types(schema: StateSchema | JoinStateSchema, state: str) -> dict[str, Type]:
    """Return the types of the columns that a state of a step may be shown with, by name.

    Columns that the reader adds, such as times and row numbers, are left out.
    """
    found: dict[str, Type] = {}
    for field in _list_fields(schema, state):
        found.setdefault(field.name, field.type)
        # A column with the name of a column of the key is shown under another.
        found.setdefault(make_unique_name(field.name, [*schema.key.names]), field.type)
    return found


def _list_fields(schema: StateSchema | JoinStateSchema, state: str) -> Iterator[Field]:
    yield from schema.key.columns
    operation = schema.operation
    if isinstance(schema, StateSchema) and state in schema.value_columns:
        for each in schema.value_columns[state]:
            yield Field(each.name.removeprefix("__"), each.type)
    if isinstance(schema, StateSchema) and _shows_rows(schema, state):
        yield from schema.stored_columns
    if isinstance(operation, nodes.Join):
        for side in (operation.left, operation.right):
            for column in (*side.key, *side.columns):
                yield Field(column.name, column.value.type)
        return
    if isinstance(operation, nodes.Aggregate):
        for aggregated in operation.columns:
            yield Field(aggregated.name, aggregated.expression.type)
    if isinstance(operation, nodes.Process):
        declared = dict(operation.body.states).get(state)
        if declared is not None and declared.kind is not Kind.TIMER:
            *key, value = declared.types
            yield from (Field("key", each) for each in key)
            yield Field("value", value)
        yield from operation.columns
    if isinstance(schema, StateSchema):
        yield from schema.stored_columns


def _shows_rows(schema: StateSchema, state: str) -> bool:
    """Whether a state is shown as rows that are stored, and not as their aggregates."""
    return state in ("rows", "ranking", "waiting") or bool(schema.window and schema.window.evict)
