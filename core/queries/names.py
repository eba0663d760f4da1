"""Names in queries: stars, aliases, positions and the name of the table are replaced.

In `having` and `order by` a name is first that of a column of the result; in `group by` first that
of a column of the table. A number in `group by` or `order by` is the position of an item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from headrace.core.aggregates.table import AGGREGATES
from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Literal,
    Member,
    Name,
    Star,
    SyntaxNode,
    replace_nodes,
)
from headrace.core.expressions.typed import ExpressionError
from headrace.core.queries.parser import SelectQuery
from headrace.core.sql.syntax_tree import SelectItem
from headrace.core.types.data_types import INT, Schema


def resolve_names(query: SelectQuery, schema: Schema) -> SelectQuery:
    """Return the query with expressions over columns of the table only. Raises ExpressionError."""
    items = tuple(item for each in query.items for item in _expand_item(each, query, schema))
    if not items:
        raise ExpressionError("the table has no columns", query.items[0].expression.span)
    _check_names(items)

    def strip(node: SyntaxNode) -> SyntaxNode:
        return _strip_table(node, query.alias, schema)

    items = tuple(replace(item, expression=strip(item.expression)) for item in items)
    aliases = {item.name: item.expression for item in items}
    own = {name: node for name, node in aliases.items() if name not in schema}
    group_by = (_find_item(strip(node), items, own) for node in query.group_by)
    order_by = (
        replace(item, expression=_find_item(strip(item.expression), items, aliases))
        for item in query.order_by
    )
    return replace(
        query,
        items=items,
        where=query.where and strip(query.where),
        group_by=tuple(group_by),
        having=query.having and _replace_aliases(strip(query.having), aliases),
        order_by=tuple(order_by),
    )


def _expand_item(item: SelectItem, query: SelectQuery, schema: Schema) -> Iterator[SelectItem]:
    """Yield the columns of a star, or else the item."""
    star = item.expression
    if not isinstance(star, Star):
        yield item
        return
    if query.table is None:
        raise ExpressionError("* wants a table", star.span, "select * from ...")
    if item.name not in ("", query.alias):
        message = f'unknown table "{item.name}"'
        raise ExpressionError(message, star.span, suggest_name(item.name, [query.alias]))
    for name in schema.names:
        yield SelectItem(Name(star.span, name), name, star.span)


def _check_names(items: tuple[SelectItem, ...]) -> None:
    seen = set[str]()
    for item in items:
        if item.name in seen:
            message = f'two columns of the result are named "{item.name}"'
            raise ExpressionError(message, item.expression.span, "rename one: ... as name")
        seen.add(item.name)


def _strip_table(node: SyntaxNode, table: str, schema: Schema) -> SyntaxNode:
    """Return the expression with the name of the table removed from before its columns.

    As in Spark, a column of the table goes before a field of a column with the table's name.
    """

    def find(node: SyntaxNode, bound: frozenset[str]) -> SyntaxNode | None:
        match node:
            case Member(base=Name(name=base), name=name) if base == table and base not in bound:
                return Name(node.span, name) if name in schema or base not in schema else None
        return None

    return replace_nodes(node, find)


def _find_item(
    node: SyntaxNode, items: tuple[SelectItem, ...], aliases: Mapping[str, SyntaxNode]
) -> SyntaxNode:
    """Return the expression of `group by` or `order by` that a position or a text means."""
    if not isinstance(node, Literal) or node.type != INT:
        return _replace_aliases(node, aliases)
    assert isinstance(node.value, int), "it is a literal of a number"
    if not 1 <= node.value <= len(items):
        message = f"there is no column {node.value} of the result"
        raise ExpressionError(message, node.span, f"the positions are 1 to {len(items)}")
    return items[node.value - 1].expression


def _replace_aliases(node: SyntaxNode, aliases: Mapping[str, SyntaxNode]) -> SyntaxNode:
    """Return the expression with names of columns of the result replaced, but not in aggregates."""

    def find(node: SyntaxNode, bound: frozenset[str]) -> SyntaxNode | None:
        match node:
            case CallNode(name=name) if name in AGGREGATES:
                return node
            case Name(name=name) if name in aliases and name not in bound:
                return aliases[name]
        return None

    return replace_nodes(node, find)
