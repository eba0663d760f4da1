"""A condition with a query in `having`, as the `where` of a query around the groups."""

from __future__ import annotations

from dataclasses import replace

from headrace.core.aggregates.canonical_text import canonical_text
from headrace.core.expressions.parsing.syntax_tree import (
    Member,
    Name,
    Star,
    SyntaxNode,
    replace_nodes,
)
from headrace.core.plan.sql.conditions import has_query
from headrace.core.plan.sql.items import is_aggregate
from headrace.core.sql.syntax_tree import DerivedTable, Query, Select, SelectItem, Subquery

GROUPS = "groups"


def lift_having(select: Select) -> Select:
    """Return a `select` without queries in `having`: they are in the `where` around the groups."""
    stars = any(isinstance(item.expression, Star) for item in select.items)
    if select.having is None or not has_query(select.having) or stars:
        return select
    items = [*select.items]
    names = {canonical_text(item.expression): item.name for item in items}

    def find(node: SyntaxNode, bound: frozenset[str]) -> SyntaxNode | None:
        if isinstance(node, Subquery):
            return node
        if not is_aggregate(node) and not isinstance(node, Name | Member):
            return None
        if isinstance(node, Name) and (node.name in bound or node.name in names.values()):
            return node
        text = canonical_text(node)
        if text not in names:
            names[text] = text
            items.append(SelectItem(node, text, node.span))
        return Name(node.span, names[text])

    where = replace_nodes(select.having, find)
    inner = replace(select, items=tuple(items), having=None, is_distinct=False)
    around = tuple(
        replace(item, expression=Name(item.name_span, item.name)) for item in select.items
    )
    table = DerivedTable(select.span, Query(select.span, inner), GROUPS, select.span)
    places = {key: select.places[key] for key in ("select", "having") if key in select.places}
    return Select(select.span, around, select.is_distinct, table, where=where, places=places)
