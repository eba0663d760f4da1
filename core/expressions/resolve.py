"""The resolver: from the syntax tree to the typed tree.

Names become columns, and calls become functions of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from headrace.core.expressions import function, habits, syntax
from headrace.core.expressions.casts import cast
from headrace.core.expressions.coercion import read_literal
from headrace.core.expressions.functions import TABLE
from headrace.core.expressions.functions.later import LATER
from headrace.core.expressions.typed import (
    Column,
    Constant,
    ExpressionError,
    ExpressionErrors,
    Typed,
)
from headrace.core.problems import did_you_mean
from headrace.core.types import STRING, Array, Field, Schema, Struct

Tables: TypeAlias = Mapping[str, Mapping[str, str]]
"""Table names, which stand before a dot, with the columns of each and their names in the schema."""

NO_TABLES: Tables = MappingProxyType({})


class Resolver:
    """Types the expressions over one schema. A subclass may add calls, as aggregates do."""

    def __init__(self, schema: Schema, tables: Tables = NO_TABLES) -> None:
        self.schema = schema
        self.tables = tables

    def resolve(self, node: syntax.Node) -> Typed:
        """Return the typed node, or raise ExpressionErrors with all errors in it."""
        try:
            return self._resolve(node)
        except ExpressionError as error:
            raise ExpressionErrors([error]) from None

    def _resolve(self, node: syntax.Node) -> Typed:
        match node:
            case syntax.Literal():
                return Constant(node.type, node.value is None, node.span, node.value, node.lost)
            case syntax.TypedText():
                text = Constant(STRING, False, node.span, node.text)
                return read_literal(text, node.type)
            case syntax.Name():
                return self.column(node)
            case syntax.Member():
                return self._member(node)
            case syntax.Cast():
                operand = self.resolve(node.operand)
                return cast(operand, node.type, node.span, try_=node.attempt)
            case syntax.Call():
                return self.call(node)
            case syntax.Star():
                raise ExpressionError("* is allowed only in count(*)", node.span)
        raise ExpressionError("a function (x -> ...) is not allowed here", node.span)

    def column(self, node: syntax.Name) -> Typed:
        """Return the column of that name."""
        field = self.schema.get(node.name) or self._of_tables(node)
        if field is None and node.name.lower() in CLOCK:
            return clock(node)
        if field is None:
            hint = did_you_mean(node.name, self._names()) or self._instead(node.name)
            if not all(self.tables.values()):
                hint += " (semi and anti joins keep only the left columns)"
            raise ExpressionError(f'unknown column "{node.name}"', node.span, hint)
        return Column(field.type, field.nullable, node.span, field.name)

    def _of_tables(self, node: syntax.Name) -> Field | None:
        """Return the column of that name in one of the tables."""
        having = [name for name, columns in self.tables.items() if node.name in columns]
        if len(having) > 1:
            message = f'"{node.name}" is a column of {" and ".join(having)}'
            hint = f"write {' or '.join(f'{name}.{node.name}' for name in having)}"
            raise ExpressionError(message, node.span, hint)
        return self.schema.get(self.tables[having[0]][node.name]) if having else None

    def _names(self) -> tuple[str, ...]:
        """Return the names of columns that need no table before them."""
        tables = (name for columns in self.tables.values() for name in columns)
        return tuple(dict.fromkeys((*tables, *self.schema.names)))

    def _instead(self, name: str) -> str:
        if name.lower() in habits.NAMES:
            return habits.NAMES[name.lower()]
        if name in self.tables:
            return f"{name} is an input: write {name}.{next(iter(self.tables[name]), 'column')}"
        shown = ", ".join(self.schema.names[:8]) + (", ..." if len(self.schema) > 8 else "")
        return f"the columns are {shown}; text goes in quotes: '{name}'"

    def _member(self, node: syntax.Member) -> Typed:
        base, name = node.base, node.name
        if isinstance(base, syntax.Name) and base.name in self.tables:
            return self._of_table(node, base.name)
        if isinstance(base, syntax.Name) and base.name not in self.schema and name in self.schema:
            message = f'unknown column "{base.name}"'
            raise ExpressionError(message, base.span, f"write {name}: names have no table prefix")
        meant = self._qualified(name)
        if isinstance(base, syntax.Name) and meant and base.name not in self._names():
            hint = did_you_mean(base.name, tuple(self.tables)) or f"write {meant}"
            raise ExpressionError(f'unknown input "{base.name}"', base.span, hint)
        of = self.resolve(base)
        if not isinstance(of.type, Struct | Array) and (meant or name.lower() in TABLE):
            message = f'no field "{name}": {of.type} has no fields'
            written = base.name if isinstance(base, syntax.Name) else "..."
            hint = f"write {meant or f'{name.lower()}({written})'}"
            raise ExpressionError(message, node.name_span, hint)
        field = Constant(STRING, False, node.name_span, name)
        return TABLE["."].resolve(function.Call(".", (of, field), node.span))

    def _qualified(self, name: str) -> str:
        """Return the column of that name with its table before it, for each table that has one."""
        having = (f"{table}.{name}" for table, columns in self.tables.items() if name in columns)
        return " or ".join(having)

    def _of_table(self, node: syntax.Member, table: str) -> Typed:
        """Return a column of one of the tables."""
        columns = self.tables[table]
        field = self.schema.get(columns.get(node.name, ""))
        if field is None and not columns:
            message = (
                f"no columns of {table} are left: semi and anti joins keep only the left columns"
            )
            raise ExpressionError(message, node.span)
        if field is None:
            known = did_you_mean(node.name, tuple(columns)) or f"it has {', '.join(columns)}"
            hint = f"write {other}" if (other := self._qualified(node.name)) else known
            message = f'unknown column "{node.name}" of {table}'
            raise ExpressionError(message, node.name_span, hint)
        return Column(field.type, field.nullable, node.span, field.name)

    def call(self, node: syntax.Call) -> Typed:
        """Return the typed call of a function or operator of the table."""
        row = TABLE.get(node.name)
        if row is None:
            raise unknown_function(node)
        if node.distinct or node.filter:
            word = "distinct" if node.distinct else "filter"
            message = f"{word} is for aggregates, and {node.name} is not one"
            raise ExpressionError(message, node.name_span)
        arguments = self.arguments(node.arguments)
        return row.resolve(function.Call(node.name, arguments, node.span))

    def arguments(self, nodes: Iterable[syntax.Node]) -> tuple[Typed, ...]:
        """Return the typed arguments; the errors of all of them are raised at once."""
        typed: list[Typed] = []
        errors: list[ExpressionError] = []
        for node in nodes:
            try:
                typed.append(self.resolve(node))
            except ExpressionErrors as failed:
                errors.extend(failed.errors)
        if errors:
            raise ExpressionErrors(errors)
        return tuple(typed)


CLOCK = ("current_timestamp", "current_date")


def clock(node: syntax.Name) -> Typed:
    """Return the call of `current_timestamp` or `current_date` written without parentheses."""
    return TABLE[node.name.lower()].resolve(function.Call(node.name.lower(), (), node.span))


def unknown_function(node: syntax.Call) -> ExpressionError:
    """Return the error for an unknown function: misspelt, an aggregate, or not built yet."""
    from headrace.core.aggregates import TABLE as AGGREGATES

    name = node.name
    if name in AGGREGATES:
        hint = "write it under aggregate: of a step"
        return ExpressionError(f"{name} is an aggregate", node.name_span, hint)
    known = (*filter(str.isidentifier, TABLE), "cast", "extract")
    if name in LATER:
        # The name is a function of Spark and not misspelt: suggest only another spelling of it.
        other = next((k for k in known if _bare(k) == _bare(name)), None)
        hint = f'did you mean "{other}"?' if other else ""
        return ExpressionError(f'function "{name}" is not built yet', node.name_span, hint)
    hint = did_you_mean(name, known) or "`headrace functions` lists them"
    return ExpressionError(f'unknown function "{name}"', node.name_span, hint)


def _bare(name: str) -> str:
    """Normalize the spelling of a name: no underscores and no plural."""
    return name.replace("_", "").removesuffix("s")
