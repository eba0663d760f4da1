"""The resolver of aggregate expressions: from the syntax tree to calls and an expression over them.

`round(sum(price) / count(*), 2)` is two calls over the rows of a group and one plain expression
over their result columns. Inside a call only input columns are allowed, outside only keys and
calls.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.core.aggregates.calls import AggregateCall, AggregateExpression, Input
from headrace.core.aggregates.identity import identity
from headrace.core.aggregates.table import TABLE
from headrace.core.expressions import syntax
from headrace.core.expressions.function import Call
from headrace.core.expressions.parser import parse
from headrace.core.expressions.resolve import CLOCK, Resolver, clock
from headrace.core.expressions.typed import (
    Column,
    ExpressionError,
    ExpressionErrors,
    Typed,
)
from headrace.core.problems import did_you_mean
from headrace.core.types import BOOLEAN, Schema

AGGREGATE_NAMES = frozenset(TABLE)
"""The names of aggregates in lower case."""


def type_aggregate_text(text: str, schema: Schema, keys: Schema) -> AggregateExpression:
    """Return the typed expression of a text, like `type_expression` for plain ones."""
    try:
        tree = parse(text)
    except ExpressionError as error:
        raise ExpressionErrors([error]) from None
    return type_aggregates(tree, schema, keys)


def type_aggregates(node: syntax.Node, schema: Schema, keys: Schema) -> AggregateExpression:
    """Return the typed expression over groups of rows of this schema, or raise ExpressionErrors."""
    resolver = _GroupResolver(schema, keys)
    finish = resolver.resolve(node)
    return AggregateExpression(tuple(resolver.calls.values()), finish)


class _RowResolver(Resolver):
    """Types expressions inside a call, which are over rows."""

    def call(self, node: syntax.Call) -> Typed:
        if node.name in TABLE:
            message = f"{node.name} is inside another aggregate"
            hint = "aggregate in one step, and again in the next"
            raise ExpressionError(message, node.name_span, hint)
        return super().call(node)


class _GroupResolver(Resolver):
    """Types expressions outside of calls, and collects the calls, each once."""

    def __init__(self, schema: Schema, keys: Schema) -> None:
        super().__init__(keys)
        self.rows = _RowResolver(schema)
        self.calls: dict[str, AggregateCall] = {}

    def column(self, node: syntax.Name) -> Typed:
        if node.name in self.schema:
            return super().column(node)
        if node.name in self.rows.schema:
            message = f'column "{node.name}" is neither a key nor inside an aggregate'
            raise ExpressionError(message, node.span, f"first({node.name}), or add it to key")
        if node.name.lower() in CLOCK:
            return clock(node)
        known = (*self.schema.names, *self.rows.schema.names)
        near = did_you_mean(node.name, known)
        hint = near or f"the columns are {', '.join(dict.fromkeys(known))}"
        raise ExpressionError(f'unknown column "{node.name}"', node.span, hint)

    def call(self, node: syntax.Call) -> Typed:
        if node.name not in TABLE:
            return super().call(node)
        name = call_name(node)
        if name not in self.calls:
            self.calls[name] = self._aggregate(node, name)
        call = self.calls[name]
        return Column(call.type, call.nullable, node.span, call.name)

    def _aggregate(self, node: syntax.Call, name: str) -> AggregateCall:
        written = _arguments(node)
        arguments, condition = self._typed(written, node.filter)
        call = Call(node.name, arguments, node.span)
        resolved = TABLE[node.name].resolve(call, node.name_span if node.distinct else None)
        constants = resolved.bound.constants
        inputs = tuple(
            _input(text, typed)
            for i, (text, typed) in enumerate(zip(written, resolved.bound.arguments, strict=True))
            if i not in constants
        )
        where = _input(node.filter, condition) if node.filter and condition else None
        type, triple, spark = resolved.type, resolved.triple, resolved.spark
        return AggregateCall(name, type, resolved.nullable, inputs, where, triple, spark)

    def _typed(
        self, arguments: tuple[syntax.Node, ...], condition: syntax.Node | None
    ) -> tuple[tuple[Typed, ...], Typed | None]:
        """Return the typed arguments and condition; the errors of all are raised at once."""
        typed = self.rows.arguments((*arguments, *((condition,) if condition else ())))
        if condition is None:
            return typed, None
        if typed[-1].type != BOOLEAN:
            message = f"filter wants a boolean condition, got {typed[-1].type}"
            raise ExpressionErrors([ExpressionError(message, typed[-1].span)])
        return typed[:-1], typed[-1]


def call_name(node: syntax.Call) -> str:
    """Return the name of a call of an aggregate, by which `AggregateExpression` finds it."""
    return f"__{identity(replace(node, name=TABLE[node.name].name))}"


def _arguments(node: syntax.Call) -> tuple[syntax.Node, ...]:
    """Return the arguments of a call; count(*) has none."""
    stars = [each for each in node.arguments if isinstance(each, syntax.Star)]
    if not stars and (node.arguments or node.name != "count"):
        return node.arguments
    if node.name != "count" or len(node.arguments) > 1 or node.distinct:
        at = stars[0].span if stars else node.span
        raise ExpressionError("* is allowed only in count(*)", at)
    if not stars:
        hint = "count(*) counts the rows"
        raise ExpressionError("count takes at least 1 argument, got 0", node.span, hint)
    return ()


def _input(node: syntax.Node, typed: Typed) -> Input:
    if isinstance(typed, Column):
        return Input(typed.name, typed)
    return Input(f"__{identity(node)} {typed.type}", typed)
