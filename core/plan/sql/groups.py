"""A grouped `select` as a key, a window, aggregates and `having` of a step.

Each item of `select` is a column of the key, an end of the window, an aggregate, or an expression
over these; the last ones are computed by the clause `select` of the step.
"""

from __future__ import annotations

from dataclasses import field, replace

from headrace.core.aggregates.canonical_text import canonical_text
from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Member,
    Name,
    SyntaxNode,
    child_nodes,
    find_free_names,
)
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.pipeline.clauses.keyed import Ttl
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.text import Text, TextPart
from headrace.core.plan.nodes import Append
from headrace.core.plan.sql.grouping_sets import (
    GROUPING_FUNCTIONS,
    NO_SETS_HINT,
    SET_NUMBER,
    NumberedSets,
)
from headrace.core.plan.sql.items import (
    Item,
    add_results,
    find_result,
    has_aggregate,
    is_aggregate,
    refuse_aggregates,
    refuse_unknown_function,
    resolve_position,
)
from headrace.core.plan.sql.scope import Scope
from headrace.core.plan.sql.steps import Draft
from headrace.core.plan.sql.texts import QueryTexts, RejectedQuery, Replace
from headrace.core.plan.sql.windows import (
    WINDOW_END,
    WINDOW_START,
    GroupWindow,
    find_end_window,
    is_window,
    read_window,
)
from headrace.core.sql.syntax_tree import Select, Subquery
from headrace.core.types.data_types import quote_name
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class _Key:
    """An expression of `group by`, and the column that it becomes."""

    node: SyntaxNode
    name: str
    text: Text


@dataclass(slots=True)
class GroupBuilder:
    """Writes the clauses of a grouped `select` over the rows of a draft that has one input."""

    texts: QueryTexts
    select: Select
    items: list[Item]
    draft: Draft
    timed: bool
    ttl: Ttl | None = None
    window: GroupWindow | None = None
    _sets: NumberedSets | None = None
    _keys: dict[str, _Key] = field(default_factory=dict)
    """The keys by the canonical texts of their expressions."""
    _calls: dict[str, str] = field(default_factory=dict)
    """The columns of aggregates by the canonical texts of their calls."""
    _aggregates: dict[str, Assignment] = field(default_factory=dict)
    _results: dict[str, str] = field(default_factory=dict)
    """The texts of the columns of the result, as far as they are built."""

    @property
    def scope(self) -> Scope:
        """The columns of the rows."""
        return self.draft.scope

    def build(self) -> list[tuple[str, Text, Span]]:
        """Add the clauses to the draft, and return the columns of the result. Raises
        RejectedQuery."""
        self._build_keys()
        columns, failed = list[tuple[str, Text, Span]](), False
        for item in self.items:
            try:
                columns.append((item.name, self._build_item(item), item.place))
                self._results[item.name] = str(columns[-1][1])
            except RejectedQuery:
                failed = True
        having = None
        try:
            if self.select.having is not None:
                having = self._write_having(self.select.having)
        except RejectedQuery:
            failed = True
        if failed:
            raise RejectedQuery
        clauses, places = self.draft.clauses, self.select.places
        if self._keys:
            is_list = all(each.text == quote_name(each.name) for each in self._keys.values())
            clauses["key"] = tuple(
                Assignment(self.texts.name(e.name, e.node.span), None if is_list else e.text)
                for e in self._keys.values()
            )
        if self.window is not None:
            clauses["window"] = self.window.clause
        if not self._aggregates:
            count = self.texts.name("count(*)", places["select"])
            self._aggregates["count(*)"] = Assignment(count, count)
        clauses["aggregate"] = tuple(self._aggregates.values())
        if not self._keys and self.window is None:
            clauses["emit_empty"] = True
        if self.ttl is not None and self.window is None:
            clauses["ttl"] = self.ttl
        if having is not None:
            clauses["having"] = having
        group = places.get("group", places["select"])
        self.draft.places.update(
            {"key": group, "window": group, "aggregate": places["select"], "top": group}
        )
        return columns

    @property
    def natural_columns(self) -> list[str]:
        """The columns of the step's result without a `select`."""
        bounds = (WINDOW_START, WINDOW_END) if self.window is not None else ()
        return [*self.key_names, *bounds, *self._aggregates]

    @property
    def key_names(self) -> list[str]:
        """The names of the columns of the key."""
        return [key.name for key in self._keys.values()]

    def number_sets(self) -> NumberedSets | None:
        """Number the sets of rollup, cube or grouping sets, if there are any. Each row is repeated
        for each of them before the keys are built. Raises RejectedQuery."""
        group = self.select.group_by
        if group is None or not group.sets:
            return None
        sets = [[self._resolve_grouping(each) for each in one] for one in group.sets]
        every = [self._resolve_grouping(each) for each in group.items]
        windows = {self._canonical(each): each for each in every if is_window(each)}
        keys = dict.fromkeys(self._canonical(each) for each in every if not is_window(each))
        texts = [frozenset(map(self._canonical, one)) for one in sets]
        for text, window in windows.items():
            if not all(text in each for each in texts):
                message = "a window is in all sets of group by, or in none"
                hint = f"group by {self.texts.cut(window.span)}, rollup(...)"
                raise self.texts.reject(message, window.span, hint)
        column = SET_NUMBER
        while column in self.draft.inputs[0].schema:
            column += "_"
        self._sets = NumberedSets.from_sets(column, [*keys], texts)
        return self._sets

    def _build_keys(self) -> None:
        group = self.select.group_by
        if group is None:
            return
        failed = False
        listed = group.items
        if self._is_all(listed):
            grouped = (each for each in self.items if not has_aggregate(each.node))
            listed = tuple(each.node for each in grouped)
        for written in listed:
            node = self._resolve_grouping(written)
            if not is_window(node) and refuse_aggregates("group by", node, self.texts):
                failed = True
                continue
            try:
                self._add_key(written, node)
            except RejectedQuery:
                failed = True
        if failed:
            raise RejectedQuery
        if self.window is None and isinstance(self.draft.inputs[0].kind, Append):
            plain = (e.node for text, e in self._keys.items() if not self._find_set_condition(text))
            found = (find_end_window(each, self.scope) for each in plain)
            self.window = next(filter(None, found), None)
        if self._sets is not None:
            column = self._sets.column
            text = self.texts.name(quote_name(column), group.span)
            self._keys[column] = _Key(Name(group.span, column), column, text)

    def _resolve_grouping(self, node: SyntaxNode) -> SyntaxNode:
        """Return the expression that an item of `group by` means by its position or alias."""
        item = resolve_position(node, self.items, self.texts) or self._find_alias(node)
        return node if item is None else item.node

    def _find_set_condition(self, key: str) -> str:
        """Return the condition that a set has a key; "" if all of them have it."""
        return "" if self._sets is None else self._sets.write_condition(key)

    def _is_all(self, items: tuple[SyntaxNode, ...]) -> bool:
        """Whether it is `group by all`."""
        match items:
            case (Name(name=name) as node,):
                return name.lower() == "all" and not self.scope.has(node)
        return False

    def _add_key(self, written: SyntaxNode, node: SyntaxNode) -> None:
        if is_window(node):
            if self.window is not None:
                if self._canonical(node) == self._canonical(self.window.call or node):
                    return
                message = "a group by has one window, got two"
                raise self.texts.reject(message, written.span, "put one into a query in from (...)")
            assert isinstance(node, CallNode), "it is a call"
            self.window = read_window(node, self.scope, self.texts, timed=self.timed)
            return
        text = self._canonical(node)
        if text in self._keys:
            return
        value = self.texts.write(node, self.scope)
        name = self._name_key(node, text, value)
        if condition := self._find_set_condition(text):
            start, end = node.span.start, node.span.end
            parts = [
                TextPart(start, start, f"case when {condition} then "),
                *self.texts.parts(node, self.scope),
                TextPart(end, end, " end"),
            ]
            value = self.texts.written.text.compose(parts)
        self._keys[text] = _Key(node, name, value)

    def _find_alias(self, node: SyntaxNode) -> Item | None:
        """Return the item that a name in `group by` means, if it is no column of the rows."""
        if not isinstance(node, Name) or self.scope.has(node):
            return None
        found = next((each for each in self.items if each.name == node.name), None)
        return None if found is None or found.node == node else found

    def _name_key(self, node: SyntaxNode, canonical: str, value: Text) -> str:
        """Return the name of the column of a key: that of its item, or what it is."""
        item = next((i for i in self.items if self._canonical(i.node) == canonical), None)
        if item is not None:
            name = item.name
        elif isinstance(node, Name | Member):
            name = node.name
        else:
            name = self.texts.cut(node.span)
        others = {i.name for i in self.items if i is not item}
        while name in self.key_names or name in others or name in (WINDOW_START, WINDOW_END):
            name += "_"
        return name

    def _canonical(self, node: SyntaxNode) -> str:
        return canonical_text(self.texts.resolve_tree(node, self.scope))

    def _build_item(self, item: Item) -> Text:
        """Return the text of an item over the columns of groups, and add its aggregates."""
        key = self._keys.get(self._canonical(item.node))
        if key is not None:
            return self.texts.name(quote_name(key.name), item.place)
        if (text := self._find_set_call(item.node)) is not None:
            return self.texts.name(text, item.place)
        if item.is_star:
            error = _no_key_error(item.name, item.place)
            raise self.texts.reject(error.message, error.span, error.hint)
        bound = self.window.find_bound(item.node) if self.window is not None else ""
        if bound and not self.scope.has(item.node):
            return self.texts.name(bound, item.place)
        scope = add_results(item, self.items, self.scope)
        if not has_aggregate(item.node):
            return self.texts.write(item.node, scope, self._make_finder(scope, calls=False))
        if self._reads_bounds(item.node) or self._reads_results(item.node):
            return self.texts.write(item.node, scope, self._make_finder(scope, calls=True))
        text = self.texts.write(item.node, scope, self._make_finder(scope, calls=False))
        name = item.name
        while name in self.key_names or name in (WINDOW_START, WINDOW_END):
            name += "_"
        while name in self._aggregates:
            name += "_"
        if is_aggregate(item.node):
            self._calls[self._canonical(item.node)] = name
        self._aggregates[name] = Assignment(self.texts.name(name, item.place), text)
        return self.texts.name(quote_name(name), item.place)

    def _find_set_call(self, node: SyntaxNode) -> str | None:
        """Return the text of a call that tells the set of a group. Raises RejectedQuery."""
        if not isinstance(node, CallNode) or node.name not in GROUPING_FUNCTIONS:
            return None
        try:
            if self._sets is None:
                message = f"there are no sets of groups for {node.name}"
                raise ExpressionError(message, node.span, NO_SETS_HINT)
            return self._sets.write_call(node, self._canonical)
        except ExpressionError as error:
            raise self.texts.reject(error.message, error.span, error.hint) from None

    def _reads_bounds(self, node: SyntaxNode) -> bool:
        if self.window is None:
            return False
        names = {each.name for each in find_free_names(node) if not self.scope.has(each)}
        return bool(names & {WINDOW_START, WINDOW_END, "window", "session_window"})

    def _reads_results(self, node: SyntaxNode) -> bool:
        """Whether an expression reads columns of the result before it, under their names."""
        names = {each.name for each in find_free_names(node) if not self.scope.has(each)}
        return not names.isdisjoint(self._results)

    def _write_having(self, node: SyntaxNode) -> Text:
        scope = replace(self.scope, results=tuple(item.name for item in self.items))
        find = self._make_finder(scope, calls=True)

        def find_aggregate(each: SyntaxNode, bound: frozenset[str]) -> str | None:
            if isinstance(each, Name) and each.name not in bound and each.name in self._aggregates:
                return quote_name(each.name)
            return find(each, bound)

        return self.texts.write(node, scope, find_aggregate)

    def _make_finder(self, scope: Scope, *, calls: bool) -> Replace:
        """Return the function that replaces keys and ends of windows, and with `calls` aggregates,
        by the columns that have them."""
        inside: list[Span] = []

        def find(node: SyntaxNode, bound: frozenset[str]) -> str | None:
            if any(span.start <= node.span.start and node.span.end <= span.end for span in inside):
                return None
            if (text := self._find_set_call(node)) is not None:
                return text
            if is_aggregate(node):
                if calls:
                    return quote_name(self._add_call(node))
                inside.append(node.span)
                return None
            free = not bound.intersection(each.name for each in find_free_names(node))
            key = self._keys.get(self._canonical(node)) if free else None
            if key is not None:
                return quote_name(key.name)
            if self.window is not None and not self.scope.has(node):
                end = self.window.find_bound(node)
                if end:
                    return end
            if isinstance(node, Subquery) or any(
                isinstance(e, Subquery) for e in child_nodes(node)
            ):
                message = "a query is neither in group by nor inside an aggregate"
                hint = "compute it in a query in from (...)"
                raise ExpressionError(message, node.span, hint)
            refuse_unknown_function(node, bound, scope)
            if (text := find_result(node, bound, self.scope, self._results)) is not None:
                return text
            if isinstance(node, Name | Member) and scope.find(node, bound) is not None:
                raise _no_key_error(node.name, node.span)
            return None

        return find

    def _add_call(self, node: SyntaxNode) -> str:
        """Return the column of an aggregate, which is added if no item has it."""
        canonical = self._canonical(node)
        if canonical not in self._calls:
            name = self.texts.cut(node.span)
            while name in self.key_names or name in self._aggregates:
                name += "_"
            text = self.texts.write(node, self.scope)
            self._aggregates[name] = Assignment(self.texts.name(name, node.span), text)
            self._calls[canonical] = name
        return self._calls[canonical]


def _no_key_error(name: str, span: Span) -> ExpressionError:
    message = f'"{name}" is neither in group by nor inside an aggregate'
    return ExpressionError(message, span, f"add it to group by, or write first({name})")


def is_grouped(select: Select) -> bool:
    """Whether the rows of the result are groups."""
    if select.group_by is not None or select.having is not None:
        return True
    return any(has_aggregate(item.expression) for item in select.items)
