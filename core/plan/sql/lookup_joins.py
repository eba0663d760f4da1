"""Joins with tables outside of the pipeline, as lookups of steps.

`join customers for system_time as of current_timestamp() as c on c.id = o.customer` is the clause
`lookup` of a step: the keys of the table and its columns are in the step's `lookups`, the values of
the keys in the condition. A table is asked for keys, and cannot be read as a whole: it is the right
side of a join, and its keys are compared by equality.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from headrace.core.expressions.parsing.syntax_tree import CallNode, Member, Name, SyntaxNode
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.pipeline.clauses.lookup import AddedColumn, Lookup, OnMiss
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.plan.sql.scope import Scope, ScopeColumn, list_columns
from headrace.core.plan.sql.steps import Draft, StepWriter
from headrace.core.plan.sql.texts import QueryTexts, RejectedQuery, split_conjunction
from headrace.core.plan.sql.time_bounds import find_column
from headrace.core.plan.sql.windows import is_current_time
from headrace.core.sql.syntax_tree import (
    JoinedTable,
    Select,
    TableItem,
    TableName,
    list_expressions,
    walk_query_nodes,
)
from headrace.core.types.data_types import Field, quote_name
from headrace.core.types.lazy_dataclass import dataclass

Lookups = Mapping[Text, Lookup]


@dataclass(frozen=True, slots=True)
class QueryLookup:
    """A table of a query that is a lookup."""

    written: TableName
    lookup: Lookup

    @property
    def alias(self) -> str:
        """The name that stands before its columns."""
        return self.written.alias

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns by which it is looked up."""
        return tuple(str(each.name) for each in self.lookup.on)

    @property
    def unread_keys(self) -> tuple[str, ...]:
        """The columns by which it is looked up that are not among those that it adds."""
        added = {each.name for each in self.lookup.add}
        return tuple(key for key in self.keys if key not in added)

    @property
    def columns(self) -> tuple[ScopeColumn, ...]:
        """The columns that it adds."""
        return tuple(self._make_column(str(c.name), c) for c in self.lookup.add)

    @property
    def compared_columns(self) -> tuple[ScopeColumn, ...]:
        """The columns that the condition of its join may name."""
        keys = (AddedColumn(Text(key), Text(key)) for key in self.unread_keys)
        return (*self.columns, *(self._make_column(str(key.name), key) for key in keys))

    def add_columns(
        self, taken: Iterable[str], *, nullable: bool
    ) -> tuple[tuple[AddedColumn, ...], tuple[ScopeColumn, ...]]:
        """Return its columns as a step adds them to rows with columns of these names."""
        names, added, columns = {*taken}, [], []
        for each in self.lookup.add:
            own = str(each.name) if each.name not in names else f"{self.alias}.{each.name}"
            while own in names:
                own += "_"
            names.add(own)
            added.append(replace(each, name=Text(own, each.name.scalar, each.name.pieces)))
            columns.append(self._make_column(own, each, nullable=nullable))
        return tuple(added), tuple(columns)

    def _make_column(self, own: str, each: AddedColumn, *, nullable: bool = True) -> ScopeColumn:
        field = Field(str(each.name), each.type, nullable or each.nullable)
        return ScopeColumn(self.alias, field, quote_name(own), stored=own)


def write_join(name: str, alias: str, lookup: Lookup) -> str:
    """Return the form of a join with a lookup, as a hint."""
    named = "" if alias == name else f" as {alias}"
    keys = " and ".join(f"{alias}.{each.name} = ..." for each in lookup.on)
    return f"join {name} for system_time as of current_timestamp(){named} on {keys}"


def refuse_lookup_name(name: Name, lookups: Lookups, texts: QueryTexts) -> None:
    """Refuse a query of `with` that has the name of a lookup. Raises RejectedQuery."""
    if name.name in lookups:
        message = f'the name "{name.name}" is taken by a lookup of the step'
        raise texts.reject(message, name.span, "give the query another name")


def find_lookups(select: Select, lookups: Lookups, texts: QueryTexts) -> dict[Span, QueryLookup]:
    """Return the lookups among the tables of a `select`, by their places.

    Raises RejectedQuery if they stand where a lookup cannot.
    """
    if not lookups:
        return {}
    found = dict[Span, QueryLookup]()
    failed = False
    for table, join in _list_tables(select.table):
        if table.name not in lookups:
            continue
        lookup = QueryLookup(table, lookups[Text(table.name)])
        failed |= _is_misplaced(lookup, join, texts)
        found[table.span] = lookup
    if failed:
        raise RejectedQuery
    return found


def _list_tables(
    item: TableItem, join: JoinedTable | None = None
) -> Iterator[tuple[TableName, JoinedTable | None]]:
    """Yield the tables with names, each with the join whose right side it is."""
    match item:
        case TableName():
            yield item, join
        case JoinedTable():
            yield from _list_tables(item.left)
            yield from _list_tables(item.right, item)


def _is_misplaced(lookup: QueryLookup, join: JoinedTable | None, texts: QueryTexts) -> bool:
    """Report a lookup that is not joined as lookups are; whether it is one."""
    table, shown = lookup.written, f'"{lookup.written.name}" is a lookup'
    example = write_join(table.name, table.alias, lookup.lookup)
    place = table.span
    if join is None:
        message = f"{shown}, which is asked for the keys of rows, and cannot be the first table"
        hint = f"begin with the rows: from ... {example}"
    elif join.is_comma or join.is_natural or join.kind == "cross":
        message, hint = f"{shown}, which is joined by a condition on its key", example
    elif join.kind not in ("inner", "left"):
        place = join.keyword
        message = f"{shown}, which cannot be joined by {join.kind} join"
        hint = "join keeps rows with a match, left join all rows"
    elif table.as_of is None:
        message = f"{shown}, and for system_time as of current_timestamp() is missing"
        hint = example
    elif not is_current_time(table.as_of, Scope()):
        place = table.as_of.span
        message = f"{shown}, which has only the rows of now, got {texts.cut(table.as_of.span)}"
        hint = "for system_time as of current_timestamp()"
    elif table.columns:
        place = table.columns[0].span
        message = f"{shown}, whose columns have the names that add gives them"
        hint = f"in lookups: add: {{{table.columns[0].name}: {{column: ...}}}}"
    else:
        return False
    texts.add_error(message, place, hint)
    return True


def refuse_unread_keys(select: Select, lookups: Iterable[QueryLookup], texts: QueryTexts) -> None:
    """Refuse the keys of lookups that a `select` reads, and that are not among their columns.

    Raises RejectedQuery.
    """
    found = [
        (key, lookup)
        for lookup in lookups
        for node in list_expressions(select)
        for key in _list_unread_keys(node, lookup)
    ]
    for key, lookup in found:
        message = f'"{key.name}" is a key of "{lookup.written.name}", and not one of its columns'
        hint = f"add it with its type, as in add: {{{key.name}: bigint, ...}}"
        texts.add_error(message, key.span, hint)
    if found:
        raise RejectedQuery


def _list_unread_keys(node: SyntaxNode, lookup: QueryLookup) -> Iterator[Member]:
    """Yield the names in an expression that mean a key of a lookup which is no column of it."""
    for each in walk_query_nodes(node):
        match each:
            case Member(base=Name(name=table), name=name):
                if table == lookup.alias and name in lookup.unread_keys:
                    yield each


@dataclass(frozen=True, slots=True)
class LookupJoiner:
    """Joins drafts with lookups; `path` is the place of the query in the whole one."""

    writer: StepWriter
    texts: QueryTexts
    path: tuple[str, ...]

    def join(self, left: Draft, lookup: QueryLookup, written: JoinedTable) -> Draft:
        """Return the draft of a join with a lookup. Raises RejectedQuery."""
        if left.join is not None or left.clauses.keys() - {"where"}:
            left = self.writer.write_inner(left, self.path)
        values = self._find_values(left.scope, lookup, written)
        on = tuple(
            Assignment(each.name, self.texts.write(values[str(each.name)], left.scope))
            for each in lookup.lookup.on
        )
        is_outer = written.kind == "left"
        taken = left.inputs[0].schema.names
        add, columns = lookup.add_columns(taken, nullable=is_outer)
        merged = {each.name for each in written.using}
        columns = tuple(replace(c, in_star=c.name not in merged) for c in columns)
        on_miss = OnMiss("null" if is_outer else "drop")
        update = {"on": on, "add": add, "on_miss": on_miss, "name": lookup.written.name}
        clause = lookup.lookup.model_copy(update=update)
        draft = Draft(
            left.inputs,
            Scope((*left.scope.columns, *columns)),
            (*left.tables, lookup.alias),
            clauses={**left.clauses, "lookup": clause},
            places={**left.places, "lookup": lookup.written.span},
            words=left.words,
        )
        if isinstance(left.inputs[0].kind, nodes.Append):
            return draft
        # A lookup of rows that change passes on their key; a step after it may drop the key.
        name = self.writer.choose_name(*self.path, draft.label, "lookup")
        relation = self.writer.write(draft, name)
        return replace(draft, inputs=(relation,), clauses={})

    def _find_values(
        self, left: Scope, lookup: QueryLookup, written: JoinedTable
    ) -> dict[str, SyntaxNode]:
        """Return the expression over the left rows that equals each key. Raises RejectedQuery."""
        values = dict[str, SyntaxNode]()
        failed = False
        for each in written.using:
            failed |= self._is_no_key(each, lookup)
            values[each.name] = each
        both = Scope((*left.columns, *lookup.compared_columns))
        others = list[SyntaxNode]()
        for condition in split_conjunction(written.on):
            found = self._read_equation(condition, both, lookup)
            if found is None or found[0] in values:
                others.append(condition)
            else:
                values[found[0]] = found[1]
        missing = [key for key in lookup.keys if key not in values]
        wanted = " and ".join(f"{lookup.alias}.{key} = ..." for key in missing)
        shown = f'"{lookup.written.name}" is looked up by {" and ".join(lookup.keys)}'
        for condition in others:
            hint = (
                f"wanted {wanted}, a value of the rows before it"
                if missing
                else self._suggest(condition, lookup, written)
            )
            if self._has_known_names(condition, both):
                self.texts.add_error(f"{shown} alone", condition.span, hint)
        if others or failed:
            raise RejectedQuery
        if missing:
            message = f"{shown}, and nothing is compared with {missing[0]}"
            raise self.texts.reject(message, written.keyword, f"after on: {wanted}")
        return values

    def _is_no_key(self, name: Name, lookup: QueryLookup) -> bool:
        """Report a column of `using` that is no key of a lookup; whether it is none."""
        if name.name in lookup.keys:
            return False
        message = f'using: "{lookup.written.name}" is looked up by {" and ".join(lookup.keys)}'
        self.texts.add_error(message, name.span, "only the keys of on can be compared")
        return True

    def _read_equation(
        self, node: SyntaxNode, both: Scope, lookup: QueryLookup
    ) -> tuple[str, SyntaxNode] | None:
        """Return the key that a condition compares with a value of the left rows, and the value."""
        if not isinstance(node, CallNode) or node.name != "=":
            return None
        one, other = node.arguments
        for key, value in ((one, other), (other, one)):
            column = find_column(key, both)
            is_key = (
                column is not None and column.table == lookup.alias and column.name in lookup.keys
            )
            if column is not None and is_key and lookup.alias not in _list_tables_of(value, both):
                return column.name, value
        return None

    def _has_known_names(self, node: SyntaxNode, scope: Scope) -> bool:
        """Whether a condition can be written; report the names in it that mean no column."""
        try:
            self.texts.parts(node, scope)
        except RejectedQuery:
            return False
        return True

    def _suggest(self, node: SyntaxNode, lookup: QueryLookup, written: JoinedTable) -> str:
        """Return the place of a condition that is not on the keys of a lookup, as a hint."""
        keys = [*_list_unread_keys(node, lookup)]
        if keys:
            return f"compare what {self.texts.cut(keys[0].span)} equals, instead of it, after where"
        if written.kind == "left":
            return f"a value that needs it is case when {self.texts.cut(node.span)} then ... end"
        return "a condition on other columns goes after where"


def _list_tables_of(node: SyntaxNode, scope: Scope) -> set[str]:
    """Return the tables whose columns an expression reads; none if a name is unknown."""
    try:
        return {each.table for each in list_columns(node, scope)}
    except ExpressionError:
        return set()
