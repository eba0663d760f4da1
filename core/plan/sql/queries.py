"""Whole queries as steps: named queries, unions, intersections, differences, `order by` with
`limit`."""

from __future__ import annotations

from dataclasses import field, replace

from headrace.core.aggregates.canonical_text import canonical_text
from headrace.core.expressions.parsing.syntax_tree import (
    Member,
    Name,
    SortItem,
    SyntaxNode,
    find_free_names,
    replace_nodes,
    walk,
)
from headrace.core.pipeline.clauses.keyed import Top
from headrace.core.pipeline.text import TextPart
from headrace.core.plan.nodes import RANK_COLUMN
from headrace.core.plan.sql.conditions import has_query
from headrace.core.plan.sql.grouped_queries import add_aggregates
from headrace.core.plan.sql.items import (
    HIDDEN_PREFIX,
    Item,
    expand_items,
    has_aggregate,
    is_aggregate,
    resolve_position,
    write_select,
)
from headrace.core.plan.sql.lookup_joins import refuse_lookup_name
from headrace.core.plan.sql.rankings import limit_query, write_sort_item
from headrace.core.plan.sql.result_order import find_order_parts
from headrace.core.plan.sql.scope import Scope
from headrace.core.plan.sql.selects import NamedQueries, SelectBuilder
from headrace.core.plan.sql.set_operations import SetOperationBuilder
from headrace.core.plan.sql.steps import Draft, Relation, StepWriter
from headrace.core.plan.sql.texts import QueryTexts, RejectedQuery
from headrace.core.plan.sql.value_rows import build_values
from headrace.core.sql.syntax_tree import (
    NamedQuery,
    Query,
    QueryBody,
    Select,
    SetOperation,
    Values,
)
from headrace.core.types.data_types import quote_name
from headrace.core.types.lazy_dataclass import dataclass

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
            refuse_lookup_name(each.name, self.writer.step.lookups or {}, self.texts)
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
                return build_values(body, self.writer, self.texts)

    def _selects(self, path: tuple[str, ...]) -> SelectBuilder:
        return SelectBuilder(self.writer, self.texts, self.named, self.compile, path)

    def _build_first_rows(self, query: Query, path: tuple[str, ...]) -> Draft:
        """Return the first rows in an order, without their rank."""
        texts, places = self.texts, query.places
        self._check_limit(query)
        assert query.limit is not None, "it was checked"
        hidden: list[Item] = []
        order: list[tuple[SortItem, list[TextPart]]] = []
        body = query.body
        if isinstance(body, Select):
            extra = None if body.is_distinct else hidden
            nodes = (each.expression for each in query.order_by)
            added = () if extra is None else add_aggregates(body, nodes)
            hidden += (Item(each.name, each.name_span, each.expression) for each in added)
            body = replace(body, items=(*body.items, *added))
            builder = self._selects(path)
            draft = builder.build(
                body, lambda scope: self._find_order(query, body, scope, order, extra)
            )
        else:
            draft = self._build_body(body, path)
            named = [Item(n, place, Name(place, n)) for n, _, place in draft.columns]
            where = "after a union"
            order = [(e, self._order_by_result(e.expression, named, where)) for e in query.order_by]
        visible = [c for c in draft.columns if c[0] not in {item.name for item in hidden}]
        names = [name for name, _, _ in visible]
        if not draft.is_empty:
            relation = self.writer.write(draft, self.writer.choose_name(*path, "rows"))
            draft = Draft((relation,), relation.scope, draft.tables, places=draft.places)
        by = [write_sort_item(item, parts, texts) for item, parts in order]
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

    def _check_limit(self, query: Query) -> None:
        """Refuse an order without a limit, and a limit without an order. Raises RejectedQuery."""
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

    def _find_order(
        self,
        query: Query,
        select: Select,
        scope: Scope,
        order: list[tuple[SortItem, list[TextPart]]],
        hidden: list[Item] | None,
    ) -> list[Item]:
        """Write `order by` over the columns of the result, and return those that it does not have.

        With `hidden` None, there can be no others.
        """
        items = expand_items(select, scope, self.texts)
        added: list[Item] = []
        for each in query.order_by:
            node = each.expression
            is_of_result = self._reads_results(node, items, scope)
            item = None if is_of_result else self._find_item(node, items, scope, added)
            if item is None and hidden is None:
                order.append((each, self._order_by_result(node, items, "after select distinct")))
            elif item is None and (is_of_result or hidden):
                order.append((each, self._order_by_both(node, items, scope, added)))
            else:
                item = item or self._add_item(node, added)
                order.append((each, _write_column(node, item.name)))
        if hidden is not None:
            hidden.extend(added)
        return added

    def _order_by_both(
        self, node: SyntaxNode, items: list[Item], scope: Scope, added: list[Item]
    ) -> list[TextPart]:
        """Return the parts of an expression of `order by` over columns of the result and others,
        which are added."""
        parts = find_order_parts(node, {item.name for item in items}, scope.tables)
        columns = {each.span: quote_name(each.name) for each in parts.results}
        for each in parts.others:
            item = self._find_item(each, items, scope, added) or self._add_item(each, added)
            columns[each.span] = quote_name(item.name)
        return self.texts.parts(node, Scope(), lambda each, _: columns.get(each.span))

    def _add_item(self, node: SyntaxNode, added: list[Item]) -> Item:
        item = Item(f"{HIDDEN_PREFIX}{self.texts.cut(node.span)}", node.span, node)
        added.append(item)
        return item

    def _find_item(
        self, node: SyntaxNode, items: list[Item], scope: Scope, added: list[Item]
    ) -> Item | None:
        """Return the item that an expression of `order by` means as a whole."""
        item = resolve_position(node, items, self.texts)
        if item is None and isinstance(node, Name):
            item = next((each for each in items if each.name == node.name), None)
        if item is None:
            text = self._canonical(node, scope)
            same = (each for each in (*items, *added) if self._canonical(each.node, scope) == text)
            item = next(same, None)
        return item

    def _reads_results(self, node: SyntaxNode, items: list[Item], scope: Scope) -> bool:
        """Whether a name in an expression means a column of the result that is none of the rows."""
        named = {item.name: item.node for item in items}
        return not isinstance(node, Name) and any(
            not scope.has(each)
            or self._canonical(each, scope) != self._canonical(named[each.name], scope)
            for each in _list_names(node)
            if each.name in named
        )

    def _canonical(self, node: SyntaxNode, scope: Scope) -> str:
        return canonical_text(self.texts.resolve_tree(node, scope))

    def _order_by_result(self, node: SyntaxNode, items: list[Item], where: str) -> list[TextPart]:
        """Return the parts of an expression of `order by` over the columns of the result.

        Raises RejectedQuery.
        """
        item = resolve_position(node, items, self.texts)
        if item is not None:
            return _write_column(node, item.name)
        names = [each.name for each in items]
        is_known = all(each.name in names for each in find_free_names(node))
        has_tables = any(isinstance(each, Member) for each in walk(node))
        if not is_known or has_tables or has_query(node) or has_aggregate(node):
            message = f"{where}, only columns of the result can be ordered by"
            raise self.texts.reject(message, node.span, f"they are {', '.join(names)}")

        def find(each: SyntaxNode, bound: frozenset[str]) -> str | None:
            is_free = isinstance(each, Name) and each.name not in bound
            return quote_name(each.name) if isinstance(each, Name) and is_free else None

        return self.texts.parts(node, Scope(), find)


def _list_names(node: SyntaxNode) -> list[Name]:
    """Return the free names in an expression that are not inside of aggregates."""
    names = list[Name]()

    def visit(each: SyntaxNode, bound: frozenset[str]) -> SyntaxNode | None:
        if isinstance(each, Name) and each.name not in bound:
            names.append(each)
        return each if is_aggregate(each) else None

    replace_nodes(node, visit)
    return names


def _write_column(node: SyntaxNode, name: str) -> list[TextPart]:
    return [TextPart(node.span.start, node.span.end, quote_name(name))]


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
