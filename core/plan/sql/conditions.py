"""Conditions with a query inside, as joins: `in` and `exists` are semi joins, `not exists` an anti
join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from headrace.core.expressions.parsing.syntax_tree import CallNode, Name, SyntaxNode
from headrace.core.pipeline.text import TextPart
from headrace.core.plan.sql.items import has_aggregate
from headrace.core.plan.sql.joins import ONE, Joiner, JoinSides
from headrace.core.plan.sql.scope import Scope
from headrace.core.plan.sql.steps import Draft
from headrace.core.plan.sql.texts import QueryTexts, split_conjunction
from headrace.core.sql.syntax_tree import Query, Select, Subquery, find_subqueries
from headrace.core.types.data_types import quote_name


@dataclass(frozen=True, slots=True)
class QueryCondition:
    """A condition of `where` with a query: `x in (...)`, or `exists (...)`."""

    node: SyntaxNode
    inner: CallNode
    """The `in` or `exists`, without a `not` before it."""
    subquery: Subquery
    type: Literal["semi", "anti"]
    subject: SyntaxNode | None = None

    @property
    def query(self) -> Query:
        """The query itself."""
        return self.subquery.query


def read_query_condition(node: SyntaxNode) -> QueryCondition | None:
    """Return the condition, if it is one with a query that can be a join."""
    type: Literal["semi", "anti"] = "semi"
    inner = node
    while isinstance(inner, CallNode) and inner.name == "not":
        inner = inner.arguments[0]
        type = "anti" if type == "semi" else "semi"
    match inner:
        case CallNode(name="exists", arguments=(Subquery() as query,)) as inner:
            return QueryCondition(node, inner, query, type)
        case CallNode(name="in", arguments=(subject, Subquery() as query)) as inner:
            return QueryCondition(node, inner, query, type, subject)
    return None


def has_query(node: SyntaxNode) -> bool:
    """Whether there is a query inside an expression."""
    return next(find_subqueries(node), None) is not None


@dataclass(frozen=True, slots=True)
class QueryRows:
    """The rows of a query of a condition, its conditions that read the rows around it, and its
    column."""

    draft: Draft
    correlated: list[SyntaxNode]
    value: SyntaxNode


@dataclass(slots=True)
class ConditionJoiner:
    """Joins the rows of a draft with the queries of its conditions."""

    joiner: Joiner
    texts: QueryTexts
    label: str
    """The name of the query among those of a `select`."""
    build_query: Callable[[Query], Draft]
    """Returns the rows of a query."""
    build_tables: Callable[[Select, list[SyntaxNode]], Draft]
    """Returns the rows of the tables of a `select`. Conditions that read these rows alone are
    applied, and removed."""

    def build(self, condition: QueryCondition) -> QueryRows:
        """Return the rows of the query of a condition. Raises RejectedQuery."""
        select = condition.query.body
        if _is_plain(condition.query) and isinstance(select, Select):
            return self._build_plain(select, condition)
        if condition.subject is None:
            message = "exists wants select ... from ... where, with an equality to this query"
            hint = "put it into from: exists (select 1 from (...) t)"
            raise self.texts.reject(message, condition.node.span, hint)
        draft = self.build_query(condition.query)
        columns = draft.scope.columns
        if len(columns) != 1:
            message = f"in wants a query with one column, got {len(columns)}"
            raise self.texts.reject(message, condition.node.span)
        return QueryRows(draft, [], Name(condition.subquery.span, columns[0].name))

    def join(self, draft: Draft, condition: QueryCondition, rows: QueryRows) -> Draft:
        """Return the draft of the rows for which a condition is true. Raises RejectedQuery."""
        correlated, place = rows.correlated, condition.node.span
        is_crossed = condition.subject is None and self.joiner.add_constants(
            draft, rows.draft, place, correlated
        )
        sides = self.joiner.make_sides(draft, rows.draft)
        bounds = self.joiner.find_bounds(sides, correlated)
        texts = self.texts
        conditions = [
            texts.condition(each, _make_scope(sides))
            for each in correlated
            if bounds is None or each not in bounds.conditions
        ]
        if condition.subject is not None:
            conditions.append(self._write_equality(condition, sides, rows.value))
        if is_crossed:
            conditions.append(sides.write_constant(place))
        join = self.joiner.make_join(
            sides, condition.type, texts.join_conditions(conditions), bounds
        )
        scope = Scope(
            tuple(
                replace(c, side="", text=quote_name(c.stored))
                for c in sides.columns(0)
                if c.table != ONE
            )
        )
        made = Draft((sides.left, sides.right), scope, draft.tables, join=join)
        made.words, made.joined = draft.words, self.label
        made.places = {**draft.places, "join": condition.node.span, "from": condition.node.span}
        return made

    def _build_plain(self, select: Select, condition: QueryCondition) -> QueryRows:
        correlated = [*split_conjunction(select.where)]
        right = self.build_tables(select, correlated)
        if condition.subject is not None and len(select.items) != 1:
            message = f"in wants a query with one column, got {len(select.items)}"
            raise self.texts.reject(message, select.span)
        return QueryRows(right, correlated, select.items[0].expression)

    def _write_equality(
        self, condition: QueryCondition, sides: JoinSides, value: SyntaxNode
    ) -> list[TextPart]:
        """Return the parts of the equality of `in`."""
        texts, subject = self.texts, condition.subject
        assert subject is not None, "it is an in"
        end = subject.span.end
        parts = texts.parts(subject, _get_side(sides, 0))
        return [*parts, TextPart(end, end, " = "), *texts.parts(value, _get_side(sides, 1))]


def _is_plain(query: Query) -> bool:
    """Whether a query only filters the rows of tables."""
    select = query.body
    if not query.is_plain or not isinstance(select, Select):
        return False
    if select.where is not None and has_query(select.where):
        return False
    clauses = (select.group_by, select.having, select.qualify)
    return all(each is None for each in clauses) and not (
        select.is_distinct or any(has_aggregate(item.expression) for item in select.items)
    )


def _get_side(sides: JoinSides, side: int) -> Scope:
    return Scope(tuple(sides.columns(side)))


def _make_scope(sides: JoinSides) -> Scope:
    """Return the columns of both inputs; names without a table mean those of the inner query."""
    return Scope(tuple(sides.columns(1)), Scope(tuple(sides.columns(0))))
