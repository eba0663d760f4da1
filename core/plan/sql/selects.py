"""A `select` as steps: tables, conditions, groups, distinct rows, first rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace

from headrace.core.expressions.parsing.syntax_tree import (
    SyntaxNode,
    find_free_names,
)
from headrace.core.expressions.typed import Span
from headrace.core.pipeline.fields import Explode
from headrace.core.plan.nodes import RANK_COLUMN
from headrace.core.plan.sql.conditions import (
    ConditionJoiner,
    QueryCondition,
    QueryRows,
    has_query,
    read_query_condition,
)
from headrace.core.plan.sql.distinct_rows import Columns, make_distinct
from headrace.core.plan.sql.grouped_queries import lift_queries, list_row_values
from headrace.core.plan.sql.groups import GroupBuilder, is_grouped
from headrace.core.plan.sql.items import (
    Item,
    are_named,
    expand_items,
    refuse_aggregates,
    write_items,
    write_qualify,
    write_select,
)
from headrace.core.plan.sql.joins import Joiner
from headrace.core.plan.sql.labels import label_subqueries
from headrace.core.plan.sql.marks import MarkJoiner, needs_mark
from headrace.core.plan.sql.partitions import PartitionJoiner
from headrace.core.plan.sql.rankings import (
    find_ranking,
    follows_event_time,
    write_ranking,
)
from headrace.core.plan.sql.scalars import ScalarJoiner
from headrace.core.plan.sql.scope import Scope, is_known
from headrace.core.plan.sql.steps import Draft, Relation, StepWriter
from headrace.core.plan.sql.tables import TableBuilder
from headrace.core.plan.sql.texts import (
    QueryTexts,
    RejectedQuery,
    list_conditions,
    split_conjunction,
)
from headrace.core.plan.sql.window_functions import OverBuilder
from headrace.core.plan.sql.windowed_selects import (
    NamedWindows,
    has_window,
    lift_ordered_calls,
    lift_windows,
)
from headrace.core.sql.syntax_tree import (
    Query,
    Select,
    WindowCall,
    find_subqueries,
    walk_query_nodes,
)
from headrace.core.types.data_types import quote_name
from headrace.core.types.lazy_dataclass import dataclass

CompileQuery = Callable[[Query, str, tuple[str, ...]], Relation]
NamedQueries = Mapping[str, Callable[[str, list[SyntaxNode]], Relation]]
"""The queries of `with`: each returns its rows for the name and the conditions of its reader."""


@dataclass(slots=True)
class SelectBuilder:
    """Builds one `select`; `path` is its place in the whole query."""

    writer: StepWriter
    texts: QueryTexts
    named: NamedQueries
    compile_query: CompileQuery
    path: tuple[str, ...]
    labels: dict[Span, str] = field(default_factory=dict)
    """The names of the queries in expressions, by their places."""
    rows: dict[Span, QueryRows] = field(default_factory=dict)
    """The rows of queries of conditions that have been built, by their places."""
    failed: bool = False
    """Whether a condition was rejected: the rest is checked, and then rejected too."""

    def build(self, select: Select, extra: Callable[[Scope], list[Item]] | None = None) -> Draft:
        """Return the draft of the rows of a `select`, whose last clause is its columns.

        `extra` returns further columns of the result. Raises RejectedQuery.
        """
        named = NamedWindows(select.windows, self.texts)
        select = lift_windows(named.write_out(select))
        select = lift_queries(lift_ordered_calls(select, self.texts))
        self.labels = label_subqueries(select, self.texts.written.text.reveal())
        draft = self._build_rows(select)
        is_group = is_grouped(select)
        nodes = list_row_values(select) if is_group else (i.expression for i in select.items)
        draft = self._join_values(draft, [*nodes])
        items = expand_items(select, draft.scope, self.texts)
        for item in extra(draft.scope) if extra else ():
            items.append(replace(item, node=named.write_out_node(item.node)))
        named.warn_if_unused()
        if not is_group:
            select, items, draft = self._join_partitions(select, items, draft)
        if is_group:
            draft = self._build_groups(select, items, draft)
        else:
            draft = self._build_columns(select, items, draft)
        if self.failed:
            raise RejectedQuery
        return self._make_distinct(select, draft) if select.is_distinct else draft

    def _build_rows(self, select: Select) -> Draft:
        """Return the rows of the tables that pass `where`."""
        conditions = [*list_conditions(select.where)]
        refused = [each for each in conditions if refuse_aggregates("where", each, self.texts)]
        conditions = [each for each in conditions if each not in refused]
        plain = [each for each in conditions if not has_query(each)]
        queries = [each for each in conditions if has_query(each)]
        draft = self._build_tables(select, plain)
        self.failed |= bool(refused)
        draft = self._filter(select, draft, plain)
        return self._apply_queries(select, draft, queries)

    def _apply_queries(self, select: Select, draft: Draft, conditions: list[SyntaxNode]) -> Draft:
        """Return the rows that pass conditions with queries in them."""
        values = []
        for each in conditions:
            condition = read_query_condition(each)
            if condition is None or any(map(has_query, condition.subjects)):
                values.append(each)
                continue
            joiner = self._condition_joiner(self.labels[condition.subquery.span])
            rows = joiner.build(draft, condition)
            if needs_mark(draft, rows):
                self.rows[condition.subquery.span] = rows
                values.append(each)
            else:
                draft = joiner.join(draft, rows)
        draft = self._join_values(draft, values)
        return self._filter(select, draft, values)

    def _join_values(self, draft: Draft, expressions: list[SyntaxNode]) -> Draft:
        """Return the rows with the results of the queries in expressions."""
        for node in expressions:
            joined = set[Span]()
            for each in walk_query_nodes(node):
                condition = read_query_condition(each)
                if condition is not None and condition.subquery.span not in joined:
                    draft = self._join_values(draft, [*condition.subjects])
                    draft = self._join_mark(draft, condition)
                    joined.update(query.span for query in find_subqueries(each))
            for query in find_subqueries(node):
                if query.span not in joined:
                    draft = self._scalar_joiner(self.labels[query.span]).join(draft, query)
        return draft

    def _join_partitions(
        self, select: Select, items: list[Item], draft: Draft
    ) -> tuple[Select, list[Item], Draft]:
        """Return the rows with the aggregates of their partitions, and what reads these columns."""
        joiner = PartitionJoiner(self.writer, self.texts, self.path, self._scalar_joiner)
        nodes = [*(item.node for item in items), *filter(None, (select.qualify,))]
        if not joiner.finds(nodes):
            return select, items, draft
        draft = joiner.join(draft, nodes)
        select = joiner.replace_all(select)
        items = [replace(item, node=joiner.replace(item.node)) for item in items]
        if select.qualify and not any(map(has_window, (select.qualify, *(i.node for i in items)))):
            conditions, columns = (
                split_conjunction(select.qualify),
                write_items(items, draft.scope, self.texts),
            )
            draft.clauses["where"] = write_qualify(conditions, columns, draft.scope, self.texts)
            select = replace(select, qualify=None)
        return select, items, draft

    def _join_mark(self, draft: Draft, condition: QueryCondition) -> Draft:
        """Return the rows with the truth of a condition that is no filter of its own."""
        label = self.labels[condition.subquery.span]
        rows = self.rows.get(condition.subquery.span)
        rows = rows or self._condition_joiner(label).build(draft, condition)
        return MarkJoiner(self._scalar_joiner(label), self.texts).join(draft, rows)

    def _scalar_joiner(self, label: str) -> ScalarJoiner:
        joiner = Joiner(self.writer, self.texts, self.path, [])
        inner = self._open_inner(label)
        return ScalarJoiner(
            self.writer,
            self.texts,
            joiner,
            self.path,
            label,
            self._single_input,
            inner._build_own_rows,
            inner._build_groups,
        )

    def _open_inner(self, label: str) -> SelectBuilder:
        """Return the builder of the query of that name in a condition or a value."""
        return replace(self, path=(*self.path, label), labels={}, rows={}, failed=False)

    def _build_own_rows(self, select: Select, conditions: list[SyntaxNode]) -> Draft:
        """Return the rows of the tables of an inner `select`; conditions that read these rows alone
        are applied, and removed."""
        self.labels = label_subqueries(select, self.texts.written.text.reveal())
        queries = [each for each in conditions if has_query(each)]
        plain = [each for each in conditions if each not in queries]
        draft = self._build_tables(select, plain)
        own = [each for each in plain if is_known(each, draft.scope)]
        own_queries = [each for each in queries if is_known(each, draft.scope)]
        conditions[:] = [each for each in (*plain, *queries) if each not in (*own, *own_queries)]
        draft = self._apply_queries(select, self._filter(select, draft, own), own_queries)
        if self.failed:
            raise RejectedQuery
        return draft

    def _build_tables(self, select: Select, conditions: list[SyntaxNode]) -> Draft:
        tables = TableBuilder(
            self.writer, self.texts, self.named, self.compile_query, self.path, conditions
        )
        draft = tables.build(select)
        self.failed |= tables.failed
        return draft

    def _filter(self, select: Select, draft: Draft, conditions: list[SyntaxNode]) -> Draft:
        """Return the rows that pass conditions, each of which is checked."""
        if not conditions:
            return draft
        if "lookup" in draft.clauses:
            draft = self.writer.write_inner(draft, self.path)
        parts = []
        for each in conditions:
            try:
                self._check_aliases(select, each, draft.scope)
                parts.append(self.texts.condition(each, draft.scope))
            except RejectedQuery:
                self.failed = True
        if parts:
            draft.clauses["where"] = self.texts.join_conditions(parts)
        return draft

    def _check_aliases(self, select: Select, node: SyntaxNode, scope: Scope) -> None:
        """Refuse the names of columns of the result, which `where` does not know."""
        aliases = {item.aliases[0].name: item for item in select.items if len(item.aliases) == 1}
        for each in find_free_names(node):
            if each.name in aliases and not scope.has(each) and each.name not in scope.tables:
                message = f'"{each.name}" is a column of the result, which where does not know'
                hint = "repeat its expression, or put this query into from (...)"
                if has_window(aliases[each.name].expression):
                    hint = "a condition on functions over (...) goes after qualify"
                raise self.texts.reject(message, each.span, hint)

    def _condition_joiner(self, label: str) -> ConditionJoiner:
        path = (*self.path, label)

        def build_query(query: Query) -> Draft:
            name = self.writer.choose_name(*path)
            relation = self.compile_query(query, name, path).rename("in_rows")
            return Draft((relation,), relation.scope, relation.scope.tables)

        joiner = Joiner(self.writer, self.texts, self.path, [])
        build_tables = self._open_inner(label)._build_own_rows
        return ConditionJoiner(joiner, self.texts, label, build_query, build_tables)

    def _build_groups(self, select: Select, items: list[Item], draft: Draft) -> Draft:
        draft = self._single_input(draft)
        find_ttl = self.writer.find_key_ttl if select.group_by else self.writer.find_ttl
        groups = GroupBuilder(
            self.texts,
            select,
            items,
            draft,
            draft.inputs[0].has_event_time,
            find_ttl(draft.inputs),
        )
        sets = groups.number_sets()
        if sets is not None and select.group_by is not None:
            place = select.group_by.span
            name, array = (self.texts.name(text, place) for text in (sets.column, sets.array))
            draft.clauses["explode"] = Explode(name, array)
            draft.places["explode"] = place
            draft = groups.draft = self._start_anew(draft, "sets")
        columns = groups.build()
        texts = {str(text) for _, text, _ in columns}
        written = [(name, str(text)) for name, text, _ in columns]
        if written != [(name, quote_name(name)) for name in groups.natural_columns]:
            names = {quote_name(name) for name in groups.key_names}
            if groups.window is None and not names <= texts:
                draft = self._start_anew(draft, "groups")
            draft.clauses["select"] = write_select(columns, self.texts)
        return self._with_columns(draft, columns)

    def _build_columns(self, select: Select, items: list[Item], draft: Draft) -> Draft:
        """Return a draft with the columns of a result; with `qualify`, of the rows that pass it."""
        ranking = find_ranking(select, self.texts)
        if ranking is not None:
            draft = self._single_input(draft)
            if follows_event_time(ranking, draft):
                ranking = None
        if ranking is None and (select.qualify or any(has_window(item.node) for item in items)):
            return self._build_windows(select, items, draft)
        if ranking is None:
            columns = write_items(items, draft.scope, self.texts)
            if not self._is_whole(columns, draft):
                is_join = draft.join is not None
                draft.clauses["select"] = write_select(columns, self.texts, is_join=is_join)
            return self._with_columns(draft, columns)
        has_key = bool(ranking.window.partition_by)
        find_ttl = self.writer.find_key_ttl if has_key else self.writer.find_ttl
        ranked = write_ranking(ranking, draft, self.texts, find_ttl(draft.inputs))
        calls = [item for item in items if isinstance(item.node, WindowCall)]
        others = [item for item in items if item not in calls]
        numbers = {item.name: ranked.number for item in calls}
        by_name = {c[0]: c for c in write_items(others, draft.scope, self.texts, numbers)}
        for item in calls:
            by_name[item.name] = (item.name, self.texts.name(ranked.number, item.place), item.place)
        columns = [by_name[item.name] for item in items]
        draft.clauses.update(ranked.clauses)
        place = ranking.call.span
        draft.places.update(dict.fromkeys(("top", "dedup", "key"), place))
        texts = {str(text) for _, text, _ in columns}
        if ranking.others or not {quote_name(name) for name in ranked.key} <= texts:
            draft = self._start_anew(draft, "top")
        if ranking.others:

            def find(node: SyntaxNode, _: frozenset[str]) -> str | None:
                return ranked.number if isinstance(node, WindowCall) else None

            draft.clauses["where"] = write_qualify(
                ranking.others, columns, draft.scope, self.texts, find
            )
        natural = [
            *draft.inputs[0].schema.names,
            *((RANK_COLUMN,) if "top" in draft.clauses else ()),
        ]
        if "with_" in draft.clauses or not are_named(columns, natural):
            draft.clauses["select"] = write_select(columns, self.texts)
        return self._with_columns(draft, columns)

    def _build_windows(self, select: Select, items: list[Item], draft: Draft) -> Draft:
        """Return a draft with functions over windows of rows, of the rows that pass `qualify`."""
        qualify = select.qualify
        if qualify is not None and not any(map(has_window, (qualify, *(i.node for i in items)))):
            message = "qualify is a condition on functions over (...), and there is none"
            hint = "a condition on rows goes after where, one on groups after having"
            raise self.texts.reject(message, qualify.span, hint)
        draft = self._single_input(draft)
        functions = OverBuilder(self.writer, self.texts, self.path, draft)
        draft, columns = functions.build(items, qualify)
        added = (str(each.name) for each in draft.clauses.get("over", ()))
        if not are_named(columns, [*draft.inputs[0].schema.names, *added]):
            draft.clauses["select"] = write_select(columns, self.texts)
        return self._with_columns(draft, columns)

    def _is_whole(self, columns: Columns, draft: Draft) -> bool:
        """Whether a result has all columns of the one input, and of a lookup, as they are."""
        keeps_left = draft.join is not None and draft.join.type in ("semi", "anti")
        has_lookup = "lookup" in draft.clauses
        if (draft.join is not None and not keeps_left) or "explode" in draft.clauses:
            return False
        stored = [(each.field.name, each.text) for each in draft.scope.columns]
        added = [each.name for each in draft.clauses["lookup"].add] if has_lookup else []
        names = [*draft.inputs[0].schema.names, *map(str, added)]
        own = [(name, quote_name(name)) for name in names]
        return [(name, str(text)) for name, text, _ in columns] == stored == own

    def _single_input(self, draft: Draft) -> Draft:
        """Return a draft that reads one input, and may have a `where`."""
        if draft.join is None and not draft.clauses.keys() & {"explode", "lookup"}:
            return draft
        return self.writer.write_inner(draft, self.path)

    def _start_anew(self, draft: Draft, part: str) -> Draft:
        """Build the step of a draft, and return one of its rows, whose scope is the same."""
        relation = self.writer.write(draft, self.writer.choose_name(*self.path, part))
        return Draft((relation,), draft.scope, draft.tables, places=draft.places)

    def _with_columns(self, draft: Draft, columns: Columns) -> Draft:
        """Return the draft with the columns of its result."""
        draft.columns = columns
        return draft

    def _make_distinct(self, select: Select, draft: Draft) -> Draft:
        """Return the draft of the distinct rows of a result."""
        place = select.places["select"]
        if draft.join is None and not draft.clauses.keys() - {"where", "select"}:
            columns = [*draft.columns]
        else:
            names = [name for name, _, _ in draft.columns]
            draft = self._start_anew(draft, "rows")
            columns = [(n, self.texts.name(quote_name(n), place), place) for n in names]
        return self._with_columns(draft, make_distinct(draft, columns, self.writer, place))
