"""Whole queries as steps: named queries, unions, intersections, differences, `order by` with
`limit`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from headrace.core.aggregates.canonical_text import canonical_text
from headrace.core.expressions.parsing.syntax_tree import Name, SortItem, SyntaxNode
from headrace.core.pipeline.clauses.keyed import Top
from headrace.core.pipeline.text import TextPart
from headrace.core.plan.nodes import RANK_COLUMN
from headrace.core.plan.sql.items import Item, expand_items, resolve_position, write_select
from headrace.core.plan.sql.rankings import limit_query, write_sort_item
from headrace.core.plan.sql.scope import Scope
from headrace.core.plan.sql.selects import NamedQueries, SelectBuilder
from headrace.core.plan.sql.set_operations import SetOperationBuilder
from headrace.core.plan.sql.steps import Draft, Relation, StepWriter
from headrace.core.plan.sql.texts import QueryTexts, RejectedQuery
from headrace.core.sql.syntax_tree import (
    NamedQuery,
    Query,
    QueryBody,
    Select,
    SetOperation,
    Values,
)
from headrace.core.types.data_types import quote_name

LIMIT_HINT = "rows have no order of their own: write order by ... limit 10"


@dataclass(slots=True)
class QueryCompiler:
    """Compiles the queries of a step; `named` has the queries of `with` around them."""

    writer: StepWriter
    texts: QueryTexts
    named: NamedQueries = field(default_factory=dict)

    def compile(self, query: Query, name: str, path: tuple[str, ...] = ()) -> Relation:
        """Build the steps of a query, the last of which gets a name, and return its rows.

        A query inside of another one that only reads a table gets no step. Raises RejectedQuery.
        """
        draft = self._build_query(query, path)
        if draft.is_empty and path:
            return replace(draft.inputs[0], scope=draft.scope)
        if draft.is_empty:
            draft.clauses["select"] = write_select(draft.columns, self.texts)
        return self.writer.write(draft, name)

    def _build_query(self, query: Query, path: tuple[str, ...]) -> Draft:
        compiler, named = self, list[_NamedRows]()
        for each in query.named:
            named.append(_NamedRows(compiler, each, (*path, each.name.name)))
            compiler = replace(compiler, named={**compiler.named, each.name.name: named[-1]})
        try:
            if query.limit is None and not query.order_by and not query.offset:
                return compiler._build_body(query.body, path)
            return compiler._build_first_rows(query, path)
        finally:
            for rows in named:
                rows.warn_if_unused()

    def name_columns(self, written: NamedQuery, relation: Relation) -> Relation:
        """Return the rows of a query of `with` under the names of its columns."""
        if not written.columns:
            return relation
        names = relation.schema.names
        if len(names) != len(written.columns):
            message = f"wanted {len(names)} names of columns, got {len(written.columns)}"
            raise self.texts.reject(message, written.columns[0].span)
        place = written.name.span
        columns = [
            (new.name, self.texts.name(quote_name(old), new.span), new.span)
            for old, new in zip(names, written.columns, strict=True)
        ]
        draft = Draft((relation,), relation.scope, (written.name.name,))
        draft.places["select"] = place
        draft.clauses["select"] = write_select(columns, self.texts)
        return self.writer.write(
            draft, self.writer.choose_name(written.name.name, "columns"), written.name.name
        )

    def _build_body(self, body: QueryBody, path: tuple[str, ...]) -> Draft:
        match body:
            case Select():
                return self._selects(path).build(body)
            case Query():
                return self._build_query(body, path)
            case SetOperation():
                return SetOperationBuilder(self.writer, self.texts, self._build_body, path).build(
                    body
                )
            case Values():
                message = "values makes rows of its own, which is not supported"
                raise self.texts.reject(message, body.span, "rows come from sources")

    def _selects(self, path: tuple[str, ...]) -> SelectBuilder:
        return SelectBuilder(self.writer, self.texts, self.named, self.compile, path)

    def _build_first_rows(self, query: Query, path: tuple[str, ...]) -> Draft:
        """Return the first rows in an order, without their rank."""
        texts, places = self.texts, query.places
        if not query.order_by or query.limit is None:
            word = "order" if query.order_by else "limit" if query.limit is not None else "offset"
            message = {
                "order": "order by without limit is not supported: a stream has no order",
                "limit": "limit without order by is not supported",
                "offset": "offset without order by and limit is not supported",
            }[word]
            raise texts.reject(message, places[word], LIMIT_HINT)
        if query.limit == 0:
            raise texts.reject("limit 0 leaves no row", places["limit"])
        hidden: list[Item] = []
        order: list[tuple[SortItem, str]] = []
        body = query.body
        if isinstance(body, Select):
            extra = None if body.is_distinct else hidden
            builder = self._selects(path)
            draft = builder.build(
                body, lambda scope: self._find_order(query, body, scope, order, extra)
            )
        else:
            draft = self._build_body(body, path)
            named = [Item(n, place, Name(place, n)) for n, _, place in draft.columns]
            order = [(each, self._find_result(each, named)) for each in query.order_by]
        visible = [c for c in draft.columns if c[0] not in {item.name for item in hidden}]
        names = [name for name, _, _ in visible]
        if not draft.is_empty:
            relation = self.writer.write(draft, self.writer.choose_name(*path, "rows"))
            draft = Draft((relation,), relation.scope, draft.tables, places=draft.places)
        by = []
        for item, name in order:
            span = item.expression.span
            by.append(
                write_sort_item(item, [TextPart(span.start, span.end, quote_name(name))], texts)
            )
        draft.clauses["top"] = Top.model_construct(n=query.limit + query.offset, by=tuple(by))
        draft.places = {**draft.places, "top": places["order"], "select": places["order"]}
        relation = self.writer.write(draft, self.writer.choose_name(*path, "top"))
        draft = Draft((relation,), relation.scope, draft.tables, places=draft.places)
        if query.offset:
            where = texts.name(f"{RANK_COLUMN} > {query.offset}", places["offset"])
            draft.clauses["where"] = where
        draft.columns = [(n, texts.name(quote_name(n), p), p) for n, _, p in visible]
        draft.clauses["select"] = write_select(draft.columns, texts)
        assert names, "a result has columns"
        return draft

    def _find_order(
        self,
        query: Query,
        select: Select,
        scope: Scope,
        order: list[tuple[SortItem, str]],
        hidden: list[Item] | None,
    ) -> list[Item]:
        """Find the columns of `order by`, and return those that the result does not have."""
        items = expand_items(select, scope, self.texts)
        added: list[Item] = []
        for each in query.order_by:
            node = each.expression
            item = resolve_position(node, items, self.texts)
            if item is None and isinstance(node, Name):
                item = next((i for i in items if i.name == node.name), None)
            if item is None:
                text = canonical_text(self.texts.resolve_tree(node, scope))
                item = next(
                    (
                        i
                        for i in (*items, *added)
                        if canonical_text(self.texts.resolve_tree(i.node, scope)) == text
                    ),
                    None,
                )
            if item is None:
                if hidden is None:
                    message = "after select distinct, only columns of the result can be ordered by"
                    raise self.texts.reject(message, node.span)
                name = f"order by {self.texts.cut(node.span)}"
                item = Item(name, node.span, node)
                added.append(item)
                hidden.append(item)
            order.append((each, item.name))
        return added

    def _find_result(self, item: SortItem, items: list[Item]) -> str:
        node = item.expression
        found = resolve_position(node, items, self.texts)
        if found is None and isinstance(node, Name):
            found = next((each for each in items if each.name == node.name), None)
        if found is None:
            message = "after a union, only columns of the result can be ordered by"
            hint = f"they are {', '.join(each.name for each in items)}"
            raise self.texts.reject(message, node.span, hint)
        return found.name


@dataclass(slots=True)
class _NamedRows:
    """The rows of a query of `with`, which is built when it is first read."""

    compiler: QueryCompiler
    written: NamedQuery
    path: tuple[str, ...]
    _rows: Relation | None = None
    _is_used: bool = False
    _is_rejected: bool = False

    def __call__(self, alias: str, conditions: list[SyntaxNode]) -> Relation:
        """Return the rows. Conditions of the reader that limit a `row_number()` are removed."""
        if self._is_rejected:
            raise RejectedQuery
        self._is_used = True
        query = limit_query(self.written.query, alias, conditions)
        is_whole = query is self.written.query
        if is_whole and self._rows is not None:
            return self._rows
        name = self.compiler.writer.choose_name(*self.path)
        try:
            made = self.compiler.compile(query, name, self.path)
            made = self.compiler.name_columns(self.written, made)
        except RejectedQuery:
            self._is_rejected = True
            raise
        if is_whole:
            self._rows = made
        return made

    def warn_if_unused(self) -> None:
        """Warn of a query that nothing reads."""
        name, texts = self.written.name, self.compiler.texts
        if not self._is_used and not texts.report.has_errors_of_subject:
            place = texts.written.text.locate(name.span.start, name.span.end)
            texts.report.warn(f'nothing reads the query "{name.name}"', place)
