"""A `select` with functions over windows of rows, in the form in which they are computed.

Named windows are written out, and functions over groups are in a query around the groups:

    select city, rank() over (order by count(*)) as r from orders group by city

    select city, rank() over (order by `count(*)`) as r
    from (select city, count(*) from orders group by city)

So are functions by event time beside aggregates of partitions, whose results change:

    select amount - lag(amount) over (order by at) as more, sum(amount) over () as total from orders

    select amount - `lag(amount) over (order by at)` as more, sum(amount) over () as total
    from (select amount, lag(amount) over (order by at) from orders)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from headrace.core.aggregates.over_calls import RANK_FUNCTIONS
from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.parsing.syntax_tree import (
    Member,
    Name,
    Star,
    SyntaxNode,
    find_free_names,
    replace_nodes,
)
from headrace.core.plan.sql.grouped_queries import GROUPS, list_keys, write_out_positions
from headrace.core.plan.sql.groups import is_grouped
from headrace.core.plan.sql.items import is_aggregate
from headrace.core.plan.sql.partitions import is_of_partition
from headrace.core.plan.sql.texts import QueryTexts, comparable_text
from headrace.core.sql.syntax_tree import (
    DerivedTable,
    Query,
    Select,
    SelectItem,
    WindowCall,
    WindowSpec,
    change_window,
    find_subqueries,
    find_window_calls,
)
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True)
class NamedWindows:
    """The windows of the clause `window` of a `select`."""

    windows: Mapping[str, WindowSpec]
    texts: QueryTexts
    _used: set[str] = field(default_factory=set)

    def write_out(self, select: Select) -> Select:
        """Return the `select` without names of windows. Raises RejectedQuery for unknown ones."""
        items = tuple(
            replace(item, expression=self.write_out_node(item.expression)) for item in select.items
        )
        qualify = select.qualify and self.write_out_node(select.qualify)
        return replace(select, items=items, qualify=qualify)

    def write_out_node(self, node: SyntaxNode) -> SyntaxNode:
        """Return the expression without names of windows. Raises RejectedQuery for unknown ones."""

        def find(each: SyntaxNode, _: frozenset[str]) -> SyntaxNode | None:
            if not isinstance(each, WindowCall) or not isinstance(each.window, Name):
                return None
            name = each.window.name
            if name not in self.windows:
                hint = suggest_name(name, self.windows) or f"window {name} as (partition by ...)"
                raise self.texts.reject(f'unknown window "{name}"', each.window.span, hint)
            self._used.add(name)
            return replace(each, window=self.windows[name])

        return replace_nodes(node, find)

    def warn_if_unused(self) -> None:
        """Warn of windows that nothing reads."""
        for name, window in self.windows.items():
            if name not in self._used:
                place = self.texts.written.text.locate(window.span.start, window.span.end)
                self.texts.report.warn(f'nothing reads the window "{name}"', place)


def lift_windows(select: Select) -> Select:
    """Return a `select` of groups without functions over windows: they are around the groups."""
    windowed = _list_windowed(select)
    has_star = any(isinstance(item.expression, Star) for item in select.items)
    if has_star or not is_grouped(select) or not (windowed or select.qualify):
        return select
    items = [item for item in select.items if item.name not in windowed]
    names = {comparable_text(item.expression): item.name for item in items}
    keys = {comparable_text(key) for key in list_keys(select)}

    def find(node: SyntaxNode, bound: frozenset[str]) -> SyntaxNode | None:
        if isinstance(node, WindowCall):
            return change_window(node, lambda below: replace_nodes(below, find))
        text = comparable_text(node)
        if not (is_aggregate(node) or isinstance(node, Name | Member) or text in keys):
            return None
        is_result = isinstance(node, Name) and node.name in {*names.values(), *windowed}
        if isinstance(node, Name) and (node.name in bound or is_result):
            return node
        if text not in names:
            names[text] = text
            items.append(SelectItem(node, text, node.span))
        return Name(node.span, names[text])

    around = tuple(
        replace(
            item,
            expression=replace_nodes(item.expression, find)
            if item.name in windowed
            else Name(item.name_span, item.name),
        )
        for item in select.items
    )
    qualify = select.qualify and replace_nodes(select.qualify, find)
    inner = replace(
        select,
        items=tuple(items),
        group_by=write_out_positions(select),
        is_distinct=False,
        qualify=None,
        windows={},
    )
    table = DerivedTable(select.span, Query(select.span, inner), GROUPS, select.span)
    places = {key: select.places[key] for key in ("select", "qualify") if key in select.places}
    return Select(select.span, around, table, select.is_distinct, qualify=qualify, places=places)


ORDERED = "ordered"
"""The name of the query with the functions by event time."""


def lift_ordered_calls(select: Select, texts: QueryTexts) -> Select:
    """Return a `select` with its functions by event time in a query in `from`, if it has aggregates
    of partitions, too."""
    nodes = [*(item.expression for item in select.items), *filter(None, (select.qualify,))]
    calls = [call for node in nodes for call in find_window_calls(node)]
    ordered = [call for call in calls if not is_of_partition(call)]
    has_query = any(next(find_subqueries(node), None) for node in nodes)
    has_star = any(isinstance(node, Star) for node in nodes)
    if len(ordered) == len(calls) or has_query or has_star or is_grouped(select):
        return select
    if all(call.call.name in RANK_FUNCTIONS for call in ordered):
        return select  # the first rows of a key, which may change
    results = {item.name for item in select.items if has_window(item.expression)}
    columns = dict[str, SelectItem]()

    def find(node: SyntaxNode, bound: frozenset[str]) -> SyntaxNode | None:
        if isinstance(node, WindowCall) and is_of_partition(node):
            return change_window(node, lambda below: replace_nodes(below, find))
        if not isinstance(node, Name | Member | WindowCall):
            return None
        if isinstance(node, Name) and node.name in bound | results:
            return node
        is_call = isinstance(node, WindowCall)
        text = texts.cut(node.span) if is_call else comparable_text(node)
        columns.setdefault(text, SelectItem(node, text, node.span))
        return Name(node.span, text)

    around = tuple(
        replace(item, expression=replace_nodes(item.expression, find)) for item in select.items
    )
    qualify = select.qualify and replace_nodes(select.qualify, find)
    inner = replace(
        select, items=tuple(columns.values()), is_distinct=False, qualify=None, windows={}
    )
    table = DerivedTable(select.span, Query(select.span, inner), ORDERED, select.span)
    places = {key: select.places[key] for key in ("select", "qualify") if key in select.places}
    return Select(select.span, around, table, select.is_distinct, qualify=qualify, places=places)


def _list_windowed(select: Select) -> set[str]:
    """Return the columns with functions over windows, and those after them that read these."""
    windowed = set[str]()
    keys = {comparable_text(key) for key in list_keys(select)}
    for item in select.items:
        reads = {each.name for each in find_free_names(item.expression)} - keys
        if has_window(item.expression) or reads & windowed:
            windowed.add(item.name)
    return windowed


def has_window(node: SyntaxNode) -> bool:
    """Whether an expression calls a function over a window of rows."""
    return next(find_window_calls(node), None) is not None
