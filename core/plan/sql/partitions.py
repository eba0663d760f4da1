"""Aggregates of all rows of a partition: `sum(net) over (partition by day)`, without `order by`.

They are the groups of the rows, joined with the rows: with each change of a row, the value of all
rows of its partition changes. Null is a value of a partition like any other, so a value that may be
null is joined by two columns, of which none is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace

from headrace.core.aggregates.canonical_text import canonical_text
from headrace.core.expressions.parsing.syntax_tree import (
    Member,
    Name,
    SyntaxNode,
    replace_nodes,
)
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.text import Text, TextPart
from headrace.core.plan.columns import KnownColumns, suggest_single_value, type_expression
from headrace.core.plan.sql.items import is_aggregate, refuse_aggregates
from headrace.core.plan.sql.joins import add_column
from headrace.core.plan.sql.scalars import KEY_PREFIX, ScalarJoiner
from headrace.core.plan.sql.scope import list_columns
from headrace.core.plan.sql.steps import Draft, StepWriter
from headrace.core.plan.sql.texts import QueryTexts, RejectedQuery, build_all
from headrace.core.sql.syntax_tree import Select, WindowCall, WindowSpec, find_window_calls
from headrace.core.types.data_types import (
    BOOLEAN,
    DATE,
    TIMESTAMP_TYPES,
    Field,
    Type,
    is_nested,
    is_numeric,
    quote_name,
)
from headrace.core.types.lazy_dataclass import dataclass

_LABEL = "over"
_KEYS = "keys of partitions"
"""The table of the columns by which rows and the groups of their partitions are joined."""


def is_of_partition(node: SyntaxNode) -> bool:
    """Whether a node is an aggregate of all rows of a partition, in no order."""
    if not isinstance(node, WindowCall) or not isinstance(node.window, WindowSpec):
        return False
    has_order = node.window.order_by or node.window.frame is not None
    return not has_order and is_aggregate(node.call)


@dataclass(slots=True)
class PartitionJoiner:
    """Adds aggregates of the partitions of rows to the rows of a draft.

    `open_joiner` returns what joins the groups of a name with the rows.
    """

    writer: StepWriter
    texts: QueryTexts
    path: tuple[str, ...]
    open_joiner: Callable[[str], ScalarJoiner]
    _columns: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The table and the name of the column of each aggregate, by the text of its call."""
    _keys: dict[str, list[SyntaxNode]] = field(default_factory=dict)
    """The columns by which rows are joined, by the canonical text of what is in `partition by`."""

    def finds(self, expressions: Iterable[SyntaxNode]) -> bool:
        """Whether there are such aggregates in expressions."""
        return next(_find_calls(expressions), None) is not None

    def join(self, draft: Draft, expressions: Iterable[SyntaxNode]) -> Draft:
        """Return the rows with a column for each of the aggregates in expressions.

        Raises RejectedQuery.
        """
        calls = [*_find_calls(expressions)]
        build_all(calls, self._check)
        draft = self.open_joiner(_LABEL).single_input(draft)
        if draft.clauses.keys() - {"where"}:
            draft = self.writer.write_inner(draft, self.path)
        partitions: dict[tuple[str, ...], list[WindowCall]] = {}
        for call in calls:
            texts = {self._describe(key, draft) for key in _get_window(call).partition_by}
            partitions.setdefault(tuple(sorted(texts)), []).append(call)
        ordered = [partitions[texts] for texts in sorted(partitions)]
        labels = [self._label(found[0], draft) for found in ordered]
        keys = [self._add_keys(draft, found[0]) for found in ordered]
        if not draft.is_empty:
            draft = self.writer.write_inner(draft, self.path)
        groups = [self._group(draft, *each) for each in zip(keys, ordered, strict=True)]
        for label, group, own, found in zip(labels, groups, keys, ordered, strict=True):
            joiner, place = self.open_joiner(label), found[0].span
            draft, table = joiner.join_groups(draft, group, [*own], place, "inner")
            for call in found:
                self._columns[self.texts.cut(call.span)] = (table, self.texts.cut(call.call.span))
        return draft

    def replace_all(self, select: Select) -> Select:
        """Return a `select` with columns of its rows in place of the aggregates."""
        items = (replace(i, expression=self.replace(i.expression)) for i in select.items)
        qualify = select.qualify and self.replace(select.qualify)
        return replace(select, items=tuple(items), qualify=qualify)

    def replace(self, node: SyntaxNode) -> SyntaxNode:
        """Return an expression with columns of the rows in place of the aggregates."""

        def find(each: SyntaxNode, _: frozenset[str]) -> SyntaxNode | None:
            if not is_of_partition(each):
                return None
            table, name = self._columns[self.texts.cut(each.span)]
            return Member(each.span, Name(each.span, table), name, each.span)

        return replace_nodes(node, find)

    def _check(self, node: WindowCall) -> None:
        for key in _get_window(node).partition_by:
            if refuse_aggregates("partition by", key, self.texts):
                raise RejectedQuery
        for each in (*node.call.arguments, *filter(None, (node.call.filter,))):
            if refuse_aggregates(f"{node.call.name} over (...)", each, self.texts):
                raise RejectedQuery

    def _describe(self, node: SyntaxNode, draft: Draft) -> str:
        return canonical_text(self.texts.resolve_tree(node, draft.scope))

    def _label(self, call: WindowCall, draft: Draft) -> str:
        """Return the name of the groups of a partition."""
        keys = _get_window(call).partition_by
        build_all(keys, lambda key: self.texts.write(key, draft.scope))
        names = (column.name for key in keys for column in list_columns(key, draft.scope))
        return "-".join((_LABEL, *names))

    def _group(self, draft: Draft, keys: Sequence[SyntaxNode], calls: list[WindowCall]) -> Draft:
        """Return the groups of the rows: the partitions with their aggregates."""
        texts, place = self.texts, calls[0].span
        groups = Draft(draft.inputs, draft.scope, draft.tables, places={**draft.places})
        names = [f"{KEY_PREFIX}{at}" for at in range(1, len(keys) + 1)]
        if keys:
            groups.clauses["key"] = tuple(
                Assignment(texts.name(name, key.span), texts.write(key, draft.scope))
                for name, key in zip(names, keys, strict=True)
            )
        else:
            groups.clauses["emit_empty"] = True
        aggregates = {self.texts.cut(call.call.span): call.call for call in calls}
        written = build_all(aggregates.values(), lambda call: texts.write(call, draft.scope))
        groups.clauses["aggregate"] = tuple(
            Assignment(texts.name(name, call.span), text)
            for (name, call), text in zip(aggregates.items(), written, strict=True)
        )
        find_ttl = self.writer.find_key_ttl if keys else self.writer.find_ttl
        ttl = find_ttl(draft.inputs)
        if ttl is not None:
            groups.clauses["ttl"] = ttl
        groups.places.update(dict.fromkeys(("key", "aggregate"), place))
        groups.columns = [
            (name, texts.name(quote_name(name), place), place) for name in (*aggregates, *names)
        ]
        return groups

    def _add_keys(self, draft: Draft, call: WindowCall) -> list[SyntaxNode]:
        """Return the names of the columns by which rows are joined, which the rows get."""
        found = list[SyntaxNode]()
        for key in _get_window(call).partition_by:
            if list_columns(key, draft.scope):
                text = self._describe(key, draft)
                if text not in self._keys:
                    self._keys[text] = self._add_key(draft, key)
                found += self._keys[text]
        return found

    def _add_key(self, draft: Draft, key: SyntaxNode) -> list[SyntaxNode]:
        """Return what is equal for equal values, and never null."""
        texts = self.texts
        parts, text = texts.parts(key, draft.scope), texts.write(key, draft.scope)
        typed = type_expression(text, KnownColumns(draft.inputs[0].schema), texts.report)
        if typed is None:
            raise RejectedQuery
        if is_nested(typed.type):
            message = f"wanted a key of a single value, got {typed.type}"
            raise texts.reject(message, key.span, suggest_single_value(typed.type))
        if not typed.nullable:
            return [key]
        name, found = f"partition {texts.cut(key.span)}", list[SyntaxNode]()
        for own, type, before, after in (
            (name, typed.type, "coalesce(", f", {_write_default(typed.type)})"),
            (f"{name} is null", BOOLEAN, "(", ") is null"),
        ):
            made = self._write_around(before, parts, after)
            column = Field(own, type, nullable=False)
            add_column(draft, _KEYS, column, Assignment(texts.name(own, key.span), made))
            found.append(Member(key.span, Name(key.span, _KEYS), own, key.span))
        return found

    def _write_around(self, before: str, parts: list[TextPart], after: str) -> Text:
        """Return a text with more text before and after it."""
        start, end = parts[0].start, parts[-1].end
        around = [TextPart(start, start, before), *parts, TextPart(end, end, after)]
        return self.texts.written.text.compose(around)


def _find_calls(expressions: Iterable[SyntaxNode]) -> Iterator[WindowCall]:
    for node in expressions:
        yield from (call for call in find_window_calls(node) if is_of_partition(call))


def _get_window(node: WindowCall) -> WindowSpec:
    assert isinstance(node.window, WindowSpec), "named windows are written out"
    return node.window


def _write_default(type: Type) -> str:
    """Return a value of a type, which stands for null beside a column that tells nulls."""
    if is_numeric(type):
        return f"cast(0 as {type})"
    if type == BOOLEAN:
        return "false"
    if type == DATE or type in TIMESTAMP_TYPES:
        return f"cast('1970-01-01' as {type})"
    return f"cast('' as {type})"
