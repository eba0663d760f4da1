"""The syntax tree of a query, before any name or type is known. Every node has its span.

Queries inside expressions are nodes of expressions: `x in (select ...)` is a call of `in` with a
Subquery as its second argument, and `exists (select ...)` a call of `exists`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import Literal, TypeAlias

from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Name,
    SortItem,
    SyntaxNode,
    walk,
)
from headrace.core.expressions.typed import Span
from headrace.core.sql.grouping_sets import GroupingSets
from headrace.core.sql.row_table import ROW_TABLE
from headrace.core.types.lazy_dataclass import dataclass

JoinKind: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti", "cross"]
Operator: TypeAlias = Literal["union", "intersect", "except"]


@dataclass(frozen=True, slots=True)
class SelectItem:
    """A column of the result; `expression` is a Star for all columns of a table."""

    expression: SyntaxNode
    name: str
    """The alias, or else the text as written; of a Star the table before it, or nothing."""
    name_span: Span
    aliases: tuple[Name, ...] = ()
    """The names after `as`: one, or those of the columns of a generator."""


@dataclass(frozen=True, slots=True)
class TableName:
    """A table by its name; `alias` is the name that may stand before its columns."""

    span: Span
    name: str
    alias: str
    alias_span: Span
    columns: tuple[Name, ...] = ()
    as_of: SyntaxNode | None = None
    """The time of `for system_time as of`."""


@dataclass(frozen=True, slots=True)
class DerivedTable:
    """A query in parentheses, as a table."""

    span: Span
    query: Query
    alias: str
    alias_span: Span
    columns: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class AfterMatchSkip:
    """The place of the next match: `past_last`, `next`, or `first` or `last` of a variable."""

    rule: str
    span: Span
    variable: Name | None = None


@dataclass(frozen=True, slots=True)
class MatchTable:
    """The matches of a pattern in the rows of a table: `match_recognize (...)`."""

    span: Span
    table: TableName | DerivedTable
    partition_by: tuple[SyntaxNode, ...]
    order_by: tuple[SortItem, ...]
    measures: tuple[SelectItem, ...]
    all_rows: bool
    after_match: AfterMatchSkip | None
    pattern: Span
    """The place of the pattern, inside of its parentheses."""
    within: SyntaxNode | None
    define: tuple[SelectItem, ...]
    """The conditions of variables, whose names are the variables."""
    places: Mapping[str, Span]
    """The words of the clauses."""
    alias: str = ""
    alias_span: Span = Span(0, 0)
    columns: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """Two tables with `join`, or with a comma between them."""

    span: Span
    keyword: Span
    left: TableItem
    right: TableItem
    kind: JoinKind
    on: SyntaxNode | None = None
    using: tuple[Name, ...] = ()
    is_natural: bool = False
    is_comma: bool = False


TableItem: TypeAlias = TableName | DerivedTable | MatchTable | JoinedTable


@dataclass(frozen=True, slots=True)
class LateralView:
    """`lateral view explode(items) t as item`."""

    span: Span
    generator: CallNode
    table: str
    columns: tuple[Name, ...]
    is_outer: bool


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """A window of rows, after `over`: its groups, their order, and the frame as it is written."""

    span: Span
    partition_by: tuple[SyntaxNode, ...] = ()
    order_by: tuple[SortItem, ...] = ()
    frame: Span | None = None


@dataclass(frozen=True, slots=True)
class WindowCall(SyntaxNode):
    """A function over a window of rows; `window` is the name of one in the clause `window`."""

    call: CallNode
    window: WindowSpec | Name


@dataclass(frozen=True, slots=True)
class Subquery(SyntaxNode):
    """A query inside an expression; `text` is how it is written."""

    query: Query
    text: str


@dataclass(frozen=True, slots=True)
class GroupBy:
    """The clause `group by`; `sets` are those of rollup, cube and grouping sets, if it has them."""

    span: Span
    items: tuple[SyntaxNode, ...]
    """The expressions, as they are written."""
    sets: GroupingSets = ()


@dataclass(frozen=True, slots=True)
class Select:
    """A `select` with its clauses. `places` has the word of each clause."""

    span: Span
    items: tuple[SelectItem, ...]
    table: TableItem
    is_distinct: bool = False
    views: tuple[LateralView, ...] = ()
    where: SyntaxNode | None = None
    group_by: GroupBy | None = None
    having: SyntaxNode | None = None
    qualify: SyntaxNode | None = None
    windows: Mapping[str, WindowSpec] = field(default_factory=dict)
    places: Mapping[str, Span] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Values:
    """Rows that are written in the query."""

    span: Span
    rows: tuple[tuple[SyntaxNode, ...], ...]

    @property
    def table(self) -> TableName:
        """The table of one row, of which the rows are made."""
        return make_row_table(self.span)


@dataclass(frozen=True, slots=True)
class SetOperation:
    """A union, an intersection or a difference of two queries."""

    span: Span
    keyword: Span
    operator: Operator
    is_all: bool
    left: QueryBody
    right: QueryBody


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query of the clause `with`."""

    name: Name
    query: Query
    columns: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query. `places` has the words `order`, `limit` and `offset`."""

    span: Span
    body: QueryBody
    named: tuple[NamedQuery, ...] = ()
    order_by: tuple[SortItem, ...] = ()
    limit: int | None = None
    offset: int = 0
    places: Mapping[str, Span] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether it is its body alone."""
        return not (self.named or self.order_by or self.offset) and self.limit is None


QueryBody: TypeAlias = Select | SetOperation | Values | Query


def make_row_table(span: Span) -> TableName:
    """Return the table of one row, at the place of what is computed from it."""
    return TableName(span, ROW_TABLE, "", span)


def list_table_names(query: Query) -> tuple[TableName, ...]:
    """Return the tables that a query reads, also inside its expressions; no named queries."""
    return tuple(_tables_of_query(query, frozenset()))


def _tables_of_query(query: Query, named: frozenset[str]) -> Iterator[TableName]:
    for each in query.named:
        yield from _tables_of_query(each.query, named)
        named = named | {each.name.name}
    yield from _tables_of_body(query.body, named)
    for item in query.order_by:
        yield from _tables_of_node(item.expression, named)


def _tables_of_body(body: QueryBody, named: frozenset[str]) -> Iterator[TableName]:
    match body:
        case Query():
            yield from _tables_of_query(body, named)
        case SetOperation():
            yield from _tables_of_body(body.left, named)
            yield from _tables_of_body(body.right, named)
        case Select():
            yield from _tables_of_item(body.table, named)
            for node in list_expressions(body):
                yield from _tables_of_node(node, named)
        case Values():
            yield body.table


def _tables_of_item(item: TableItem, named: frozenset[str]) -> Iterator[TableName]:
    match item:
        case TableName():
            if item.name not in named:
                yield item
        case DerivedTable():
            yield from _tables_of_query(item.query, named)
        case MatchTable():
            yield from _tables_of_item(item.table, named)
        case JoinedTable():
            yield from _tables_of_item(item.left, named)
            yield from _tables_of_item(item.right, named)
            if item.on is not None:
                yield from _tables_of_node(item.on, named)


def _tables_of_node(node: SyntaxNode, named: frozenset[str]) -> Iterator[TableName]:
    for each in find_subqueries(node):
        yield from _tables_of_query(each.query, named)


def find_subqueries(node: SyntaxNode) -> Iterator[Subquery]:
    """Yield the queries inside an expression."""
    return (each for each in walk_query_nodes(node) if isinstance(each, Subquery))


def walk_query_nodes(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """Yield the node and all nodes below it, those of a function over a window included."""
    for each in walk(node):
        yield each
        if isinstance(each, WindowCall):
            yield from walk(each.call)
            if isinstance(each.window, WindowSpec):
                order = (item.expression for item in each.window.order_by)
                for below in (*each.window.partition_by, *order):
                    yield from walk(below)


def find_window_calls(node: SyntaxNode) -> Iterator[WindowCall]:
    """Yield the functions over windows of rows in an expression."""
    return (each for each in walk(node) if isinstance(each, WindowCall))


def change_window(node: WindowCall, change: Callable[[SyntaxNode], SyntaxNode]) -> WindowCall:
    """Return a function over a window of rows with each expression below it changed."""
    call, window = node.call, node.window
    arguments = tuple(map(change, call.arguments))
    call = replace(call, arguments=arguments, filter=call.filter and change(call.filter))
    if isinstance(window, WindowSpec):
        order_by = (replace(each, expression=change(each.expression)) for each in window.order_by)
        partition_by = tuple(map(change, window.partition_by))
        window = replace(window, partition_by=partition_by, order_by=tuple(order_by))
    return replace(node, call=call, window=window)


def list_expressions(select: Select) -> Iterator[SyntaxNode]:
    """Yield the expressions of the clauses of a `select`."""
    yield from (item.expression for item in select.items)
    yield from (view.generator for view in select.views)
    yield from (node for node in (select.where, select.having, select.qualify) if node is not None)
    yield from select.group_by.items if select.group_by else ()


def list_table_aliases(item: TableItem) -> list[str]:
    """Return the names that may stand before columns of these tables."""
    if isinstance(item, JoinedTable):
        return [*list_table_aliases(item.left), *list_table_aliases(item.right)]
    return [item.alias] if item.alias else []
