"""The columns that names in a query mean, and how an expression of a step writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.parsing.syntax_tree import (
    Member,
    Name,
    SyntaxNode,
    replace_nodes,
)
from headrace.core.expressions.resolver import CLOCK_FUNCTIONS, ExpressionResolver
from headrace.core.expressions.typed import ExpressionError, ExpressionErrors
from headrace.core.plan.sql.time_columns import TimeColumn, TimeColumns
from headrace.core.types.data_types import Field, Schema, quote_name
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ScopeColumn:
    """A column of a table of a query, and the text that means it in the step that is written."""

    table: str
    """The table's name in the query; "" for the one column of both tables of `using`."""
    field: Field
    """The column, by its name in the query."""
    text: str
    side: str = ""
    """The input of the step's join that has it; "" in a step without a join."""
    stored: str = ""
    """Its name in that input."""
    time: TimeColumn | None = None
    """Its distance from the event time of its rows, if it tells that."""
    in_star: bool = True

    @property
    def name(self) -> str:
        """Its name in the query."""
        return self.field.name

    @property
    def is_time(self) -> bool:
        """Whether it is the event time of its rows."""
        return self.time is not None and self.time.after_us == 0

    def is_written_as(self, node: SyntaxNode) -> bool:
        """Whether an expression of the step may keep a name as it is written."""
        match node:
            case Member(base=Name(name=side), name=name):
                return self.side != "" and (side, name) == (self.side, self.stored)
            case Name(name=name):
                return quote_name(name) == self.text
        return False


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns of the tables after `from`, in their order.

    `outer` has those of the query around it, which names mean that mean nothing here.
    """

    columns: tuple[ScopeColumn, ...] = ()
    outer: Scope | None = None
    results: tuple[str, ...] = ()
    """The columns of the result, which `having` and `order by` know too."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(dict.fromkeys(each.table for each in self.columns if each.table))

    def find(self, node: SyntaxNode, bound: frozenset[str] = frozenset()) -> ScopeColumn | None:
        """Return the column that a name means; None for anything else.

        Raises ExpressionError for a name that means none, or several. `bound` are the parameters of
        the lambda functions around.
        """
        match node:
            case Member(base=Name(name=table) as base, name=name) if table not in bound:
                found = [c for c in self.columns if (c.table, c.name) == (table, name)]
                if found:
                    return found[0]
                if self.outer is not None and table in self.outer.tables:
                    return self.outer.find(node, bound)
                if not self._list_named(table) and not (self.outer and self.outer.has(base)):
                    raise UnknownColumnError(self, node)
            case Name(name=name) if name not in bound:
                return self._find_name(node)
        return None

    def has(self, node: SyntaxNode) -> bool:
        """Whether a name means a column here."""
        try:
            return self.find(node) is not None
        except ExpressionError:
            return isinstance(node, Name) and bool(self._list_named(node.name))

    def _list_named(self, name: str) -> list[ScopeColumn]:
        """Return the columns that a name without a table may mean."""
        found = [each for each in self.columns if each.name == name and each.in_star]
        return [each for each in found if not each.table] or found

    def _find_name(self, node: Name) -> ScopeColumn | None:
        found = self._list_named(node.name)
        if len(found) == 1:
            return found[0]
        if not found and self.outer is not None and self.outer.has(node):
            return self.outer.find(node)
        if not found and node.name.lower() in CLOCK_FUNCTIONS:
            return None
        raise _ambiguous_error(node, found) if found else UnknownColumnError(self, node)

    def explain_unknown(self, node: SyntaxNode) -> ExpressionError:
        """Return the error of a name that means no column, in the words of expressions."""
        columns = [each for each in self.columns if each.in_star]
        if not columns and isinstance(node, Name):
            hint = f"there is no table that has columns; text goes in quotes: '{node.name}'"
            return ExpressionError(f'unknown column "{node.name}"', node.span, hint)
        fields = [Field(f"{c.table}.{c.name}", c.field.type, c.field.nullable) for c in columns]
        names: dict[str, dict[str, str]] = {}
        for each in columns:
            names.setdefault(each.table, {})[each.name] = f"{each.table}.{each.name}"
        if len(names) == 1:
            fields = [each.field for each in columns]
            names = {table: {c: c for c in columns} for table, columns in names.items()}
        try:
            ExpressionResolver(Schema(tuple(fields)), names).resolve(node)
        except ExpressionErrors as failed:
            return self._suggest_result(node, failed.errors[0])
        shown = ", ".join(dict.fromkeys(each.name for each in columns))
        return ExpressionError("unknown column", node.span, f"the columns are {shown}")

    def _suggest_result(self, node: SyntaxNode, error: ExpressionError) -> ExpressionError:
        """Return an error with the hint of a column of the result, if that is the nearest one."""
        is_open = isinstance(node, Name) and not error.hint.startswith("did you mean")
        hint = suggest_name(node.name, self.results) if is_open and isinstance(node, Name) else ""
        return ExpressionError(error.message, error.span, hint) if hint else error

    def star(self, table: str = "") -> Iterator[ScopeColumn]:
        """Yield the columns that a star means, of one table or of all."""
        for each in self.columns:
            if each.in_star if not table else each.table == table:
                yield each


class UnknownColumnError(ExpressionError):
    """A name that means no column of a scope.

    Most of these errors are caught, as the name means something elsewhere. So the message and the
    hint, which compares the name with all columns, are made when they are read.
    """

    def __init__(self, scope: Scope, node: SyntaxNode) -> None:
        Exception.__init__(self)
        self._scope, self._node = scope, node

    def __getattr__(self, name: str) -> Any:
        if name not in ("message", "span", "hint"):
            raise AttributeError(name)
        error = self._scope.explain_unknown(self._node)
        self.message, self.span, self.hint = error.message, error.span, error.hint
        return getattr(self, name)

    def __str__(self) -> str:
        return self.message


def _ambiguous_error(node: Name, found: Iterable[ScopeColumn]) -> ExpressionError:
    tables = [each.table for each in found]
    message = f'"{node.name}" is a column of {" and ".join(tables)}'
    hint = f"write {' or '.join(f'{table}.{node.name}' for table in tables)}"
    return ExpressionError(message, node.span, hint)


def list_columns(node: SyntaxNode, scope: Scope) -> list[ScopeColumn]:
    """Return the columns that an expression reads. Raises ExpressionError for unknown names."""
    found: list[ScopeColumn] = []

    def visit(each: SyntaxNode, bound: frozenset[str]) -> SyntaxNode | None:
        column = scope.find(each, bound)
        if column is None:
            return None
        found.append(column)
        return each

    replace_nodes(node, visit)
    return found


def scope_of_table(
    table: str,
    fields: Iterable[Field],
    times: TimeColumns,
    renamed: Mapping[str, str] | None = None,
) -> Scope:
    """Return the columns of a table; `renamed` has other names for some of them."""
    names = renamed or {}
    return Scope(
        tuple(
            ScopeColumn(
                table,
                replace(field, name=names[field.name]) if field.name in names else field,
                quote_name(field.name),
                stored=field.name,
                time=times.get(field.name),
            )
            for field in fields
        )
    )


def is_known(node: SyntaxNode, scope: Scope) -> bool:
    """Whether all names in an expression mean columns of a scope."""
    try:
        list_columns(node, scope)
    except ExpressionError:
        return False
    return True
