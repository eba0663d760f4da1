"""From the syntax tree to the typed tree: names become columns, calls become rows of the table."""

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
"""Names that stand before a dot: of the columns of each, how the schema calls them."""

NO_TABLES: Tables = MappingProxyType({})


class Resolver:
    """Types the expressions over one schema. A subclass may know more calls (aggregates do)."""

    def __init__(self, schema: Schema, tables: Tables = NO_TABLES) -> None:
        self.schema = schema
        self.tables = tables

    def resolve(self, node: syntax.Node) -> Typed:
        """The typed node; raises ExpressionErrors with all that is wrong in it."""
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
                raise ExpressionError("* stands only in count(*)", node.span)
        raise ExpressionError("a function (x -> ...) cannot stand here", node.span)

    def column(self, node: syntax.Name) -> Typed:
        """The column of that name."""
        field = self.schema.get(node.name) or self._of_tables(node)
        if field is None and node.name.lower() in CLOCK:
            return clock(node)
        if field is None:
            hint = did_you_mean(node.name, self._names()) or self._instead(node.name)
            if not all(self.tables.values()):
                hint += " (semi and anti have left rows alone)"
            raise ExpressionError(f'unknown column "{node.name}"', node.span, hint)
        return Column(field.type, field.nullable, node.span, field.name)

    def _of_tables(self, node: syntax.Name) -> Field | None:
        """The column of that name of one of the tables."""
        having = [name for name, columns in self.tables.items() if node.name in columns]
        if len(having) > 1:
            message = f'"{node.name}" stands in both {" and ".join(having)}'
            hint = f"write {' or '.join(f'{name}.{node.name}' for name in having)}"
            raise ExpressionError(message, node.span, hint)
        return self.schema.get(self.tables[having[0]][node.name]) if having else None

    def _names(self) -> tuple[str, ...]:
        """The names of columns that may be written without a table."""
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
            raise ExpressionError(message, base.span, f"write {name}: names have no table before")
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
        """A column of that name with its table before it, or with each that has one."""
        having = (f"{table}.{name}" for table, columns in self.tables.items() if name in columns)
        return " or ".join(having)

    def _of_table(self, node: syntax.Member, table: str) -> Typed:
        """A column of one of the tables."""
        columns = self.tables[table]
        field = self.schema.get(columns.get(node.name, ""))
        if field is None and not columns:
            message = f"no column of {table} comes out: semi and anti have left rows alone"
            raise ExpressionError(message, node.span)
        if field is None:
            known = did_you_mean(node.name, tuple(columns)) or f"it has {', '.join(columns)}"
            hint = f"write {other}" if (other := self._qualified(node.name)) else known
            message = f'unknown column "{node.name}" of {table}'
            raise ExpressionError(message, node.name_span, hint)
        return Column(field.type, field.nullable, node.span, field.name)

    def call(self, node: syntax.Call) -> Typed:
        """A call of a function or operator of the table."""
        row = TABLE.get(node.name)
        if row is None:
            raise unknown_function(node)
        if node.distinct or node.filter:
            word = "distinct" if node.distinct else "filter"
            message = f"{word} goes with aggregates, and {node.name} is none"
            raise ExpressionError(message, node.name_span)
        arguments = self.arguments(node.arguments)
        return row.resolve(function.Call(node.name, arguments, node.span))

    def arguments(self, nodes: Iterable[syntax.Node]) -> tuple[Typed, ...]:
        """The arguments typed; what is wrong in any of them is said at once."""
        typed: list[Typed] = []
        errors: list[ExpressionError] = []
        for node in nodes:
            try:
                typed.append(self.resolve(node))
            except ExpressionErrors as wrong:
                errors.extend(wrong.errors)
        if errors:
            raise ExpressionErrors(errors)
        return tuple(typed)


CLOCK = ("current_timestamp", "current_date")


def clock(node: syntax.Name) -> Typed:
    """`current_timestamp` and `current_date` are calls also without parentheses."""
    return TABLE[node.name.lower()].resolve(function.Call(node.name.lower(), (), node.span))


def unknown_function(node: syntax.Call) -> ExpressionError:
    """Why there is no such function: misspelt, an aggregate, or one that is not built yet."""
    from headrace.core.aggregates import TABLE as AGGREGATES

    name = node.name
    if name in AGGREGATES:
        hint = "it stands under aggregate: of a step"
        return ExpressionError(f"{name} is an aggregate", node.name_span, hint)
    known = (*filter(str.isidentifier, TABLE), "cast", "extract")
    if name in LATER:
        # Such a name is no slip of the fingers: only another spelling of it is worth a word.
        other = next((k for k in known if _bare(k) == _bare(name)), None)
        hint = f'did you mean "{other}"?' if other else ""
        return ExpressionError(f'function "{name}" is not built yet', node.name_span, hint)
    hint = did_you_mean(name, known) or "headrace functions lists them"
    return ExpressionError(f'unknown function "{name}"', node.name_span, hint)


def _bare(name: str) -> str:
    """A name without what its spellings differ in: underscores and the plural."""
    return name.replace("_", "").removesuffix("s")
