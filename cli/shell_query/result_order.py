"""The last `order by` and `limit` of a query at the shell, which sort the final rows.

A query in a pipeline has no order, so they are taken off the query before it is compiled. What is
ordered by and is no column of the result becomes a hidden one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.core.expressions.parsing.syntax_tree import (
    Literal,
    Name,
    SortItem,
    Star,
    SyntaxNode,
)
from headrace.core.expressions.typed import ExpressionError
from headrace.core.queries import parse_query, run_query, type_query
from headrace.core.sql.syntax_tree import Query, Select, SelectItem
from headrace.core.types.data_types import INT, Schema, quote_name

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.queries import TypedQuery


@dataclass(frozen=True, slots=True)
class ResultOrder:
    """The order of the rows of a result, and the rows of it that are wanted."""

    by: tuple[tuple[SortItem, str | int], ...] = ()
    """Each item with its column: a name, or a position from 1."""
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
            name = _find_position(item, column, schema, self.hidden)
            direction = "desc" if item.is_descending else "asc"
            texts.append(f"{quote_name(name)} {direction} nulls {_place_nulls(item)}")
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


def _find_position(
    item: SortItem, column: str | int, schema: Schema, hidden: tuple[str, ...]
) -> str:
    names = [name for name in schema.names if name not in hidden]
    if isinstance(column, str):
        if column not in schema.names:
            message = f'unknown column "{column}" of the result'
            hint = f"its columns are {', '.join(names)}"
            raise ExpressionError(message, item.expression.span, hint)
        return column
    if not 1 <= column <= len(names):
        message = f"wanted a position from 1 to {len(names)}, got {column}"
        raise ExpressionError(message, item.expression.span)
    return names[column - 1]


def split_order(query: Query, sql: str) -> tuple[Query, ResultOrder]:
    """Return a query without its last order, and the order. Raises ExpressionError.

    With `order by` and `limit`, the query finds its first rows itself, and the order sorts them.
    """
    if not query.order_by:
        order = ResultOrder(offset=query.offset, limit=query.limit)
        return replace(query, limit=None, offset=0), order
    by, added = list[tuple[SortItem, str | int]](), list[SelectItem]()
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


def _find_column(node: SyntaxNode, query: Query, sql: str, added: list[SelectItem]) -> str | int:
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
    for item in (*items, *added):
        if _cut(sql, item.expression) == text:
            return item.name
    if not isinstance(body, Select) or body.is_distinct:
        what = "select distinct" if isinstance(body, Select) else "a union"
        message = f"after {what}, only columns of the result can be ordered by"
        raise ExpressionError(message, node.span)
    name = f"order by {text}"
    added.append(SelectItem(node, name, node.span, (Name(node.span, name),)))
    return name


def _cut(sql: str, node: SyntaxNode) -> str:
    return " ".join(sql[node.span.start : node.span.end].split())
