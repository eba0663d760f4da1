"""Queries with types: every expression is typed over the columns of the table, or over its groups.

A part of an expression that is equal to an expression of `group by` is a column of the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from headrace.core.aggregates import AggregateCall, type_aggregates
from headrace.core.aggregates.canonical_text import canonical_text
from headrace.core.aggregates.table import AGGREGATES
from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Name,
    SortItem,
    SyntaxNode,
    find_free_names,
    replace_nodes,
    walk,
)
from headrace.core.expressions.resolver import CLOCK_FUNCTIONS, ExpressionResolver
from headrace.core.expressions.typed import (
    DEFAULT_MAX_VALUE,
    ExpressionError,
    ExpressionErrors,
    ExpressionWarning,
    TypedExpression,
    find_warnings,
)
from headrace.core.queries.names import resolve_names
from headrace.core.queries.parser import SelectQuery
from headrace.core.types.data_types import BOOLEAN, NULL, Field, Schema, find_map, is_nested
from headrace.core.types.lazy_dataclass import dataclass

KEY_PREFIX = "__k"
"""The prefix of the columns with the values of `group by`."""

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class SortColumn:
    """An expression of `order by`."""

    value: TypedExpression
    is_descending: bool
    nulls_last: bool


@dataclass(frozen=True, slots=True)
class TypedQuery:
    """A query, typed. Without `is_grouped` its expressions are over the rows of the table.

    With it they are over groups: they read the columns of the keys, which are named by KEY_PREFIX
    and their positions, and those of the calls.
    """

    schema: Schema
    """The columns of the result."""
    columns: tuple[TypedExpression, ...]
    where: TypedExpression | None
    is_grouped: bool
    keys: tuple[TypedExpression, ...]
    calls: tuple[AggregateCall, ...]
    having: TypedExpression | None
    order_by: tuple[SortColumn, ...]
    limit: int | None
    offset: int
    is_distinct: bool

    def find_warnings(self) -> Iterator[ExpressionWarning]:
        """Yield what is allowed, but probably not meant."""
        conditions = filter(None, (self.where, self.having))
        inputs = (each.typed for call in self.calls for each in call.all_inputs)
        order_by = (each.value for each in self.order_by)
        for typed in (*self.columns, *conditions, *self.keys, *inputs, *order_by):
            yield from find_warnings(typed)


def type_query(
    query: SelectQuery, schema: Schema, max_value: int = DEFAULT_MAX_VALUE
) -> TypedQuery:
    """Return the query with types over a table of this schema. Raises ExpressionErrors.

    `max_value` is the largest value, in bytes, that a growing call may make.
    """
    typer = _QueryTyper(schema, max_value)
    query = typer.collect(resolve_names, query, schema) or query
    typer.raise_errors()
    return typer.type_query(query)


class _QueryTyper:
    """Types the expressions of a query, and collects the errors of all of them."""

    def __init__(self, schema: Schema, max_value: int) -> None:
        self._rows = ExpressionResolver(schema, max_value=max_value)
        self._errors: list[ExpressionError] = []
        self._keys: dict[str, str] = {}
        """The columns of the keys, by the canonical texts of their expressions."""
        self._key_schema = Schema(())
        self._calls: dict[str, AggregateCall] = {}

    def type_query(self, query: SelectQuery) -> TypedQuery:
        for clause, node in (("where", query.where), *(("group by", n) for n in query.group_by)):
            self.collect(_refuse_aggregates, clause, node)
        self.raise_errors()
        keys = self._type_keys(query.group_by)
        self.raise_errors()
        where = query.where and self.collect(self._type_condition, self._rows.resolve, query.where)
        is_grouped = _is_grouped(query)
        resolve = self._resolve_group if is_grouped else self._rows.resolve
        columns = [self.collect(resolve, item.expression) for item in query.items]
        having = query.having and self.collect(self._type_condition, resolve, query.having)
        order_by = [self.collect(self._type_sort_item, resolve, item) for item in query.order_by]
        if query.is_distinct:
            self.collect(_check_distinct, query, columns)
        self.raise_errors()
        done = tuple(filter(None, columns))
        names = (item.name for item in query.items)
        return TypedQuery(
            Schema(tuple(Field(n, each.type) for n, each in zip(names, done, strict=True))),
            done,
            where or None,
            is_grouped,
            keys,
            tuple(self._calls.values()),
            having or None,
            tuple(filter(None, order_by)),
            query.limit,
            query.offset,
            query.is_distinct,
        )

    def collect(self, function: Callable[..., ResultT], *arguments: object) -> ResultT | None:
        """Call a function, and collect the errors that it raises."""
        try:
            return function(*arguments)
        except ExpressionErrors as failed:
            self._errors.extend(failed.errors)
        except ExpressionError as error:
            self._errors.append(error)
        return None

    def raise_errors(self) -> None:
        """Raise the errors that were collected, each once."""
        if self._errors:
            raise ExpressionErrors({(e.span, e.message): e for e in self._errors}.values())

    def _type_keys(self, nodes: Iterable[SyntaxNode]) -> tuple[TypedExpression, ...]:
        keys: list[TypedExpression] = []
        for node in nodes:
            key = self.collect(self._type_key, node)
            text = canonical_text(node)
            if key is not None and text not in self._keys:
                self._keys[text] = f"{KEY_PREFIX}{len(keys)}"
                keys.append(key)
        columns = zip(self._keys.values(), keys, strict=True)
        self._key_schema = Schema(
            tuple(Field(name, key.type, key.nullable) for name, key in columns)
        )
        return tuple(keys)

    def _type_key(self, node: SyntaxNode) -> TypedExpression:
        key = self._rows.resolve(node)
        if find_map(key.type):
            message = f"group by wants values that can be compared, got {key.type}"
            raise ExpressionError(message, node.span, "map_entries(...) gives its entries")
        return key

    def _resolve_group(self, node: SyntaxNode) -> TypedExpression:
        """Return the expression over groups, and add its calls."""
        tree = replace_nodes(node, self._find_key)
        for name in find_free_names(tree):
            if name.name not in self._key_schema and name.name.lower() not in CLOCK_FUNCTIONS:
                self._rows.resolve_column(name)  # its errors know of no columns with internal names
        try:
            typed = type_aggregates(tree, self._rows.schema, self._key_schema, self._rows.max_value)
        except ExpressionErrors as failed:
            raise ExpressionErrors(map(_adapt_hint, failed.errors)) from None
        self._calls.update((call.name, call) for call in typed.calls)
        return typed.finish

    def _find_key(self, node: SyntaxNode, bound: frozenset[str]) -> SyntaxNode | None:
        """Return the column of a key for its expression; calls of aggregates stay as they are."""
        if is_aggregate(node):
            return node
        text = canonical_text(node)
        is_free = text in self._keys and not bound.intersection(
            n.name for n in find_free_names(node)
        )
        return Name(node.span, self._keys[text]) if is_free else None

    def _type_condition(
        self, resolve: Callable[[SyntaxNode], TypedExpression], node: SyntaxNode
    ) -> TypedExpression:
        typed = resolve(node)
        if typed.type not in (BOOLEAN, NULL):
            message = f"wanted a condition (boolean), got {typed.type}"
            raise ExpressionError(message, node.span, "compare it")
        return typed

    def _type_sort_item(
        self, resolve: Callable[[SyntaxNode], TypedExpression], item: SortItem
    ) -> SortColumn:
        typed = resolve(item.expression)
        if is_nested(typed.type):
            message = f"order by wants single values, got {typed.type}"
            raise ExpressionError(message, item.expression.span)
        return SortColumn(typed, item.is_descending, item.nulls_last)


def is_aggregate(node: SyntaxNode) -> bool:
    """Whether a node is the call of an aggregate."""
    return isinstance(node, CallNode) and node.name in AGGREGATES


def _is_grouped(query: SelectQuery) -> bool:
    """Whether the rows of the result are groups."""
    if query.group_by or query.having:
        return True
    items = (*(item.expression for item in query.items), *(i.expression for i in query.order_by))
    return any(is_aggregate(node) for item in items for node in walk(item))


def _adapt_hint(error: ExpressionError) -> ExpressionError:
    """Return the error with the hint of queries: in a step, `group by` is its key."""
    hint = error.hint.replace("add it to key", "add it to group by")
    return ExpressionError(error.message, error.span, hint)


def _refuse_aggregates(clause: str, node: SyntaxNode | None) -> None:
    for each in walk(node) if node else ():
        if isinstance(each, CallNode) and is_aggregate(each):
            message = (
                f"{clause} is applied before rows are grouped, and {each.name} is an aggregate"
            )
            raise ExpressionError(message, each.span, "a condition on groups goes after having")


def _check_distinct(query: SelectQuery, columns: Iterable[TypedExpression | None]) -> None:
    texts = {canonical_text(item.expression) for item in query.items}
    for item in query.order_by:
        if canonical_text(item.expression) not in texts:
            message = "after select distinct, only columns of the result can be ordered by"
            raise ExpressionError(message, item.expression.span)
    for column in columns:
        if column and find_map(column.type):
            message = f"distinct wants values that can be compared, got {column.type}"
            raise ExpressionError(message, column.span, "map_entries(...) gives its entries")
