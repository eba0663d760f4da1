"""The resolver of aggregate expressions: from the syntax tree to calls and an expression over them.

`round(sum(price) / count(*), 2)` is two calls over the rows of a group and one plain expression
over their result columns. Inside a call only input columns are allowed, outside only keys and
calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from headrace.core.aggregates.aggregate import PREPARATION
from headrace.core.aggregates.calls import AggregateCall, AggregateExpression, AggregateInput
from headrace.core.aggregates.canonical_text import canonical_text
from headrace.core.aggregates.table import AGGREGATES
from headrace.core.errors.problems import suggest_name
from headrace.core.expressions.function import TypedCall
from headrace.core.expressions.functions import FUNCTIONS
from headrace.core.expressions.parsing import syntax_tree
from headrace.core.expressions.parsing.parser import parse_expression
from headrace.core.expressions.resolver import CLOCK_FUNCTIONS, ExpressionResolver, resolve_clock
from headrace.core.expressions.signature import SortDirection
from headrace.core.expressions.typed import (
    DEFAULT_MAX_VALUE,
    ColumnReference,
    ExpressionError,
    ExpressionErrors,
    FunctionCall,
    TypedExpression,
    is_fallible,
)
from headrace.core.types.data_types import BOOLEAN, Schema


def type_aggregate_text(text: str, schema: Schema, keys: Schema) -> AggregateExpression:
    """Return the typed expression over groups that a text describes. Raises ExpressionErrors."""
    try:
        tree = parse_expression(text)
    except ExpressionError as error:
        raise ExpressionErrors([error]) from None
    return type_aggregates(tree, schema, keys)


def type_aggregates(
    node: syntax_tree.SyntaxNode,
    schema: Schema,
    keys: Schema,
    max_value: int = DEFAULT_MAX_VALUE,
    *,
    has_row_place: bool = False,
) -> AggregateExpression:
    """Return the typed expression over groups of rows of this schema. Raises ExpressionErrors.

    `max_value` is the largest value, in bytes, that a growing call may make; `has_row_place`:
    whether the rows of a group have a place in the row order.
    """
    resolver = _GroupResolver(schema, keys, max_value, has_row_place=has_row_place)
    finish = resolver.resolve(node)
    return AggregateExpression(tuple(resolver.calls.values()), finish)


class _RowResolver(ExpressionResolver):
    """Types expressions inside a call, which are over rows."""

    def resolve_call(self, node: syntax_tree.CallNode) -> TypedExpression:
        if node.name in AGGREGATES:
            message = f"{node.name} is inside another aggregate"
            hint = "aggregate in one step, and again in the next"
            raise ExpressionError(message, node.name_span, hint)
        return super().resolve_call(node)


class _GroupResolver(ExpressionResolver):
    """Types expressions outside of calls, and collects the calls, each once."""

    def __init__(
        self, schema: Schema, keys: Schema, max_value: int, *, has_row_place: bool
    ) -> None:
        super().__init__(keys, max_value=max_value)
        self.rows = _RowResolver(schema, max_value=max_value, has_row_place=has_row_place)
        self.calls: dict[str, AggregateCall] = {}

    def resolve_column(self, node: syntax_tree.Name) -> TypedExpression:
        if node.name in self.schema:
            return super().resolve_column(node)
        if node.name in self.rows.schema:
            message = f'column "{node.name}" is neither a key nor inside an aggregate'
            raise ExpressionError(message, node.span, f"first({node.name}), or add it to key")
        if node.name.lower() in CLOCK_FUNCTIONS:
            return resolve_clock(node)
        names = dict.fromkeys((*self.schema.names, *self.rows.schema.names))
        known = [each for each in names if not each.startswith("__")]
        columns = f"the columns are {', '.join(known)}; text goes in quotes: '{node.name}'"
        hint = suggest_name(node.name, known) or columns
        raise ExpressionError(f'unknown column "{node.name}"', node.span, hint)

    def list_function_names(self) -> Collection[str]:
        return (*FUNCTIONS, *AGGREGATES)

    def resolve_call(self, node: syntax_tree.CallNode) -> TypedExpression:
        if node.name not in AGGREGATES:
            return super().resolve_call(node)
        name = build_call_name(node)
        if name not in self.calls:
            self.calls[name] = self._resolve_aggregate(node, name)
        call = self.calls[name]
        return ColumnReference(call.type, call.nullable, node.span, call.name)

    def _resolve_aggregate(self, node: syntax_tree.CallNode, name: str) -> AggregateCall:
        arguments = _call_arguments(node)
        written = (*arguments, *(item.expression for item in node.within_group))
        typed, condition = self._resolve_inputs(written, node.filter)
        call = TypedCall(node.name, typed[: len(arguments)], node.span)
        order = tuple(zip(typed[len(arguments) :], _sort_directions(node), strict=True))
        distinct = node.name_span if node.is_distinct else None
        resolved = AGGREGATES[node.name].resolve(call, distinct, order)
        constants = resolved.bound.constants
        inputs = tuple(
            _build_input(text, typed, node.filter)
            for i, (text, typed) in enumerate(zip(written, resolved.bound.arguments, strict=True))
            if i not in constants
        )
        where = _build_input(node.filter, condition) if node.filter and condition else None
        type, triple, spark = resolved.type, resolved.accumulator, resolved.spark
        return AggregateCall(name, type, resolved.is_nullable, inputs, where, triple, spark)

    def _resolve_inputs(
        self,
        arguments: tuple[syntax_tree.SyntaxNode, ...],
        condition: syntax_tree.SyntaxNode | None,
    ) -> tuple[tuple[TypedExpression, ...], TypedExpression | None]:
        """Return the typed arguments and condition; the errors of all are raised at once."""
        typed = self.rows.resolve_arguments((*arguments, *((condition,) if condition else ())))
        if condition is None:
            return typed, None
        if typed[-1].type != BOOLEAN:
            message = f"filter wants a boolean condition, got {typed[-1].type}"
            raise ExpressionErrors([ExpressionError(message, typed[-1].span)])
        return typed[:-1], typed[-1]


def _sort_directions(node: syntax_tree.CallNode) -> Iterator[SortDirection]:
    """Yield the direction of each item of `within group`."""
    first = canonical_text(node.arguments[0]) if node.arguments else None
    for item in node.within_group:
        is_argument = canonical_text(item.expression) == first
        yield SortDirection(item.is_descending, item.nulls_last, is_argument)


def build_call_name(node: syntax_tree.CallNode) -> str:
    """Return the name of a call of an aggregate, by which `AggregateExpression` finds it."""
    return f"__{canonical_text(replace(node, name=AGGREGATES[node.name].name))}"


def _call_arguments(node: syntax_tree.CallNode) -> tuple[syntax_tree.SyntaxNode, ...]:
    """Return the arguments of a call; count(*) has none."""
    stars = [each for each in node.arguments if isinstance(each, syntax_tree.Star)]
    if not stars and (node.arguments or node.name != "count"):
        return node.arguments
    if node.name != "count" or len(node.arguments) > 1 or node.is_distinct:
        at = stars[0].span if stars else node.span
        raise ExpressionError("* is allowed only in count(*)", at)
    if not stars:
        hint = "count(*) counts the rows"
        raise ExpressionError("count takes at least 1 argument, got 0", node.span, hint)
    return ()


def _build_input(
    node: syntax_tree.SyntaxNode,
    typed: TypedExpression,
    where: syntax_tree.SyntaxNode | None = None,
) -> AggregateInput:
    """Return the input of this text; a growing one with a filter has values of its own."""
    if isinstance(typed, ColumnReference):
        return AggregateInput(typed.name, typed)
    if isinstance(typed, FunctionCall) and typed.function.startswith(PREPARATION):
        return AggregateInput(f"__{canonical_text(node)} {typed.function}", typed)
    filtered = f" where {canonical_text(where)}" if where and is_fallible(typed) else ""
    return AggregateInput(f"__{canonical_text(node)} {typed.type}{filtered}", typed)
