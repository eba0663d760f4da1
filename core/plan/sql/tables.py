"""The tables of a query, after `from`, as drafts of steps, and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace

from headrace.core.expressions.parsing.syntax_tree import Star, SyntaxNode
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.pipeline import fields
from headrace.core.pipeline.text import TextPart
from headrace.core.plan.columns import KnownColumns, PlanProblems
from headrace.core.plan.explodes import build_explode
from headrace.core.plan.sql.joins import Joiner
from headrace.core.plan.sql.lookup_joins import (
    LookupJoiner,
    QueryLookup,
    find_lookups,
    refuse_unread_keys,
)
from headrace.core.plan.sql.rankings import limit_query
from headrace.core.plan.sql.scope import Scope, ScopeColumn, list_columns
from headrace.core.plan.sql.steps import Draft, Relation, StepWriter, hide_columns
from headrace.core.plan.sql.texts import QueryTexts, RejectedQuery
from headrace.core.sql.row_table import ROW_TABLE
from headrace.core.sql.syntax_tree import (
    JoinedTable,
    LateralView,
    MatchTable,
    Query,
    Select,
    Subquery,
    TableItem,
    TableName,
    WindowCall,
    walk_query_nodes,
)
from headrace.core.types.data_types import quote_name
from headrace.core.types.lazy_dataclass import dataclass

UNNAMED = "subquery"
"""The name of a query in parentheses that has none."""

QUERY_KEEPERS = {"inner", "cross", "left", "semi", "anti"}
"""The joins whose left rows may be filtered before them."""

CompileQuery = Callable[[Query, str, tuple[str, ...]], Relation]


@dataclass(slots=True)
class TableBuilder:
    """Builds the tables of one `select`; `path` is the place of the query in the whole one.

    `named` has the rows of the queries of `with`; `conditions` are those of `where`, of which the
    ones that are applied here are removed.
    """

    writer: StepWriter
    texts: QueryTexts
    named: Mapping[str, Callable[[str, list[SyntaxNode]], Relation]]
    compile_query: CompileQuery
    path: tuple[str, ...]
    conditions: list[SyntaxNode]
    failed: bool = False
    """Whether a condition of a join was rejected: the rest is checked, and then rejected too."""
    _words: frozenset[str] | None = None
    _lookups: Mapping[Span, QueryLookup] = field(default_factory=dict)
    """The lookups among the tables, by their places."""

    def build(self, select: Select) -> Draft:
        """Return the draft of the tables and views of a `select`. Raises RejectedQuery."""
        leaves = [*_list_leaves(select.table)]
        self._lookups = find_lookups(select, self.writer.step.lookups or {}, self.texts)
        found, failed = list[tuple[TableItem, Relation]](), False
        for leaf in leaves:
            if leaf.span in self._lookups:
                continue
            try:
                found.append((leaf, self._find_table(leaf)))
            except RejectedQuery:
                failed = True
        self._check_names([leaf for leaf in leaves if not isinstance(leaf, JoinedTable)])
        if not self._check_times(select.table) or failed:
            raise RejectedQuery
        refuse_unread_keys(select, self._lookups.values(), self.texts)
        relations = {leaf.span: relation for leaf, relation in found}
        for _, each in found:
            for table in each.scope.tables:
                names = (c.name for c in each.scope.star(table))
                known = self.texts.table_columns.get(table, ())
                self.texts.table_columns[table] = (*dict.fromkeys((*known, *names)),)
        columns = [c for _, each in found for c in each.scope.columns]
        scope = Scope((*columns, *(c for each in self._lookups.values() for c in each.columns)))
        stars = any(isinstance(item.expression, Star) for item in select.items)
        natural = any(each.is_natural for each in _list_joins(select.table))
        self._words = None if stars or natural else self.texts.words
        draft = self._build_item(select.table, relations, scope, may_filter=True)
        draft.places.update(select.places)
        for view in select.views:
            draft = self._explode(draft, view)
        return draft

    def _check_names(self, leaves: list[TableItem]) -> None:
        seen = set[str]()
        for leaf in leaves:
            assert not isinstance(leaf, JoinedTable), "leaves are no joins"
            if leaf.alias and leaf.alias in seen:
                message = f'two tables are called "{leaf.alias}"'
                table = self.texts.cut(leaf.span) if isinstance(leaf, TableName) else "(...)"
                hint = f"name one: {table} as other"
                raise self.texts.reject(message, leaf.alias_span, hint)
            seen.add(leaf.alias)

    def _check_times(self, item: TableItem) -> bool:
        """Report each `for system_time as of` that is not on the right side of a join."""
        joined = {each.right.span for each in _list_joins(item)}
        is_valid = True
        for leaf in _list_leaves(item):
            table = leaf.table if isinstance(leaf, MatchTable) else leaf
            if isinstance(table, TableName) and table.as_of and table.span not in joined:
                message = "for system_time as of is for a table that is joined"
                hint = (
                    f"as in from orders o join {table.name} for system_time as of o.at as v on ..."
                )
                self.texts.add_error(message, table.as_of.span, hint)
                is_valid = False
        return is_valid

    def _find_table(self, leaf: TableItem) -> Relation:
        assert not isinstance(leaf, JoinedTable), "leaves are no joins"
        alias = leaf.alias or UNNAMED
        if isinstance(leaf, TableName):
            if leaf.name == ROW_TABLE:
                return hide_columns(self.writer.find_source(leaf.name, "", leaf.span))
            if leaf.name in self.named:
                found = self.named[leaf.name](alias, self.conditions).rename(alias)
            else:
                found = self.writer.find_source(leaf.name, alias, leaf.span)
        elif isinstance(leaf, MatchTable):
            from headrace.core.plan.sql.match_tables import MatchTableBuilder

            rows = self._find_table(leaf.table)
            found = MatchTableBuilder(self.writer, self.texts, self.path, leaf, rows).build()
        else:
            query = limit_query(leaf.query, alias, self.conditions)
            found = self.compile_query(
                query, self.writer.choose_name(*self.path, alias), (*self.path, alias)
            ).rename(alias)
        if not leaf.columns:
            return found
        names = found.schema.names
        if len(names) != len(leaf.columns):
            message = f"wanted {len(names)} names of columns, got {len(leaf.columns)}"
            raise self.texts.reject(message, leaf.columns[0].span, f"they are {', '.join(names)}")
        return found.rename(
            alias, {old: new.name for old, new in zip(names, leaf.columns, strict=True)}
        )

    def _build_item(
        self, item: TableItem, relations: Mapping[Span, Relation], scope: Scope, *, may_filter: bool
    ) -> Draft:
        if not isinstance(item, JoinedTable):
            relation = relations[item.span]
            names = relation.scope.tables or ("row",)
            draft = Draft((relation,), relation.scope, names, words=self._words)
            if may_filter and len(relations) + len(self._lookups) > 1:
                self._filter_early(draft, scope)
            return draft
        if item.is_comma:
            return self._build_list(item, relations, scope, may_filter=may_filter)
        left = self._build_item(
            item.left, relations, scope, may_filter=may_filter and item.kind in QUERY_KEEPERS
        )
        if item.right.span in self._lookups:
            lookup = self._lookups[item.right.span]
            return LookupJoiner(self.writer, self.texts, self.path).join(left, lookup, item)
        right = self._build_item(
            item.right,
            relations,
            scope,
            may_filter=may_filter and item.kind in ("inner", "cross", "right"),
        )
        joiner = self._joiner()
        draft = joiner.join(left, right, item, may_filter=may_filter)
        self.failed |= joiner.failed
        return draft

    def _joiner(self) -> Joiner:
        return Joiner(self.writer, self.texts, self.path, self.conditions)

    def _build_list(
        self,
        item: JoinedTable,
        relations: Mapping[Span, Relation],
        scope: Scope,
        *,
        may_filter: bool,
    ) -> Draft:
        """Join tables with commas between them: each with those that a condition connects."""
        operands = [*_list_operands(item)]
        drafts = [
            self._build_item(each, relations, scope, may_filter=may_filter) for each in operands
        ]
        draft, *rest = drafts
        joiner = self._joiner()
        while rest:
            connected = (each for each in rest if joiner.find_equalities(draft, each))
            other = next(connected, rest[0])
            rest.remove(other)
            draft = joiner.join(draft, other, item, may_filter=True)
        return draft

    def _filter_early(self, draft: Draft, scope: Scope) -> None:
        """Apply the conditions that read one table only before it is joined."""
        own = [each for each in self.conditions if self._reads_only(each, draft.tables, scope)]
        if own:
            self.conditions[:] = [each for each in self.conditions if each not in own]
            draft.clauses["where"] = self.texts.join_conditions(
                [self.texts.condition(each, draft.scope) for each in own]
            )

    def _reads_only(self, node: SyntaxNode, tables: tuple[str, ...], scope: Scope) -> bool:
        if any(isinstance(each, Subquery | WindowCall) for each in walk_query_nodes(node)):
            return False
        try:
            found = list_columns(node, scope)
        except ExpressionError:
            return False
        return bool(found) and {each.table for each in found} <= {*tables}

    def _explode(self, draft: Draft, view: LateralView) -> Draft:
        """Return a draft with the rows that a view makes of each row."""
        if not draft.is_empty:
            draft = self.writer.write_inner(draft, self.path)
        clause = self._write_generator(draft, view)
        draft.clauses["explode"] = clause
        known = KnownColumns(draft.inputs[0].schema)
        operation = build_explode(clause, known, PlanProblems())
        if operation is None:
            name = self.writer.choose_name(*self.path, view.table or "explode")
            self.writer.write(draft, name)
            raise RejectedQuery
        added = (
            ScopeColumn(view.table, each, quote_name(each.name), stored=each.name)
            for each in operation.added_columns
        )
        draft.scope = Scope((*draft.scope.columns, *added))
        draft.tables = (*draft.tables, *((view.table,) if view.table else ()))
        return draft

    def _write_generator(self, draft: Draft, view: LateralView) -> fields.Explode:
        call, texts = view.generator, self.texts
        plain = call.name.removesuffix("_outer")
        is_outer = view.is_outer or plain != call.name
        if plain == "explode" and len(view.columns) == 1 and len(call.arguments) == 1:
            column = view.columns[0]
            array = texts.write(call.arguments[0], draft.scope)
            return fields.Explode(texts.name(column.name, column.span), array, is_outer)
        names = ", ".join(quote_name(each.name) for each in view.columns)
        parts = texts.parts(call, draft.scope)
        if is_outer and plain == call.name and plain in ("explode", "posexplode", "inline"):
            span = call.name_span
            parts = [
                TextPart(span.start, span.end, f"{plain}_outer"),
                *_drop_start(parts, span.end),
            ]
        if names:
            parts.append(TextPart(call.span.end, call.span.end, f" as ({names})"))
        return fields.Explode(None, texts.written.text.compose(parts))


def _drop_start(parts: list[TextPart], start: int) -> Iterator[TextPart]:
    """Yield the parts after a position."""
    for part in parts:
        if part.start >= start:
            yield part
        elif part.end > start and part.inserted is None:
            yield replace(part, start=start)


def _list_leaves(item: TableItem) -> Iterator[TableItem]:
    if isinstance(item, JoinedTable):
        yield from _list_leaves(item.left)
        yield from _list_leaves(item.right)
    else:
        yield item


def _list_joins(item: TableItem) -> Iterator[JoinedTable]:
    if isinstance(item, JoinedTable):
        yield item
        yield from _list_joins(item.left)
        yield from _list_joins(item.right)


def _list_operands(item: TableItem) -> Iterator[TableItem]:
    if isinstance(item, JoinedTable) and item.is_comma:
        yield from _list_operands(item.left)
        yield item.right
    else:
        yield item
