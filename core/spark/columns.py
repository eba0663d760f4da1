"""Column names and types as Spark has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from headrace.core.plan import nodes
from headrace.core.plan.nodes import RANK_COLUMN
from headrace.core.plan.nodes.matching import ConnectedMatch, RuleMatch, WindowMatch
from headrace.core.plan.window_clauses import keeps_event_time
from headrace.core.types.change_columns import CHANGE
from headrace.core.types.data_types import (
    BOOLEAN,
    INT,
    STRING,
    TIMESTAMP,
    Array,
    Field,
    Interval,
    MapType,
    Struct,
    Type,
)
from headrace.core.types.elements import DELETE, EVENT_TIME, HIDDEN_COLUMNS, ORDER, SEQUENCE
from headrace.core.types.row_order import ORDER_TYPE

Columns: TypeAlias = Mapping[str, Type]
"""The columns of rows in order, including hidden ones."""


def stream_columns(stream: nodes.Stream) -> Columns:
    """Return the columns of a stream, including hidden ones."""
    return add_hidden_columns(
        {f.name: f.type for f in stream.schema}, stream.has_event_time, stream.has_row_order
    )


def get_changes_columns(source: nodes.Source, stream: nodes.Stream) -> Columns:
    """Return the columns of a source's stream; changes of a table have two more hidden ones."""
    columns = stream_columns(stream)
    if source.table is None or stream.name != source.name:
        return columns
    sequence = source.table.sequence
    return {**columns, DELETE: BOOLEAN, **({SEQUENCE: sequence.value.type} if sequence else {})}


def add_hidden_columns(columns: Columns, timed: bool, ordered: bool) -> Columns:
    """Add the hidden columns that travel with rows."""
    time = {EVENT_TIME: TIMESTAMP} if timed else {}
    return {**columns, **time, **({ORDER: ORDER_TYPE} if ordered else {})}


def columns_after_operation(operation: nodes.Operation, columns: Columns, ordered: bool) -> Columns:
    """Return the columns after an operation, from its input columns.

    `ordered`: whether the rows of its step need their position (ORDER).
    """
    if isinstance(operation, nodes.KeyedOperation):
        timed = keeps_event_time(operation, EVENT_TIME in columns)
        return add_hidden_columns(_columns_after_keyed(operation, columns), timed, ordered)
    hidden = {name: type for name, type in columns.items() if name in HIDDEN_COLUMNS}
    match operation:
        case nodes.Filter() | nodes.Route() | nodes.WeightConversion():
            return columns
        case nodes.RowTime():
            return add_hidden_columns(columns, True, ordered)
        case nodes.ChangeColumn():
            shown = {name: type for name, type in columns.items() if name not in hidden}
            return {**shown, CHANGE: STRING, **hidden}
        case nodes.Explode():
            added = {column.name: column.type for column in operation.added_columns}
            shown = {n: t for n, t in columns.items() if n not in added and n not in hidden}
            return {**shown, **added, **hidden}
        case nodes.Project():
            return {**{each.name: each.value.type for each in operation.columns}, **hidden}
        case nodes.Lookup(columns=add):
            shown = {name: type for name, type in columns.items() if name not in hidden}
            return {**shown, **{each.field.name: each.field.type for each in add}, **hidden}
        case nodes.Map():
            time = {EVENT_TIME: TIMESTAMP} if operation.event_time else {}
            return {**{field.name: field.type for field in operation.returns}, **hidden, **time}
    raise AssertionError(operation)


def _columns_after_keyed(operation: nodes.KeyedOperation, columns: Columns) -> Columns:
    """Return the columns after a keyed operation, without hidden ones."""
    shown = {name: type for name, type in columns.items() if name not in HIDDEN_COLUMNS}
    match operation:
        case nodes.ChangelogConversion(columns=fields):
            return {name: type for name, type in shown.items() if name in fields}
        case nodes.Dedup():
            return {name: type for name, type in shown.items() if operation.stores_column(name)}
        case nodes.Over(columns=added):
            stored = {name: type for name, type in shown.items() if operation.stores_column(name)}
            return {**stored, **{each.name: each.expression.type for each in added}}
        case nodes.Match():
            return {field.name: field.type for field in operation.schema}
        case nodes.Process(body=body):
            return {field.name: field.type for field in body.returns}
        case nodes.Top():
            stored_columns = {
                name: type for name, type in shown.items() if operation.stores_column(name)
            }
            return stored_columns if operation.time_column else {**stored_columns, RANK_COLUMN: INT}
    bounded = operation.window is not None and operation.window.has_bounds
    keys = {each.name: each.value.type for each in operation.key}
    bounds = dict.fromkeys(nodes.WINDOW_BOUNDS, TIMESTAMP) if bounded else {}
    if isinstance(operation, nodes.Apply):
        return {**keys, **bounds, **{field.name: field.type for field in operation.returns}}
    return {**keys, **bounds, **{each.name: each.expression.type for each in operation.columns}}


def join_columns(join: nodes.Join, timed: bool, ordered: bool) -> Columns:
    """Return the columns after a join; `timed`: rows of both sides have an event time."""
    if isinstance(join.matching, ConnectedMatch):
        returned = {field.name: field.type for field in join.matching.body.returns}
        return add_hidden_columns(returned, timed, ordered)
    if isinstance(join.matching, RuleMatch):
        matched = {field.name: field.type for field in join.matching.match.schema}
        return add_hidden_columns(matched, timed, ordered)
    sides = (join.left,) if join.type in ("semi", "anti") else (join.left, join.right)
    shown = {each.name: each.value.type for side in sides for each in side.columns}
    match join.matching:
        case WindowMatch(window) if window.has_bounds:
            shown |= dict.fromkeys(nodes.WINDOW_BOUNDS, TIMESTAMP)
    return add_hidden_columns(shown, timed, ordered)


def format_ddl(columns: Columns) -> str:
    """Format the columns as a Spark DDL schema."""
    return ", ".join(
        f"{quote_column(name)} {to_spark_type(type)}" for name, type in columns.items()
    )


def to_spark_type(type: Type) -> Type:
    """Return the type by which Spark exchanges values with Python: months are ints, since Arrow has
    no type for them."""
    match type:
        case Array(element):
            return Array(to_spark_type(element))
        case Struct(fields):
            return Struct(
                tuple(Field(each.name, to_spark_type(each.type), each.nullable) for each in fields)
            )
        case MapType(key, value):
            return MapType(to_spark_type(key), to_spark_type(value))
        case Interval(is_months=True):
            return INT
    return type


def quote_column(name: str) -> str:
    """Quote a column's name for Spark SQL.

    >>> quote_column("a.b"), quote_column("a`b")
    ('`a.b`', '`a``b`')
    """
    return f"`{name.replace('`', '``')}`"
