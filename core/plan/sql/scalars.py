"""Queries as values: `amount > (select avg(amount) from orders)`.

Such a query is an aggregate with one row, or with one row for each value that it compares with the
query around it. A left join adds its result to the rows as a column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from headrace.core.expressions.parsing.syntax_tree import CallNode, SyntaxNode, walk
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.text import TextPart
from headrace.core.plan.sql.items import Item, has_aggregate, write_select
from headrace.core.plan.sql.joins import ONE, Joiner, add_constant
from headrace.core.plan.sql.scope import Scope, ScopeColumn, list_columns
from headrace.core.plan.sql.steps import Draft, StepWriter
from headrace.core.plan.sql.texts import QueryTexts, split_conjunction
from headrace.core.sql.syntax_tree import GroupBy, Query, Select, Subquery
from headrace.core.types.lazy_dataclass import dataclass

KEY_PREFIX = "key "
_COUNTS = ("count", "count_if", "approx_count_distinct", "regr_count")
_HINT = "as in (select max(amount) from orders where orders.customer = c.id)"


@dataclass(slots=True)
class ScalarJoiner:
    """Adds the results of queries to the rows of a draft.

    `label` is the name of the query; `build_tables` returns the rows of the tables of a `select`,
    and removes the conditions that it applied; `build_groups` returns the groups of such rows, and
    `single_input` a draft as the rows of one step.
    """

    writer: StepWriter
    texts: QueryTexts
    joiner: Joiner
    path: tuple[str, ...]
    label: str
    single_input: Callable[[Draft], Draft]
    build_tables: Callable[[Select, list[SyntaxNode]], Draft]
    build_groups: Callable[[Select, list[Item], Draft], Draft]

    def join(self, draft: Draft, subquery: Subquery) -> Draft:
        """Return the rows with the result of a query, which is known to the texts from then on.

        Raises RejectedQuery.
        """
        select = self._check(subquery)
        correlated = [*split_conjunction(select.where)]
        rows = self.build_tables(select, correlated)
        inner = rows.scope
        equalities = [self.split(each, inner, draft.scope) for each in correlated]
        if equalities:
            self._check_count(select.items[0].expression)
        place = select.items[0].name_span
        keys = [
            Item(f"{KEY_PREFIX}{at}", one.span, one) for at, (one, _) in enumerate(equalities, 1)
        ]
        items = [Item(self.label, place, select.items[0].expression), *keys]
        group = GroupBy(place, tuple(one for one, _ in equalities)) if equalities else None
        groups = self.build_groups(replace(select, group_by=group), items, rows)
        is_count = _is_count(items[0].node)
        outer = [other for _, other in equalities]
        draft, table = self.join_groups(draft, groups, outer, subquery.span)
        form = "coalesce({}, 0)" if is_count else "{}"

        def read(scope: Scope) -> str | None:
            found = (each.text for each in scope.columns if each.table == table)
            return next((form.format(text) for text in found), None)

        self.texts.values[subquery.span] = read
        return draft

    def join_groups(
        self,
        draft: Draft,
        groups: Draft,
        outer: list[SyntaxNode],
        place: Span,
        type: Literal["left", "inner"] = "left",
    ) -> tuple[Draft, str]:
        """Return the rows with the columns of groups whose keys equal values of the rows, and the
        name of the table that has them. Without keys, there is one group. The join may be inner if
        each row has a group."""
        if not outer:
            constant = self.texts.name("1", place)
            groups.clauses["select"] = (
                *write_select(groups.columns, self.texts, is_join=True),
                Assignment(self.texts.name(ONE, place), constant),
            )
            add_constant(draft, self.texts, place)
        table = self.label
        while table in draft.scope.tables:
            table += "_"
        name = self.writer.choose_name(*self.path, self.label)
        relation = self.writer.write(groups, name).rename(table)
        right = Draft((relation,), relation.scope, (table,))
        draft = self._join_table(draft, right, outer, place, type)
        return self.single_input(draft), table

    def _check(self, subquery: Subquery) -> Select:
        """Return the `select` of a query that has one row. Raises RejectedQuery."""
        query: Query = subquery.query
        select = query.body
        if (
            not query.is_plain
            or not isinstance(select, Select)
            or select.group_by is not None
            or select.having is not None
            or len(select.items) != 1
            or not has_aggregate(select.items[0].expression)
        ):
            message = "a query as a value is supported if it is one aggregate without group by"
            raise self.texts.reject(message, subquery.span, _HINT)
        return select

    def _check_count(self, value: SyntaxNode) -> None:
        """Reject a value of a query with equalities, of which a count is a part: where no rows are
        equal, there is no group, and so no 0 to compute with. Raises RejectedQuery."""
        if any(_is_count(each) for each in walk(value)) and not _is_count(value):
            message = "a count as a part of a value is not supported where rows are compared"
            raise self.texts.reject(message, value.span, "compute with the result of the query")

    def split(self, node: SyntaxNode, inner: Scope, outer: Scope) -> tuple[SyntaxNode, SyntaxNode]:
        """Return the inner and the outer side of a condition that reads the rows around."""
        if isinstance(node, CallNode) and node.name == "=":
            one, other = node.arguments
            for own, around in ((one, other), (other, one)):
                if _reads_only(own, inner) and _reads_only(around, outer):
                    return own, around
        both = Scope(inner.columns, outer)
        self.texts.parts(node, both)  # its error says which columns there are
        message = "a query as a value is compared with the query around it by equalities only"
        raise self.texts.reject(message, node.span, _HINT)

    def _join_table(
        self,
        draft: Draft,
        right: Draft,
        outer: list[SyntaxNode],
        place: Span,
        type: Literal["left", "inner"],
    ) -> Draft:
        sides = self.joiner.make_sides(draft, right)
        left = Scope(tuple(sides.columns(0)))
        is_key: dict[bool, list[ScopeColumn]] = {True: [], False: []}
        for each in sides.columns(1):
            is_key[each.name == ONE or each.name.startswith(KEY_PREFIX)].append(each)
        conditions: list[list[TextPart]] = []
        for node, key in zip(outer, is_key[True], strict=False):
            end = node.span.end
            conditions.append([*self.texts.parts(node, left), TextPart(end, end, f" = {key.text}")])
        if not outer:
            one = next(each for each in sides.columns(0) if each.table == ONE)
            equality = f"{one.text} = {is_key[True][0].text}"
            conditions.append([TextPart(place.start, place.end, equality)])
        join = self.joiner.make_join(sides, type, self.texts.join_conditions(conditions))
        own = (each for each in sides.columns(0) if each.table != ONE)
        added = (replace(each, in_star=False) for each in is_key[False])
        made = Draft((sides.left, sides.right), Scope((*own, *added)), draft.tables, join=join)
        made.words, made.joined = draft.words, self.label
        made.places = {**draft.places, "join": place, "from": place}
        return made


def _is_count(node: SyntaxNode) -> bool:
    """Whether a value is 0, and not null, for no rows."""
    return isinstance(node, CallNode) and node.name in _COUNTS


def _reads_only(node: SyntaxNode, scope: Scope) -> bool:
    try:
        return bool(list_columns(node, scope))
    except ExpressionError:
        return False
