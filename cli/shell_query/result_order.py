"""The last `order by` and `limit` of a query at the shell, which sort the final rows.

A query in a pipeline has no order, so they are taken off the query before it is compiled. What is
ordered by and is no column of the result becomes a hidden one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from headrace.core.expressions.parsing.syntax_tree import (
    Literal,
    Name,
    SortItem,
    Star,
    SyntaxNode,
    walk,
)
from headrace.core.expressions.typed import ExpressionError, ExpressionErrors, Span
from headrace.core.plan.sql.items import HIDDEN_PREFIX
from headrace.core.plan.sql.result_order import find_order_parts
from headrace.core.queries import parse_query, run_query, type_query
from headrace.core.queries.typed_query import is_aggregate
from headrace.core.sql.syntax_tree import (
    Query,
    QueryBody,
    Select,
    SelectItem,
    SetOperation,
    list_table_aliases,
)
from headrace.core.types.data_types import INT, Schema, quote_name
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.queries import TypedQuery


@dataclass(frozen=True, slots=True)
class ResultExpression:
    """An expression over the columns of a result, as text."""

    text: str


ResultColumn: TypeAlias = str | int | ResultExpression
"""The name of a column of a result, its position from 1, or an expression."""


@dataclass(frozen=True, slots=True)
class ResultOrder:
    """The order of the rows of a result, and the rows of it that are wanted."""

    by: tuple[tuple[SortItem, ResultColumn], ...] = ()
    hidden: tuple[str, ...] = ()
    """The columns that are only ordered by."""
    offset: int = 0
    limit: int | None = None

    @property
    def enough(self) -> int | None:
        """The number of rows that are enough, whichever they are."""
        return None if self.by or self.limit is None else self.offset + self.limit

    def type_sort(self, schema: Schema) -> TypedQuery | None:
        """Return the query that sorts rows of these columns. Raises ExpressionError."""
        texts = []
        for item, column in self.by:
            text = _write_column(item, column, schema, self.hidden)
            direction = "desc" if item.is_descending else "asc"
            texts.append(f"{text} {direction} nulls {_place_nulls(item)}")
        if not texts:
            return None
        return type_query(parse_query(f"select * from result order by {', '.join(texts)}"), schema)

    def apply(self, rows: pl.DataFrame, sort: TypedQuery | None) -> pl.DataFrame:
        """Return the wanted rows in their order, without hidden columns."""
        if sort is not None:
            rows = run_query(sort, rows, 0)
        return rows.slice(self.offset, self.limit).drop(self.hidden)


def _place_nulls(item: SortItem) -> str:
    return "last" if item.nulls_last else "first"


def _write_column(
    item: SortItem, column: ResultColumn, schema: Schema, hidden: tuple[str, ...]
) -> str:
    if isinstance(column, ResultExpression):
        try:
            type_query(parse_query(f"select * from result order by {column.text}"), schema)
        except ExpressionErrors as failed:
            error = failed.errors[0]
            raise ExpressionError(error.message, item.expression.span, error.hint) from None
        return column.text
    names = [name for name in schema.names if name not in hidden]
    if isinstance(column, str):
        if column not in schema.names:
            message = f'unknown column "{column}" of the result'
            hint = f"its columns are {', '.join(names)}"
            raise ExpressionError(message, item.expression.span, hint)
        return quote_name(column)
    if not 1 <= column <= len(names):
        message = f"wanted a position from 1 to {len(names)}, got {column}"
        raise ExpressionError(message, item.expression.span)
    return quote_name(names[column - 1])


def split_order(query: Query, sql: str) -> tuple[Query, ResultOrder]:
    """Return a query without its last order, and the order. Raises ExpressionError.

    With `order by` and `limit`, the query finds its first rows itself, and the order sorts them.
    """
    if not query.order_by:
        order = ResultOrder(offset=query.offset, limit=query.limit)
        return replace(query, limit=None, offset=0), order
    by, added = list[tuple[SortItem, ResultColumn]](), list[SelectItem]()
    for item in query.order_by:
        by.append((item, _find_column(item.expression, query, sql, added)))
    body = query.body
    if added:
        assert isinstance(body, Select), "others get no hidden columns"
        body = replace(body, items=(*body.items, *added))
    order = ResultOrder(tuple(by), tuple(item.name for item in added))
    if query.limit is not None:
        return replace(query, body=body), order
    query = replace(query, body=body, order_by=(), offset=0)
    return query, replace(order, offset=query.offset)


def _find_column(node: SyntaxNode, query: Query, sql: str, added: list[SelectItem]) -> ResultColumn:
    """Return the column of the result that is ordered by; add it if there is none."""
    if isinstance(node, Literal) and node.type == INT and isinstance(node.value, int):
        return node.value
    body = query.body
    items = body.items if isinstance(body, Select) else ()
    has_star = any(isinstance(item.expression, Star) for item in items)
    named = {item.name for item in items if not isinstance(item.expression, Star)}
    if isinstance(node, Name) and (not items or has_star or node.name in named):
        return node.name
    text = _cut(sql, node)
    is_open = isinstance(body, Select) and not body.is_distinct
    names = {item.name for item in _list_items(body)}
    tables = list_table_aliases(body.table) if isinstance(body, Select) else []
    parts = find_order_parts(node, names | named, tables)
    if parts.results and not parts.others:
        return ResultExpression(text)
    for item in (*items, *added):
        if _cut(sql, item.expression) == text:
            return item.name
    if is_open and not parts.results:
        return _add_column(node, sql, added)
    if is_open:
        columns = {each.span: _find_column(each, query, sql, added) for each in parts.others}
        return ResultExpression(_write_over(node, sql, columns))
    if has_star and isinstance(body, Select) and not any(map(is_aggregate, walk(node))):
        return ResultExpression(text)
    what = "select distinct" if isinstance(body, Select) else "a union"
    message = f"after {what}, only columns of the result can be ordered by"
    raise ExpressionError(message, node.span)


def _add_column(node: SyntaxNode, sql: str, added: list[SelectItem]) -> str:
    """Add a hidden column to the result, and return its name."""
    name = f"{HIDDEN_PREFIX}{_cut(sql, node)}"
    added.append(SelectItem(node, name, node.span, (Name(node.span, name),)))
    return name


def _write_over(node: SyntaxNode, sql: str, columns: Mapping[Span, ResultColumn]) -> str:
    """Return an expression with columns of the result in place of what is at these places."""
    text, at = "", node.span.start
    for span in sorted(columns, key=lambda each: each.start):
        text += sql[at : span.start] + quote_name(str(columns[span]))
        at = span.end
    return text + sql[at : node.span.end]


def _list_items(body: QueryBody) -> tuple[SelectItem, ...]:
    """Return the items that name the columns of a result; none, if a star is one of them."""
    match body:
        case Query(body=inner) | SetOperation(left=inner):
            return _list_items(inner)
        case Select(items=items) if not any(isinstance(e.expression, Star) for e in items):
            return items
    return ()


def _cut(sql: str, node: SyntaxNode) -> str:
    return " ".join(sql[node.span.start : node.span.end].split())
