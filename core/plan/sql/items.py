"""The columns of a query's result: the items of `select`, with stars expanded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from headrace.core.aggregates.aggregate_resolver import type_aggregates
from headrace.core.aggregates.table import AGGREGATES
from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.functions import FUNCTIONS
from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Literal,
    Member,
    Name,
    Star,
    SyntaxNode,
    replace_nodes,
)
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.text import Text
from headrace.core.plan.sql.grouping_sets import GROUPING_FUNCTIONS
from headrace.core.plan.sql.scope import Scope
from headrace.core.plan.sql.texts import QueryTexts, RejectedQuery, Replace, build_all, refuse_call
from headrace.core.sql.syntax_tree import Select, WindowCall, walk_query_nodes
from headrace.core.types.data_types import INT, STRING, Schema, quote_name
from headrace.core.types.lazy_dataclass import dataclass

_RANDOM_FUNCTIONS = ("rand", "randn", "random", "randstr", "uniform", "shuffle", "uuid")
HIDDEN_PREFIX = "order by "
"""The prefix of the names of columns that a result is only ordered by."""


@dataclass(frozen=True, slots=True)
class Item:
    """A column of the result: an expression, or a column that a star means, as a name."""

    name: str
    place: Span
    node: SyntaxNode
    is_star: bool = False


def expand_items(select: Select, scope: Scope, texts: QueryTexts) -> list[Item]:
    """Return the columns of the result. Raises RejectedQuery."""
    items: list[Item] = []
    for each in select.items:
        if isinstance(each.expression, Star):
            items += _expand_star(each.name, each.expression, scope, texts)
            continue
        if len(each.aliases) > 1:
            message = "a generator goes into lateral view"
            hint = f"lateral view {texts.cut(each.expression.span)} t as (...), after from"
            raise texts.reject(message, each.expression.span, hint)
        _warn_of_quotes(each.expression, scope, texts)
        items.append(Item(each.name, each.name_span, each.expression))
    _check_names(items, texts)
    return items


def add_results(item: Item, items: Iterable[Item], scope: Scope) -> Scope:
    """Return the scope of an item: `order by` also knows the columns of the result."""
    if not item.name.startswith(HIDDEN_PREFIX):
        return scope
    return replace(scope, results=tuple(e.name for e in items if e.name != item.name))


def _warn_of_quotes(node: SyntaxNode, scope: Scope, texts: QueryTexts) -> None:
    """Warn of a text in double quotes that is the name of a column."""
    if not isinstance(node, Literal) or node.type != STRING:
        return
    written = texts.cut(node.span)
    if written.startswith('"') and any(each.name == node.value for each in scope.columns):
        place = texts.written.text.locate(node.span.start, node.span.end)
        message = f"{written} is a text, and not the column of that name"
        texts.report.warn(message, place, f"write {quote_name(str(node.value))}")


def _expand_star(name: str, star: Star, scope: Scope, texts: QueryTexts) -> Iterator[Item]:
    if name and name not in scope.tables:
        tables = [*dict.fromkeys(each.table for each in scope.star() if each.table)]
        listed = f"the tables are {', '.join(tables)}" if tables else "there is no from"
        hint = suggest_name(name, tables) or listed
        raise texts.reject(f'unknown table "{name}"', star.span, hint)
    if not name and not any(True for _ in scope.star()):
        hint = "from names the table, as in select * from orders"
        raise texts.reject(
            "* stands for the columns of tables, and there is no from", star.span, hint
        )
    for column in scope.star(name):
        node: SyntaxNode = Name(star.span, column.name)
        if column.table:
            node = Member(star.span, Name(star.span, column.table), column.name, star.span)
        yield Item(column.name, star.span, node, is_star=True)


def _check_names(items: Iterable[Item], texts: QueryTexts) -> None:
    seen = dict[str, Item]()
    failed = False
    for item in items:
        if item.name in seen:
            message = f'two columns of the result are named "{item.name}"'
            hint = "rename one: ... as name"
            if item.is_star:
                hint = f"write the columns by name, and rename one: ... as {item.name}_2"
            texts.add_error(message, item.place, hint)
            failed = True
        seen[item.name] = item
    if failed:
        raise RejectedQuery


@dataclass(slots=True)
class ItemResults:
    """The columns of a result that are written, for those after them."""

    scope: Scope
    texts: dict[str, str] = field(default_factory=dict)
    _random: set[str] = field(default_factory=set)

    def add(self, item: Item, text: Text) -> None:
        """Add a column."""
        self.texts[item.name] = str(text)
        if _is_random(item.node):
            self._random.add(item.name)

    def find(self, node: SyntaxNode, bound: frozenset[str]) -> str | None:
        """Return the text of the column that a name means, if any.

        Raises ExpressionError for one that would have another value.
        """
        text = find_result(node, bound, self.scope, self.texts)
        if text is not None and isinstance(node, Name) and node.name in self._random:
            message = f'"{node.name}" is random, and would have another value here'
            hint = f"put this query into from (...), and read {node.name} around it"
            raise ExpressionError(message, node.span, hint)
        return text


def write_items(
    items: Sequence[Item],
    scope: Scope,
    texts: QueryTexts,
    known: Mapping[str, str] | None = None,
) -> list[tuple[str, Text, Span]]:
    """Return the name, the text and the place of each item, which may read those before it.

    `known` has the texts of columns that are computed before. Raises RejectedQuery.
    """
    results = ItemResults(scope, dict(known or {}))

    def find(node: SyntaxNode, bound: frozenset[str]) -> str | None:
        refuse_unknown_function(node, bound, scope)
        return results.find(node, bound)

    def write(item: Item) -> tuple[str, Text, Span]:
        text = texts.write(item.node, add_results(item, items, scope), find)
        results.add(item, text)
        return item.name, text, item.place

    return build_all(items, write)


def write_select(
    items: Iterable[tuple[str, Text, Span]], texts: QueryTexts, *, is_join: bool = False
) -> tuple[Assignment, ...]:
    """Return the clause `select` of columns, each with its name, its text and its place.

    If all are columns under their own names, they are a list.
    """
    made = [*items]
    is_list = not is_join and all(quote_name(name) == text for name, text, _ in made)
    return tuple(
        Assignment(texts.name(name, place), None if is_list else text) for name, text, place in made
    )


def write_qualify(
    conditions: Iterable[SyntaxNode],
    columns: Iterable[tuple[str, Text, Span]],
    scope: Scope,
    texts: QueryTexts,
    find: Replace | None = None,
) -> Text:
    """Return conditions over the columns of rows, and of the result where these have none.

    `find` replaces functions over windows of rows.
    """
    results = {name: str(text) for name, text, _ in columns}

    def find_either(each: SyntaxNode, bound: frozenset[str]) -> str | None:
        text = find_result(each, bound, scope, results)
        return find(each, bound) if text is None and find else text

    return texts.join_conditions([texts.condition(each, scope, find_either) for each in conditions])


def find_result(
    node: SyntaxNode, bound: frozenset[str], scope: Scope, results: Mapping[str, str]
) -> str | None:
    """Return the text of a column of the result that a name means, if no column of the rows has
    it."""
    if not isinstance(node, Name) or node.name not in results or node.name in bound:
        return None
    if scope.has(node):
        return None
    text = results[node.name]
    is_column = text == quote_name(text.strip("`"))
    return text if is_column else f"({text})"


def _is_random(node: SyntaxNode) -> bool:
    """Whether an expression has another value each time that it is computed."""
    return any(
        isinstance(each, CallNode) and each.name in _RANDOM_FUNCTIONS
        for each in walk_query_nodes(node)
    )


def resolve_position(node: SyntaxNode, items: list[Item], texts: QueryTexts) -> Item | None:
    """Return the item that a number means in `group by` or `order by`; None for other nodes."""
    if not isinstance(node, Literal) or node.type != INT:
        return None
    assert isinstance(node.value, int), "it is a literal of a number"
    if not 1 <= node.value <= len(items):
        message = f"there is no column {node.value} of the result"
        raise texts.reject(message, node.span, f"the positions are 1 to {len(items)}")
    return items[node.value - 1]


def is_aggregate(node: SyntaxNode) -> bool:
    """Whether a node is the call of an aggregate."""
    return isinstance(node, CallNode) and node.name in AGGREGATES


def has_aggregate(node: SyntaxNode) -> bool:
    """Whether an expression has an aggregate that is not over a window of rows."""
    return next(_find_aggregates(node), None) is not None


def _find_aggregates(node: SyntaxNode) -> Iterator[CallNode]:
    """Yield the aggregates that are not over a window of rows."""
    windowed = {id(e.call) for e in walk_query_nodes(node) if isinstance(e, WindowCall)}
    for each in walk_query_nodes(node):
        if isinstance(each, CallNode) and is_aggregate(each) and id(each) not in windowed:
            yield each


def refuse_unknown_function(node: SyntaxNode, bound: frozenset[str], scope: Scope) -> None:
    """Refuse the call of a function that is neither a scalar function nor an aggregate: either may
    have been meant where both may stand. `bound` are the parameters of the lambda functions around.

    Raises ExpressionError or ExpressionErrors.
    """
    if not isinstance(node, CallNode) or node.name in FUNCTIONS or is_aggregate(node):
        return
    refuse_call(node)
    fields = {f"{c.table}.{c.name}": c.field for c in scope.columns}

    def find(each: SyntaxNode, bound: frozenset[str]) -> SyntaxNode | None:
        column = scope.find(each, bound)
        return Name(each.span, f"{column.table}.{column.name}") if column is not None else None

    schema = Schema(tuple(replace(field, name=name) for name, field in fields.items()))
    type_aggregates(replace_nodes(node, find, bound), schema, schema)


def refuse_aggregates(clause: str, node: SyntaxNode, texts: QueryTexts) -> bool:
    """Report the aggregates, and the functions over groups or windows of rows, in a clause that is
    applied to rows; whether there is one."""
    found = False
    for each in walk_query_nodes(node):
        if isinstance(each, WindowCall):
            name = f"{each.call.name} over (...)"
            message = f"{clause} is applied before functions over rows are, and {name} is one"
            hint = "a condition on functions over (...) goes after qualify"
            texts.add_error(message, each.span, hint if clause == "where" else "")
            found = True
        elif isinstance(each, CallNode) and each.name in GROUPING_FUNCTIONS:
            message = (
                f"{clause} is applied before rows are grouped, and {each.name} is about groups"
            )
            hint = "a condition on groups goes after having" if clause == "where" else ""
            texts.add_error(message, each.span, hint)
            found = True
    for each in _find_aggregates(node):
        message = f"{clause} is applied before rows are grouped, and {each.name} is an aggregate"
        hint = {"where": "a condition on groups goes after having"}.get(clause, "")
        if clause == "values":
            message = f"values has no rows that {each.name} could aggregate"
            hint = f"select {each.name}(...) from (values ...) aggregates them"
        texts.add_error(message, each.span, hint)
        found = True
    return found


def are_named(columns: Iterable[tuple[str, Text, Span]], names: list[str]) -> bool:
    """Whether the columns of a result are those of these names, unchanged and in this order."""
    written = [(name, str(text)) for name, text, _ in columns]
    return written == [(name, quote_name(name)) for name in names]
