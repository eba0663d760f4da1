"""Column names and types as Spark has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from headrace.core.elements import EVENT_TIME, HIDDEN, ORDER
from headrace.core.ordinals import ORDER_TYPE
from headrace.core.plan import nodes
from headrace.core.plan.matching import Connected, SameWindow
from headrace.core.plan.windowing import still_timed
from headrace.core.types import INT, TIMESTAMP, Array, Type

Columns: TypeAlias = Mapping[str, Type]
"""The columns of rows in order, including hidden ones."""


def of_stream(stream: nodes.Stream) -> Columns:
    """Return the columns of a stream, including hidden ones."""
    return with_hidden({f.name: f.type for f in stream.schema}, stream.timed, stream.ordered)


def with_hidden(columns: Columns, timed: bool, ordered: bool) -> Columns:
    """Add the hidden columns that travel with rows."""
    time = {EVENT_TIME: TIMESTAMP} if timed else {}
    return {**columns, **time, **({ORDER: ORDER_TYPE} if ordered else {})}


def after(operation: nodes.Operation, columns: Columns, ordered: bool) -> Columns:
    """Return the columns after an operation, from its input columns.

    `ordered`: whether the rows of its step need their position (ORDER).
    """
    if isinstance(operation, nodes.Keyed):
        timed = still_timed(operation, EVENT_TIME in columns)
        return with_hidden(_of_keys(operation, columns), timed, ordered)
    hidden = {name: type for name, type in columns.items() if name in HIDDEN}
    match operation:
        case nodes.Filter() | nodes.Route():
            return columns
        case nodes.Explode(name, array):
            assert isinstance(array.type, Array)
            shown = {n: type for n, type in columns.items() if n != name and n not in hidden}
            return {**shown, name: array.type.element, **hidden}
        case nodes.Project():
            return {**{each.name: each.value.type for each in operation.columns}, **hidden}
        case nodes.Lookup(add=add):
            shown = {name: type for name, type in columns.items() if name not in hidden}
            return {**shown, **{each.field.name: each.field.type for each in add}, **hidden}
        case nodes.Map():
            time = {EVENT_TIME: TIMESTAMP} if operation.event_time else {}
            return {**{field.name: field.type for field in operation.returns}, **hidden, **time}
    raise AssertionError(operation)


def _of_keys(operation: nodes.Keyed, columns: Columns) -> Columns:
    """Return the columns after a keyed operation, without hidden ones."""
    shown = {name: type for name, type in columns.items() if name not in HIDDEN}
    match operation:
        case nodes.Dedup():
            return {name: type for name, type in shown.items() if operation.keeps(name)}
        case nodes.Process(body=body):
            return {field.name: field.type for field in body.returns}
        case nodes.Top():
            kept = {name: type for name, type in shown.items() if operation.keeps(name)}
            return {**kept, nodes.RANK: INT}
    bounded = operation.window is not None and operation.window.bounded
    keys = {each.name: each.value.type for each in operation.key}
    bounds = dict.fromkeys(nodes.BOUNDS, TIMESTAMP) if bounded else {}
    if isinstance(operation, nodes.Apply):
        return {**keys, **bounds, **{field.name: field.type for field in operation.returns}}
    return {**keys, **bounds, **{each.name: each.expression.type for each in operation.columns}}


def of_join(join: nodes.Join, timed: bool, ordered: bool) -> Columns:
    """Return the columns after a join; `timed`: rows of both sides have an event time."""
    if isinstance(join.matching, Connected):
        returned = {field.name: field.type for field in join.matching.body.returns}
        return with_hidden(returned, timed, ordered)
    sides = (join.left,) if join.type in ("semi", "anti") else (join.left, join.right)
    shown = {each.name: each.value.type for side in sides for each in side.columns}
    match join.matching:
        case SameWindow(window) if window.bounded:
            shown |= dict.fromkeys(nodes.BOUNDS, TIMESTAMP)
    return with_hidden(shown, timed, ordered)


def ddl(columns: Columns) -> str:
    """Format the columns as a Spark DDL schema."""
    return ", ".join(f"{quoted(name)} {type}" for name, type in columns.items())


def quoted(name: str) -> str:
    """Quote a column's name for Spark SQL.

    >>> quoted("a.b"), quoted("a`b")
    ('`a.b`', '`a``b`')
    """
    return f"`{name.replace('`', '``')}`"
