"""Functions over windows of rows, as clauses `over` of steps.

The rows of a window are in the order of event time. Functions with the same `partition by` are
columns of one step; each further `partition by` is a step of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from headrace.core.aggregates.canonical_text import canonical_text
from headrace.core.aggregates.over_calls import OFFSET_FUNCTIONS, RANK_FUNCTIONS
from headrace.core.expressions.parsing.frame_parser import parse_frame_text
from headrace.core.expressions.parsing.syntax_tree import (
    SyntaxNode,
    child_nodes,
    find_free_names,
)
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.text import Text
from headrace.core.plan.nodes import Append
from headrace.core.plan.sql.event_order import check_event_order, find_time_name
from headrace.core.plan.sql.items import Item, ItemResults, is_aggregate, write_qualify
from headrace.core.plan.sql.rankings import write_key
from headrace.core.plan.sql.scope import Scope, list_columns
from headrace.core.plan.sql.steps import Draft, StepWriter
from headrace.core.plan.sql.texts import QueryTexts, build_all, split_conjunction
from headrace.core.sql.syntax_tree import WindowCall, WindowSpec, find_window_calls
from headrace.core.types.data_types import quote_name
from headrace.core.types.lazy_dataclass import dataclass

FIRST_ROWS_HINT = "{}() over (...) <= n in qualify, alone, gives the first rows in any order"


_WHOLE_FUNCTIONS = ("ntile", "percent_rank", "cume_dist")


@dataclass(slots=True)
class _Partition:
    """The functions with the same `partition by`, which are columns of one step."""

    keys: tuple[SyntaxNode, ...]
    place: Span
    columns: dict[str, Assignment] = field(default_factory=dict)
    """The columns of the step by the canonical texts of their expressions."""


@dataclass(slots=True)
class OverBuilder:
    """Builds the steps of the functions over windows of a `select`; `path` is its place in the
    whole query."""

    writer: StepWriter
    texts: QueryTexts
    path: tuple[str, ...]
    draft: Draft
    """The rows, which have one input."""
    _partitions: dict[tuple[str, ...], _Partition] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    @property
    def scope(self) -> Scope:
        """The columns of the rows."""
        return self.draft.scope

    def build(
        self, items: list[Item], qualify: SyntaxNode | None
    ) -> tuple[Draft, list[tuple[str, Text, Span]]]:
        """Return the rows that pass `qualify`, and the columns of the result.

        Raises RejectedQuery.
        """
        found = [call for item in items for call in find_window_calls(item.node)]
        found += find_window_calls(qualify) if qualify is not None else ()
        self._check(found)
        self._names.update(self.draft.inputs[0].schema.names)
        for at, item in enumerate(items):
            earlier = {each.name for each in items[:at]}
            reads = (each for each in find_free_names(item.node) if each.name in earlier)
            reads_result = any(not self.scope.has(each) for each in reads)
            self._add_columns(item.node, "" if reads_result else item.name)
        if qualify is not None:
            self._add_columns(qualify, "")
        columns = self._write_columns(items)
        partitions = [self._partitions[keys] for keys in sorted(self._partitions)]
        draft = self.draft
        for partition in partitions:
            draft = self._add_clauses(draft, partition)
            if len(partitions) > 1 or qualify is not None:
                draft = self._write_step(draft, partition)
        if qualify is not None:
            draft.clauses["where"] = write_qualify(
                split_conjunction(qualify), columns, self.scope, self.texts, self._find_text
            )
        return draft, columns

    def _check(self, calls: list[WindowCall]) -> None:
        """Check that functions go by event time, over rows that do not change."""
        is_append = isinstance(self.draft.inputs[0].kind, Append)
        build_all(calls, lambda call: self._check_call(call, is_append=is_append))

    def _check_call(self, node: WindowCall, *, is_append: bool) -> None:
        name, texts, window = node.call.name, self.texts, node.window
        assert isinstance(window, WindowSpec), "named windows are written out"
        for below in child_nodes(node.call):
            inner = next(find_window_calls(below), None)
            if inner is not None:
                message = f"{inner.call.name} over (...) is inside of {name} over (...)"
                raise texts.reject(message, inner.span, "compute it in a query in from (...)")
        if name in _WHOLE_FUNCTIONS:
            message = f"{name} needs all rows of a key, and a stream has no last one"
            hint = "row_number() and rank() count up to the current row"
            raise texts.reject(message, node.call.span, hint)
        if not is_append:
            message = f"{name} over (...) wants facts, and these rows change"
            hint = FIRST_ROWS_HINT.format(name)
            if name not in RANK_FUNCTIONS:
                hint = "compute it before rows are grouped or become a table"
                if is_aggregate(node.call):
                    hint += "; without order by it is of all rows of the key"
            raise texts.reject(message, node.span, hint)
        texts.write(node, self.scope, takes_windows=True)
        for each in window.partition_by:
            texts.write(each, self.scope)
        self._check_order(node, window)
        if window.frame is None:
            return
        if name in RANK_FUNCTIONS or name in OFFSET_FUNCTIONS:
            message = f"{name} takes no frame: it is about single rows"
            raise texts.reject(message, window.frame, f"leave out {texts.cut(window.frame)}")
        try:
            parse_frame_text(texts.read(window.frame))
        except ExpressionError as error:
            start = window.frame.start
            span = Span(start + error.span.start, start + error.span.end)
            raise texts.reject(error.message, span, error.hint) from None

    def _check_order(self, node: WindowCall, window: WindowSpec) -> None:
        """Check that the order of a window is that of event time."""
        name, hint = node.call.name, ""
        if opposite := {"lag": "lead", "lead": "lag"}.get(name):
            hint = f"order by {find_time_name(self.scope)}, and {opposite} in place of {name}"
        elif name == "row_number":
            hint = "row_number() over (...) <= n in qualify gives the last rows"
        check_event_order(
            f"{name} over (...)",
            node.span,
            window.order_by,
            self.scope,
            self.texts,
            has_event_time=self.draft.inputs[0].has_event_time,
            other_hint=f"; {FIRST_ROWS_HINT.format(name)}" if name in RANK_FUNCTIONS else "",
            reverse_hint=hint,
        )

    def _add_columns(self, node: SyntaxNode, name: str) -> None:
        """Add the functions of an expression; an expression over one partition is a column."""
        calls = [*find_window_calls(node)]
        partitions = [self._find_partition(call) for call in calls]
        if name and calls and all(each is partitions[0] for each in partitions):
            self._add_column(partitions[0], node, name)
            return
        for call, partition in zip(calls, partitions, strict=True):
            if self._describe(call) not in partition.columns:
                self._add_column(partition, call, self._describe(call))

    def _add_column(self, partition: _Partition, node: SyntaxNode, name: str) -> None:
        while name in self._names:
            name += "_"
        self._names.add(name)
        text = self.texts.write(node, self.scope, takes_windows=True)
        made = Assignment(self.texts.name(name, node.span), text)
        partition.columns.setdefault(self._describe(node), made)

    def _find_partition(self, node: WindowCall) -> _Partition:
        window = node.window
        assert isinstance(window, WindowSpec), "named windows are written out"
        texts = {
            canonical_text(self.texts.resolve_tree(key, self.scope)): key
            for key in window.partition_by
        }
        keys = tuple(sorted(texts))
        ordered = tuple(texts.values())
        return self._partitions.setdefault(keys, _Partition(ordered, node.span))

    def _describe(self, node: SyntaxNode) -> str:
        """Return a text that is equal for equal expressions."""
        if not isinstance(node, WindowCall):
            return canonical_text(self.texts.resolve_tree(node, self.scope))
        assert isinstance(node.window, WindowSpec), "named windows are written out"
        call = canonical_text(self.texts.resolve_tree(node.call, self.scope))
        frame = node.window.frame
        return f"{call} over ({self.texts.cut(frame).lower() if frame else ''})"

    def _add_clauses(self, draft: Draft, partition: _Partition) -> Draft:
        """Add the clauses of the functions of a partition."""
        keys = [write_key(each, self.scope, self.texts) for each in partition.keys]
        if keys:
            draft.clauses["key"] = tuple(Assignment(*key) for key in keys)
        draft.clauses["over"] = tuple(partition.columns.values())
        ttl = self.writer.find_ttl(draft.inputs)
        if ttl is not None:
            draft.clauses["ttl"] = ttl
        draft.places.update(dict.fromkeys(("over", "key"), partition.place))
        return draft

    def _write_step(self, draft: Draft, partition: _Partition) -> Draft:
        part = "over"
        if len(self._partitions) > 1:
            read = (c.name for key in partition.keys for c in list_columns(key, self.scope))
            part = "-".join((part, *read))
        relation = self.writer.write(draft, self.writer.choose_name(*self.path, part))
        return Draft((relation,), self.scope, draft.tables, places=draft.places)

    def _write_columns(self, items: Iterable[Item]) -> list[tuple[str, Text, Span]]:
        """Return the columns of the result, each of which may read those before it."""
        results = ItemResults(self.scope)

        def find(node: SyntaxNode, bound: frozenset[str]) -> str | None:
            text = results.find(node, bound)
            return self._find_text(node, bound) if text is None else text

        def write(item: Item) -> tuple[str, Text, Span]:
            column = self._find_column(item.node)
            if column is not None:
                text = self.texts.name(quote_name(str(column)), item.place)
            else:
                text = self.texts.write(item.node, self.scope, find)
            results.add(item, text)
            return item.name, text, item.place

        return build_all(items, write)

    def _find_text(self, node: SyntaxNode, _: frozenset[str]) -> str | None:
        column = self._find_column(node)
        return None if column is None else quote_name(str(column))

    def _find_column(self, node: SyntaxNode) -> Text | None:
        calls = [*find_window_calls(node)]
        if not calls:
            return None
        found = self._find_partition(calls[0]).columns.get(self._describe(node))
        return None if found is None else found.name
