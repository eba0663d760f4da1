"""Two tables of a query as the join of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from headrace.core.expressions.parsing.syntax_tree import CallNode, SyntaxNode
from headrace.core.expressions.parsing.syntax_tree import Literal as LiteralNode
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.pipeline.clauses.joins import Join, JoinInputKeys, JoinType
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.text import Text, TextPart
from headrace.core.plan import nodes
from headrace.core.plan.sql.scope import Scope, ScopeColumn, list_columns
from headrace.core.plan.sql.steps import Draft, Relation, StepWriter
from headrace.core.plan.sql.texts import QueryTexts, RejectedQuery, list_conditions
from headrace.core.plan.sql.time_bounds import WithinBounds, find_column, find_time_bounds
from headrace.core.plan.sql.windows import is_current_time
from headrace.core.sql.syntax_tree import (
    JoinedTable,
    JoinKind,
    Subquery,
    TableName,
    WindowCall,
    walk_query_nodes,
)
from headrace.core.types.data_types import BIGINT, Field, quote_name
from headrace.core.types.lazy_dataclass import dataclass

ON_HINT = "as in join customers c on o.customer = c.id"
ONE = "one row"
"""A column that is 1 in all rows: the key of joins without an equality."""
CROSS_HINT = "an equality such as a.id = b.id, if there is one, joins by key"
_WHEN_FINAL: Literal["when_final"] = "when_final"
_AT_ONCE: Literal["at_once"] = "at_once"


@dataclass(frozen=True, slots=True)
class JoinSides:
    """The inputs of a join, their names in it, and the scope of its condition."""

    left: Relation
    right: Relation
    names: tuple[str, str]
    scope: Scope
    """The columns of both, as the condition writes them."""

    def write_constant(self, place: Span) -> list[TextPart]:
        """Return the condition that joins each row with each other row."""
        one, other = (each.text for each in self.scope.columns if each.table == ONE)
        return [TextPart(place.start, place.end, f"{one} = {other}")]

    def columns(self, side: int) -> list[ScopeColumn]:
        """Return the columns of one input."""
        return [each for each in self.scope.columns if each.side == self.names[side]]


@dataclass(slots=True)
class Joiner:
    """Joins drafts; `conditions` are those of `where`, of which it takes what joins rows."""

    writer: StepWriter
    texts: QueryTexts
    path: tuple[str, ...]
    conditions: list[SyntaxNode]
    failed: bool = False
    """Whether a condition of a join was rejected: the rest is checked, and then rejected too."""

    def join(self, left: Draft, right: Draft, written: JoinedTable, *, may_filter: bool) -> Draft:
        """Return the draft of a join. Raises RejectedQuery."""
        kind = written.kind
        is_inner = kind in ("inner", "cross")
        conditions = [each for each in list_conditions(written.on) if not _is_true(each)]
        conditions = self._list_valid(conditions, join_scopes(left, right))
        taken = self._find_joining(left, right) if is_inner and may_filter else []
        if kind == "cross":
            conditions += taken
        if written.on is None and kind != "cross" and not (written.using or written.is_natural):
            raise self.texts.reject('wanted "on" or "using" after a join', written.keyword, ON_HINT)
        has_using = bool(written.using) or written.is_natural
        is_crossed = not (has_using or has_equality(conditions, join_scopes(left, right)))
        if is_crossed:
            self.add_constants(left, right, written.keyword)
        sides = self.make_sides(left, right)
        as_of = self._is_as_of(written, sides)
        bounds = self.find_bounds(
            sides, [*conditions, *(taken if kind == "inner" else ())], as_of=as_of
        )
        using = self._list_using(written, sides)
        equal = [self._write_using(written, using, sides)] if using else []
        if is_crossed:
            equal = [sides.write_constant(written.keyword)]
        rest = [each for each in conditions if bounds is None or each not in bounds.conditions]
        on = self.texts.join_conditions(
            [*equal, *(self.texts.condition(each, sides.scope) for each in rest)]
        )
        used = {each.span for each in (*conditions, *(bounds.conditions if bounds else ()))}
        self.conditions[:] = [each for each in self.conditions if each.span not in used]
        types: Mapping[JoinKind, JoinType] = {"cross": "inner"}
        type = types.get(kind) or kind
        join = self.make_join(sides, type, on, bounds, as_of=as_of)  # type: ignore[arg-type]
        scope = self._scope_after(sides, join, using)
        draft = Draft((sides.left, sides.right), scope, (*left.tables, *right.tables), join=join)
        draft.words = left.words
        draft.places = {**left.places, "join": written.keyword, "from": written.keyword}
        return draft

    def add_constants(self, left: Draft, right: Draft, place: Span) -> None:
        """Give the rows of both inputs the same key, as no condition compares them by equality."""
        if not self.failed and not any(self._has_one_row(each) for each in (left, right)):
            location = self.texts.written.text.locate(place.start, place.end)
            message = "this join compares each row with each other row, in one place"
            self.texts.report.warn(message, location, CROSS_HINT)
        for draft in (left, right):
            add_constant(draft, self.texts, place)

    def _list_valid(self, conditions: list[SyntaxNode], scope: Scope) -> list[SyntaxNode]:
        """Return the conditions whose names mean columns; the others are reported."""
        valid = []
        for each in conditions:
            try:
                self.texts.parts(each, scope)
                valid.append(each)
            except RejectedQuery:
                self.failed = True
        return valid

    def _has_one_row(self, draft: Draft) -> bool:
        """Whether a draft reads an aggregate of all rows, or the first row in an order."""
        if len(draft.inputs) != 1 or "explode" in draft.clauses:
            return False
        part = self.writer.table.parts.get(str(draft.inputs[0].stream))
        while isinstance(part, nodes.Step) and len(part.inputs) == 1:
            for operation in part.operations:
                match operation:
                    case (
                        nodes.Aggregate(key=(), window=None)
                        | nodes.Top(key=(), rows=1, ties="row_number")
                    ):
                        return True
                    case nodes.Project() | nodes.Filter():
                        continue
                return False
            part = self.writer.table.parts.get(part.inputs[0])
        return False

    def find_equalities(self, left: Draft, right: Draft) -> list[SyntaxNode]:
        """Return the conditions of `where` that may join two drafts by equal values."""
        both = Scope((*left.scope.columns, *right.scope.columns))
        found: list[SyntaxNode] = []
        for each in self.conditions:
            if isinstance(each, CallNode) and each.name == "=":
                tables = [_tables_of(side, both) for side in each.arguments]
                if None not in tables and all(tables):
                    of_left = [bool(t) and t <= {*left.tables} for t in tables if t is not None]
                    of_right = [bool(t) and t <= {*right.tables} for t in tables if t is not None]
                    if any(of_left) and any(of_right):
                        found.append(each)
        return found

    def make_sides(self, left: Draft, right: Draft) -> JoinSides:
        """Return two drafts as the inputs of a join."""
        made = [
            self.writer.materialize(
                draft,
                "" if draft.is_empty else self.writer.choose_name(*self.path, draft.label),
            )
            for draft in (left, right)
        ]
        names: list[str] = []
        for draft in (left, right):
            name = "_".join(draft.tables)
            name = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
            name = name if name.isidentifier() else f"t_{name}"
            while name in names:
                name += "_"
            names.append(name)
        stored = [{each.stored for each in relation.scope.columns} for relation in made]
        columns = []
        for at, relation in enumerate(made):
            for each in relation.scope.columns:
                text = quote_name(each.stored)
                if each.stored in stored[1 - at]:
                    text = f"{names[at]}.{text}"
                columns.append(replace(each, side=names[at], text=text))
        return JoinSides(made[0], made[1], (names[0], names[1]), Scope(tuple(columns)))

    def make_join(
        self,
        sides: JoinSides,
        type: JoinType,
        on: Text,
        bounds: WithinBounds | None = None,
        *,
        as_of: bool = False,
    ) -> Join:
        """Return the clause `join` of a step."""
        inputs = [
            JoinInputKeys.model_construct(
                from_=relation.stream,
                as_=Text(name, relation.stream.scalar, relation.stream.pieces),
            )
            for name, relation in zip(sides.names, (sides.left, sides.right), strict=True)
        ]
        ttl = None
        if bounds is None and not as_of:
            ttl = self.writer.find_ttl((sides.left, sides.right))
        appended = all(isinstance(r.kind, nodes.Append) for r in (sides.left, sides.right))
        waits = type in ("left", "right", "full", "anti") and appended
        at_once = waits and bounds is None and ttl is None and not as_of
        return Join.model_construct(
            left=inputs[0],
            right=inputs[1],
            on=on,
            type=type,
            within=(bounds.least, bounds.most) if bounds is not None else None,
            as_of=as_of,
            ttl=ttl,
            emit=_AT_ONCE if at_once else _WHEN_FINAL,
        )

    def _find_joining(self, left: Draft, right: Draft) -> list[SyntaxNode]:
        """Return the conditions of `where` that read both sides of a join."""
        scope = join_scopes(left, right)
        found = []
        for each in self.conditions:
            if any(isinstance(n, Subquery | WindowCall) for n in walk_query_nodes(each)):
                continue
            if len(_sides_of(each, scope)) > 1:
                found.append(each)
        return found

    def find_bounds(
        self, sides: JoinSides, conditions: list[SyntaxNode], *, as_of: bool = False
    ) -> WithinBounds | None:
        """Return the bounds in time that conditions set to both inputs, if they do.

        The rows of a table that changes match whenever they come, so there they are conditions.
        """
        inputs = (sides.left, sides.right)
        is_append = all(isinstance(each.kind, nodes.Append) for each in inputs)
        if not all(each.has_event_time for each in inputs) or not (as_of or is_append):
            return None
        return find_time_bounds(
            conditions, sides.scope, sides.names[0], may_be_equal=is_append and not as_of
        )

    def _list_using(self, written: JoinedTable, sides: JoinSides) -> list[str]:
        """Return the columns of `using`, or those of both sides for a natural join."""
        if written.is_natural:
            right = {each.name for each in sides.columns(1)}
            found = [each.name for each in sides.columns(0) if each.name in right]
            if not found:
                message = "a natural join needs a column that both tables have"
                raise self.texts.reject(message, written.keyword)
            return found
        for each in written.using:
            for side in (0, 1):
                if not any(c.name == each.name for c in sides.columns(side)):
                    message = f'using: "{each.name}" is no column of {sides.names[side]}'
                    shown = ", ".join(c.name for c in sides.columns(side))
                    raise self.texts.reject(message, each.span, f"its columns are {shown}")
        return [each.name for each in written.using]

    def _write_using(
        self, written: JoinedTable, using: list[str], sides: JoinSides
    ) -> list[TextPart]:
        places = {each.name: each.span for each in written.using}
        parts: list[TextPart] = []
        shared = list[str]()
        for name in using:
            one, other = (_get_column(sides.columns(side), name).text for side in (0, 1))
            if name in places:
                parts += [TextPart(places[name].start, places[name].start, " and ")] * bool(parts)
                parts.append(TextPart(places[name].start, places[name].end, f"{one} = {other}"))
            else:
                shared.append(f"{one} = {other}")
        if shared:
            parts.append(TextPart(written.keyword.start, written.keyword.end, " and ".join(shared)))
        return parts

    def _is_as_of(self, written: JoinedTable, sides: JoinSides) -> bool:
        right = written.right
        if not isinstance(right, TableName) or right.as_of is None:
            return False
        time = find_column(right.as_of, sides.scope)
        if time is None or not time.is_time or time.side != sides.names[0]:
            message = "for system_time as of wants the event time of the left table"
            named = [each.name for each in sides.columns(0) if each.is_time]
            hint = f"it is {named[0]}" if named else "set event_time in its source"
            if is_current_time(right.as_of, sides.scope):
                hint += "; a table outside of the pipeline belongs into lookups"
            raise self.texts.reject(message, right.as_of.span, hint)
        if written.kind not in ("inner", "left"):
            message = f"for system_time as of is for inner and left joins, got {written.kind}"
            raise self.texts.reject(message, written.keyword)
        return True

    def _scope_after(self, sides: JoinSides, join: Join, using: list[str]) -> Scope:
        """Return the columns after a join, as its step writes them."""
        if join.type in ("semi", "anti"):
            own = (each for each in sides.columns(0) if each.table != ONE)
            return Scope(tuple(replace(each, text=quote_name(each.stored)) for each in own))
        merged = []
        for name in using:
            one, other = (_get_column(sides.columns(side), name) for side in (0, 1))
            text = {"full": f"coalesce({one.text}, {other.text})", "right": other.text}
            column = other if join.type == "right" else one
            merged.append(ScopeColumn("", column.field, text.get(join.type, one.text)))
        columns = (
            replace(each, time=None, in_star=each.in_star and each.name not in using)
            for each in sides.scope.columns
            if each.table != ONE
        )
        return Scope((*merged, *columns))


def add_constant(draft: Draft, texts: QueryTexts, place: Span) -> None:
    """Give all rows of a draft the same value, by which they are joined."""
    name, text = (texts.name(each, place) for each in (ONE, "1"))
    add_column(draft, ONE, Field(ONE, BIGINT, nullable=False), Assignment(name, text))


def add_column(draft: Draft, table: str, field: Field, assignment: Assignment) -> None:
    """Give the rows of a draft a column that only names of this table mean."""
    draft.clauses["with_"] = (*draft.clauses.get("with_", ()), assignment)
    quoted = quote_name(field.name)
    column = ScopeColumn(table, field, quoted, stored=field.name, in_star=False)
    draft.scope = Scope((*draft.scope.columns, column))


def join_scopes(left: Draft, right: Draft, *, is_nested: bool = False) -> Scope:
    """Return the columns of both drafts, each with the side that it is on. If the right one is of
    a query inside of the left one's, names mean its columns first."""
    sides = (("left", left), ("right", right))
    one, other = (tuple(replace(c, side=side) for c in each.scope.columns) for side, each in sides)
    return Scope(other, Scope(one)) if is_nested else Scope((*one, *other))


def has_equality(conditions: Iterable[SyntaxNode], scope: Scope) -> bool:
    """Whether a condition compares one input of a join with the other by equality."""
    return any(_is_equality(each, scope) for each in conditions)


def _is_true(node: SyntaxNode) -> bool:
    return isinstance(node, LiteralNode) and node.value is True


def _is_equality(node: SyntaxNode, scope: Scope) -> bool:
    """Whether a condition compares one input with the other by equality."""
    if not isinstance(node, CallNode) or node.name != "=":
        return False
    sides = [_sides_of(each, scope) for each in node.arguments]
    return all(len(each) == 1 for each in sides) and sides[0] != sides[1]


def _get_column(columns: list[ScopeColumn], name: str) -> ScopeColumn:
    return next(each for each in columns if each.name == name)


def _sides_of(node: SyntaxNode, scope: Scope) -> set[str]:
    """Return the sides of a join that an expression reads; none if a name is unknown."""
    return {each.side for each in _columns_of(node, scope) or ()}


def _tables_of(node: SyntaxNode, scope: Scope) -> set[str] | None:
    found = _columns_of(node, scope)
    return None if found is None else {each.table for each in found}


def _columns_of(node: SyntaxNode, scope: Scope) -> list[ScopeColumn] | None:
    try:
        return list_columns(node, scope)
    except ExpressionError:
        return None
