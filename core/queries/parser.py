"""Queries over one table: the part of the grammar of queries that is computed in memory.

select [distinct] items [from table [alias]] [where condition] [group by expressions]
[having condition] [order by items] [limit number] [offset number]
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.expressions.parsing.syntax_tree import Name, SortItem, SyntaxNode
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.sql.parser import parse_query as parse_whole_query
from headrace.core.sql.row_table import ROW_TABLE
from headrace.core.sql.syntax_tree import (
    DerivedTable,
    JoinedTable,
    MatchTable,
    Query,
    Select,
    SelectItem,
    SetOperation,
    Subquery,
    TableName,
    Values,
    WindowCall,
    list_expressions,
    walk_query_nodes,
)
from headrace.core.types.lazy_dataclass import dataclass

WAY_OUT = "a query reads one table: write it with --format parquet, and use DuckDB on the file"


@dataclass(frozen=True, slots=True)
class SelectQuery:
    """A query of one table, as written."""

    items: tuple[SelectItem, ...]
    table: Name | None
    """None: its expressions are computed once, over no table."""
    alias: str
    """The name that may stand before columns."""
    where: SyntaxNode | None
    group_by: tuple[SyntaxNode, ...]
    having: SyntaxNode | None
    order_by: tuple[SortItem, ...]
    limit: int | None
    offset: int
    is_distinct: bool


def parse_query(text: str) -> SelectQuery:
    """Return the query that a text says, or raise an ExpressionError.

    >>> parse_query("select a, b + 1 from t order by 2 limit 3").items[1].name
    'b + 1'
    """
    query = parse_whole_query(text)
    for what, span in _find_unsupported(query):
        raise ExpressionError(f"{what} is not supported", span, WAY_OUT)
    select = query.body
    assert isinstance(select, Select), "the others are not supported"
    table = select.table
    assert isinstance(table, TableName), "the others are not supported"
    return SelectQuery(
        select.items,
        None if table.name == ROW_TABLE else Name(table.span, table.name),
        table.alias,
        select.where,
        select.group_by.items if select.group_by else (),
        select.having,
        query.order_by,
        query.limit,
        query.offset,
        select.is_distinct,
    )


def _find_unsupported(query: Query) -> Iterator[tuple[str, Span]]:
    """Yield the parts of a query that need more than one table, with their names."""
    if query.named:
        yield "with", query.span
    match query.body:
        case Query():
            yield "a query inside a query", query.body.span
        case Values():
            yield "values", query.body.span
        case SetOperation():
            yield "a union of queries", query.body.keyword
        case Select() as select:
            yield from _find_in_select(select)
            for node in (*list_expressions(select), *(i.expression for i in query.order_by)):
                yield from _find_in_expression(node)


def _find_in_select(select: Select) -> Iterator[tuple[str, Span]]:
    match select.table:
        case JoinedTable(keyword=keyword):
            yield "a join", keyword
        case DerivedTable(span=span):
            yield "a query inside a query", span
        case MatchTable(places=places):
            yield "match_recognize", places["match_recognize"]
        case TableName(as_of=SyntaxNode(span=span)):
            yield "for system_time", span
        case TableName(columns=(Name(span=span), *_)):
            yield "a list of columns", span
    for view in select.views:
        yield "lateral view", view.span
    for word in ("qualify", "window"):
        if word in select.places:
            yield word, select.places[word]
    if select.group_by is not None and select.group_by.sets:
        yield "group by with several sets", select.group_by.span


def _find_in_expression(node: SyntaxNode) -> Iterator[tuple[str, Span]]:
    for each in walk_query_nodes(node):
        if isinstance(each, Subquery):
            yield "a query inside a query", each.span
        if isinstance(each, WindowCall):
            yield "a window function", each.span
