"""A `select` of groups with queries as values, in the form in which they are computed.

Queries beside aggregates, in columns and in `having`, are in a query around the groups:

    select city, sum(amount) - (select min(paid) from payments) as more from orders group by city

    select city, `sum(amount)` - (select min(paid) from payments) as more
    from (select city, sum(amount) from orders group by city)

Those inside of aggregates and of `group by` are values of the rows that are grouped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Literal,
    Member,
    Name,
    Star,
    SyntaxNode,
    replace_nodes,
    walk,
)
from headrace.core.plan.sql.conditions import has_query
from headrace.core.plan.sql.grouping_sets import GROUPING_FUNCTIONS
from headrace.core.plan.sql.groups import is_grouped
from headrace.core.plan.sql.items import has_aggregate, is_aggregate
from headrace.core.plan.sql.texts import comparable_text
from headrace.core.sql.syntax_tree import (
    DerivedTable,
    GroupBy,
    Query,
    Select,
    SelectItem,
    Subquery,
    list_table_aliases,
)
from headrace.core.types.data_types import INT

GROUPS = "groups"


def lift_queries(select: Select) -> Select:
    """Return a `select` of groups without queries beside aggregates: they are around the groups."""
    has_star = any(isinstance(item.expression, Star) for item in select.items)
    if has_star or not is_grouped(select):
        return select
    lifted = {item.name for item in select.items if _is_around_groups(item, select)}
    having = select.having if select.having is not None and has_query(select.having) else None
    if not lifted and having is None:
        return select
    items = [item for item in select.items if item.name not in lifted]
    names = {_plain_text(item.expression, select): item.name for item in items}
    keys = {_plain_text(key, select) for key in list_keys(select)}

    def find(node: SyntaxNode, bound: frozenset[str]) -> SyntaxNode | None:
        if isinstance(node, Subquery):
            return _replace_outer_columns(node, select, lambda each: find(each, frozenset()))
        text = _plain_text(node, select)
        if not (_is_of_groups(node) or isinstance(node, Name | Member) or text in keys):
            return None
        if isinstance(node, Name) and (node.name in bound or node.name in names.values()):
            return node
        if text not in names:
            names[text] = comparable_text(node)
            items.append(SelectItem(node, names[text], node.span))
        return Name(node.span, names[text])

    around = tuple(
        replace(
            item,
            expression=replace_nodes(item.expression, find)
            if item.name in lifted
            else Name(item.name_span, item.name),
        )
        for item in select.items
    )
    where = None if having is None else replace_nodes(having, find)
    inner = replace(
        select,
        items=tuple(items),
        group_by=write_out_positions(select),
        having=select.having if having is None else None,
        is_distinct=False,
    )
    table = DerivedTable(select.span, Query(select.span, inner), GROUPS, select.span)
    places = {key: select.places[key] for key in ("select", "having") if key in select.places}
    return Select(select.span, around, table, select.is_distinct, where=where, places=places)


def _plain_text(node: SyntaxNode, select: Select) -> str:
    """Return the comparable text of an expression, in which columns of the only table are without
    its name."""
    tables = list_table_aliases(select.table)

    def find(each: SyntaxNode, _: frozenset[str]) -> SyntaxNode | None:
        match each:
            case Member(base=Name(name=table), name=name) if tables == [table]:
                return Name(each.span, name)
        return None

    return comparable_text(replace_nodes(node, find))


def add_aggregates(select: Select, nodes: Iterable[SyntaxNode]) -> tuple[SelectItem, ...]:
    """Return the columns that a `select` with queries around its groups needs in addition, as
    these nodes read aggregates which are not among its columns."""
    if lift_queries(select) is select:
        return ()
    known = {comparable_text(item.expression) for item in select.items}
    calls = (each for node in nodes for each in walk(node) if is_aggregate(each))
    added = {comparable_text(call): call for call in calls}
    return tuple(
        SelectItem(call, f"order by {text}", call.span)
        for text, call in added.items()
        if text not in known
    )


def write_out_positions(select: Select) -> GroupBy | None:
    """Return the clause `group by` with the columns of the result that its positions mean."""
    group = select.group_by
    if group is None:
        return None

    def find(node: SyntaxNode) -> SyntaxNode:
        value = node.value if isinstance(node, Literal) and node.type == INT else None
        if isinstance(value, int) and 1 <= value <= len(select.items):
            return select.items[value - 1].expression
        return node

    sets = tuple(tuple(map(find, each)) for each in group.sets)
    return replace(group, items=tuple(map(find, group.items)), sets=sets)


def list_keys(select: Select) -> Iterator[SyntaxNode]:
    """Yield the expressions of `group by`: also those of the columns of the result that it names by
    their positions, by their aliases or as `all`."""
    group = write_out_positions(select)
    for key in group.items if group is not None else ():
        yield key
        if isinstance(key, Name):
            for item in select.items:
                is_key = key.name.lower() == "all" and not has_aggregate(item.expression)
                if is_key or key.name == item.name:
                    yield item.expression


def list_row_values(select: Select) -> Iterator[SyntaxNode]:
    """Yield the expressions of a `select` of groups whose queries are values of its rows, each
    once."""
    keys = select.group_by.items if select.group_by else ()
    nodes = (*keys, *(item.expression for item in select.items))
    yield from {comparable_text(node): node for node in reversed(nodes) if has_query(node)}.values()


def _is_around_groups(item: SelectItem, select: Select) -> bool:
    """Whether a column has a query that is neither inside of an aggregate nor of a key."""
    if not has_query(_without_aggregates(item.expression)):
        return False
    group = write_out_positions(select)
    for key in group.items if group is not None else ():
        is_named = isinstance(key, Name) and key.name == item.name
        if is_named or comparable_text(key) == comparable_text(item.expression):
            return False
        if isinstance(key, Name) and key.name.lower() == "all":
            return has_aggregate(item.expression)
    return True


def _without_aggregates(node: SyntaxNode) -> SyntaxNode:
    def find(each: SyntaxNode, _: frozenset[str]) -> SyntaxNode | None:
        return Star(each.span) if is_aggregate(each) else None

    return replace_nodes(node, find)


def _replace_outer_columns(
    subquery: Subquery, select: Select, find: Callable[[SyntaxNode], SyntaxNode | None]
) -> Subquery:
    """Return a query in which the columns of the `select` around it are those of its groups, as
    `find` names them."""
    inner = subquery.query.body
    if not isinstance(inner, Select) or inner.where is None:
        return subquery
    own = list_table_aliases(inner.table)
    outer = {*list_table_aliases(select.table)}.difference(own)

    def visit(node: SyntaxNode, _: frozenset[str]) -> SyntaxNode | None:
        members = (each.base for each in walk(node) if isinstance(each, Member))
        tables = {base.name for base in members if isinstance(base, Name)}
        found = find(node) if tables and tables <= outer else None
        if not isinstance(found, Name):
            return None
        return Member(node.span, Name(node.span, GROUPS), found.name, node.span)

    query = replace(subquery.query, body=replace(inner, where=replace_nodes(inner.where, visit)))
    return replace(subquery, query=query)


def _is_of_groups(node: SyntaxNode) -> bool:
    """Whether only the groups have the value of a call."""
    is_set_call = isinstance(node, CallNode) and node.name in GROUPING_FUNCTIONS
    return is_set_call or is_aggregate(node)
