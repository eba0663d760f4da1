"""Conditions with a query inside, as joins: `in` and `exists` are semi joins, `not exists` an anti
join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Member,
    Name,
    Star,
    SyntaxNode,
    walk,
)
from headrace.core.expressions.typed import ExpressionError
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.text import TextPart
from headrace.core.plan.columns import KnownColumns, type_expression
from headrace.core.plan.sql.items import has_aggregate
from headrace.core.plan.sql.joins import (
    ONE,
    Joiner,
    JoinSides,
    add_column,
    has_equality,
    join_scopes,
)
from headrace.core.plan.sql.scope import Scope, list_columns
from headrace.core.plan.sql.steps import Draft
from headrace.core.plan.sql.texts import (
    QueryTexts,
    RejectedQuery,
    build_all,
    split_conjunction,
)
from headrace.core.sql.syntax_tree import (
    Query,
    Select,
    Subquery,
    find_subqueries,
    find_window_calls,
    list_table_aliases,
)
from headrace.core.types.data_types import Field, Schema, quote_name
from headrace.core.types.lazy_dataclass import dataclass

CONSTANTS = "constant"
"""The table of the columns that have a constant, by which rows are joined."""


@dataclass(frozen=True, slots=True)
class QueryCondition:
    """A condition of `where` with a query: `x in (...)`, or `exists (...)`."""

    node: SyntaxNode
    inner: CallNode
    """The `in` or `exists`, without a `not` before it."""
    subquery: Subquery
    type: Literal["semi", "anti"]
    subjects: tuple[SyntaxNode, ...] = ()
    """The values before `in`: several for `(a, b) in (...)`, none for `exists`."""

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
            return QueryCondition(node, inner, query, type, _split_subject(subject, query))
    return None


def _split_subject(subject: SyntaxNode, query: Subquery) -> tuple[SyntaxNode, ...]:
    """Return the values before `in`, each of which has a column of the query."""
    select = query.query.body
    width = len(select.items) if isinstance(select, Select) else 1
    match subject:
        case CallNode(name="struct", arguments=values) if width > 1 or len(values) == 1:
            return values
    return (subject,)


def has_query(node: SyntaxNode) -> bool:
    """Whether there is a query inside an expression."""
    return next(find_subqueries(node), None) is not None


@dataclass(frozen=True, slots=True)
class QueryRows:
    """The rows of the query of a condition."""

    condition: QueryCondition
    draft: Draft
    correlated: list[SyntaxNode]
    """The conditions of the query that read the rows around it."""
    values: tuple[SyntaxNode, ...] = ()
    """The columns of the query, with which `in` compares."""

    @property
    def pairs(self) -> list[tuple[SyntaxNode, SyntaxNode]]:
        """The values before `in`, each with the column of the query that equals it."""
        return [*zip(self.condition.subjects, self.values, strict=True)]


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

    def build(self, draft: Draft, condition: QueryCondition) -> QueryRows:
        """Return the rows of the query of a condition on the rows of a draft.

        Rows are joined by columns: without another equality between the query and the rows around
        it, each side of `in` that is a constant becomes a column. Raises RejectedQuery.
        """
        rows = self._build_rows(draft, condition)
        if not condition.subjects or _has_equality(draft, rows):
            return rows
        subjects = tuple(name_constant(draft, each, self.texts) for each in condition.subjects)
        values = tuple(name_constant(rows.draft, each, self.texts) for each in rows.values)
        return replace(rows, condition=replace(condition, subjects=subjects), values=values)

    def _build_rows(self, draft: Draft, condition: QueryCondition) -> QueryRows:
        is_exists = not condition.subjects
        query = simplify_query(condition.query) if is_exists else condition.query
        select = query.body
        if _is_plain(query, draft.scope, is_exists=is_exists) and isinstance(select, Select):
            correlated = [*split_conjunction(select.where)]
            right = self.build_tables(select, correlated)
            scope = Scope(right.scope.columns, draft.scope)
            build_all(correlated, lambda node: self.texts.parts(node, scope))
            if is_exists:
                self._check_names(select, scope)
                return QueryRows(condition, right, correlated)
            values = tuple(item.expression for item in select.items)
        else:
            right, correlated = self.build_query(query), []
            span = condition.subquery.span
            values = tuple(Name(span, each.name) for each in right.scope.columns)
            if is_exists:
                return QueryRows(condition, right, correlated)
        wanted = len(condition.subjects)
        if len(values) != wanted:
            columns = "one column" if wanted == 1 else f"{wanted} columns"
            message = f"in wants a query with {columns}, got {len(values)}"
            raise self.texts.reject(message, condition.subquery.span)
        return QueryRows(condition, right, correlated, values)

    def _check_names(self, select: Select, scope: Scope) -> None:
        """Check the expressions of the query of `exists` that do not change whether it has rows.

        Raises RejectedQuery.
        """
        names = {item.name for item in select.items}
        groups = select.group_by.items if select.group_by is not None else ()
        nodes = [item.expression for item in select.items]
        nodes += [each for each in groups if not (isinstance(each, Name) and each.name in names)]
        build_all(
            (each for each in nodes if not isinstance(each, Star)),
            lambda node: self.texts.parts(node, scope),
        )

    def join(self, draft: Draft, rows: QueryRows) -> Draft:
        """Return the draft of the rows for which a condition is true. Raises RejectedQuery."""
        condition, texts = rows.condition, self.texts
        place = condition.node.span
        is_crossed = not condition.subjects and not _has_equality(draft, rows)
        if is_crossed:
            self.joiner.add_constants(draft, rows.draft, place)
        sides = self.joiner.make_sides(draft, rows.draft)
        bounds = self.joiner.find_bounds(sides, rows.correlated)
        conditions = [
            texts.condition(each, _make_scope(sides))
            for each in rows.correlated
            if bounds is None or each not in bounds.conditions
        ]
        one, other = _get_side(sides, 0), _get_side(sides, 1)
        for subject, value in rows.pairs:
            end = subject.span.end
            equality = TextPart(end, end, " = ")
            conditions.append([*texts.parts(subject, one), equality, *texts.parts(value, other)])
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
        made.places = {**draft.places, "join": place, "from": place}
        return made


def _has_equality(draft: Draft, rows: QueryRows) -> bool:
    """Whether the query of a condition compares its rows with those around it by equality."""
    return has_equality(rows.correlated, join_scopes(draft, rows.draft, is_nested=True))


def name_constant(draft: Draft, node: SyntaxNode, texts: QueryTexts) -> SyntaxNode:
    """Return an expression that reads a column; for a constant, that of a column which the draft is
    given. Raises RejectedQuery."""
    try:
        is_constant = not has_query(node) and not list_columns(node, draft.scope)
    except ExpressionError:
        return node
    if not is_constant:
        return node
    text, name = texts.write(node, draft.scope), texts.cut(node.span)
    named = Member(node.span, Name(node.span, CONSTANTS), name, node.span)
    if any((each.table, each.name) == (CONSTANTS, name) for each in draft.scope.columns):
        return named
    typed = type_expression(text, KnownColumns(Schema(())), texts.report)
    if typed is None:
        raise RejectedQuery
    field = Field(name, typed.type, typed.nullable)
    add_column(draft, CONSTANTS, field, Assignment(texts.name(name, node.span), text))
    return named


def simplify_query(query: Query) -> Query:
    """Return the query of `exists` without clauses that do not change whether it has rows."""
    if not query.offset and query.limit != 0:
        query = replace(query, limit=None, order_by=())
    select = query.body
    if not isinstance(select, Select):
        return query
    return replace(query, body=replace(select, is_distinct=False))


def _is_plain(query: Query, around: Scope, *, is_exists: bool) -> bool:
    """Whether a query only filters the rows of tables; for `exists`, it may group them too."""
    select = query.body
    if not query.is_plain or not isinstance(select, Select) or select.is_distinct:
        return False
    if select.where is not None and has_query(select.where) and not _reads(select, around):
        return False
    if select.having is not None or select.qualify is not None:
        return False
    if select.group_by is not None:
        return is_exists and not select.group_by.sets
    nodes = [item.expression for item in select.items]
    return not any(has_aggregate(each) or any(find_window_calls(each)) for each in nodes)


def _reads(select: Select, around: Scope) -> bool:
    """Whether the `where` of a query names a table of the query around it."""
    own = list_table_aliases(select.table)
    members = (
        each.base for each in walk(select.where or Star(select.span)) if isinstance(each, Member)
    )
    return any(
        isinstance(e, Name) and e.name in around.tables and e.name not in own for e in members
    )


def _get_side(sides: JoinSides, side: int) -> Scope:
    return Scope(tuple(sides.columns(side)))


def _make_scope(sides: JoinSides) -> Scope:
    """Return the columns of both inputs; names without a table mean those of the inner query."""
    return Scope(tuple(sides.columns(1)), Scope(tuple(sides.columns(0))))
