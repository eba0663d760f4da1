"""Invariants of a pipeline: conditions on aggregates of all rows of its streams.

`sum(totals.total) = sum(orders.amount)` is two aggregates, each over the rows of one stream, and a
condition on their results. A column is written after the name of its stream, as in `totals.total`
or `split.big.amount`; `count(totals)` counts the rows of a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import polars as pl

from headrace.core.aggregates import (
    AGGREGATES,
    AggregateExpression,
    compute_partial_states,
    compute_results,
    type_aggregates,
)
from headrace.core.errors.problems import Problem, suggest_name
from headrace.core.expressions import ExpressionError, ExpressionErrors, TypedExpression, to_expr
from headrace.core.expressions.functions import FUNCTIONS
from headrace.core.expressions.parsing import syntax_tree
from headrace.core.expressions.parsing.parser import parse_expression
from headrace.core.expressions.resolver import ExpressionResolver
from headrace.core.expressions.typed import ColumnReference
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.testing.row_frames import build_frame
from headrace.core.testing.visible_rows import format_cell
from headrace.core.types.data_types import BOOLEAN, Schema, to_polars
from headrace.core.types.lazy_dataclass import dataclass

StreamRows: TypeAlias = Mapping[str, Sequence[Mapping[str, object]]]
"""The rows of each stream."""
EXAMPLE = "as in sum(totals.total) = sum(orders.amount)"
RESULT = "result"


@dataclass(frozen=True, slots=True)
class StreamAggregate:
    """An aggregate over the rows of one stream; `name` stands for its result in the condition."""

    name: str
    text: str
    stream: str
    schema: Schema
    expression: AggregateExpression

    def compute(self, rows: Sequence[Mapping[str, object]]) -> object:
        """Return the result for these rows; there may be none."""
        calls = self.expression.calls
        states = compute_partial_states(build_frame(rows, self.schema), (), calls)
        return compute_results(states, (), calls, {RESULT: self.expression})[RESULT][0]


@dataclass(frozen=True, slots=True)
class Invariant:
    """A condition on all rows of a run; it is violated where it is false."""

    text: Text
    aggregates: tuple[StreamAggregate, ...]
    condition: TypedExpression

    @property
    def streams(self) -> frozenset[str]:
        """The streams whose rows it reads."""
        return frozenset(each.stream for each in self.aggregates)

    def find_violation(self, rows: StreamRows) -> str:
        """Return the values for which the condition is false, as text; empty if it is not."""
        values = {each.name: each.compute(rows[each.stream]) for each in self.aggregates}
        frame = pl.DataFrame(
            [
                pl.Series(each.name, [values[each.name]], to_polars(each.expression.type))
                for each in self.aggregates
            ]
        )
        if frame.select(to_expr(self.condition)).item() is not False:
            return ""
        return ", ".join(f"{a.text} is {format_cell(values[a.name])}" for a in self.aggregates)


def bind_invariants(
    texts: Iterable[Text], plan: nodes.Plan
) -> tuple[tuple[Invariant, ...], tuple[Problem, ...]]:
    """Return the invariants that fit a plan, and the problems of all others."""
    bound, problems = list[Invariant](), list[Problem]()
    for text in texts:
        try:
            bound.append(_bind(text, plan))
        except ExpressionErrors as errors:
            problems += (
                Problem(e.message, text.locate(e.span.start, e.span.end), e.hint, "invariants")
                for e in errors.errors
            )
    return tuple(bound), tuple(problems)


def _bind(text: Text, plan: nodes.Plan) -> Invariant:
    """Return an invariant. Raises ExpressionErrors."""
    try:
        tree = parse_expression(text)
    except ExpressionError as error:
        raise ExpressionErrors([error]) from None
    resolver = _InvariantResolver(text, plan)
    condition = resolver.resolve(tree)
    whole = condition.span
    if condition.type != BOOLEAN:
        message = f"wanted a condition, got an expression of type {condition.type}"
        raise ExpressionErrors([ExpressionError(message, whole, EXAMPLE)])
    if not resolver.aggregates:
        message = "a condition without an aggregate of a stream"
        raise ExpressionErrors([ExpressionError(message, whole, EXAMPLE)])
    return Invariant(text, tuple(resolver.aggregates), condition)


class _InvariantResolver(ExpressionResolver):
    """Types the condition, and collects its aggregates."""

    def __init__(self, text: str, plan: nodes.Plan) -> None:
        super().__init__(Schema(()))
        self.text = text
        self.streams = {name: s for name, s in plan.streams.items() if "@" not in name}
        self.aggregates: list[StreamAggregate] = []

    def resolve_column(self, node: syntax_tree.Name) -> TypedExpression:
        message = f'"{node.name}" is not inside an aggregate'
        raise ExpressionError(message, node.span, EXAMPLE)

    def list_function_names(self) -> tuple[str, ...]:
        return (*FUNCTIONS, *AGGREGATES)

    def resolve_call(self, node: syntax_tree.CallNode) -> TypedExpression:
        if node.name not in AGGREGATES:
            return super().resolve_call(node)
        call, stream = self._remove_stream(node)
        schema = self.streams[stream].schema
        expression = type_aggregates(call, schema, Schema(()))
        if expression.needs_order:
            message = f"{node.name} depends on the order of rows, which differs between runs"
            raise ExpressionError(message, node.name_span)
        name = f"__aggregate_{len(self.aggregates)}"
        text = self.text[node.span.start : node.span.end]
        self.aggregates.append(StreamAggregate(name, text, stream, schema, expression))
        return ColumnReference(expression.type, expression.finish.nullable, node.span, name)

    def _remove_stream(self, node: syntax_tree.CallNode) -> tuple[syntax_tree.CallNode, str]:
        """Return a call without the name of its stream before each column, and that name."""
        found: dict[str, syntax_tree.SyntaxNode] = {}

        def find(
            each: syntax_tree.SyntaxNode, bound: frozenset[str]
        ) -> syntax_tree.SyntaxNode | None:
            path = _list_path(each)
            if not path or path[0] in bound:
                return None
            stream = self._find_stream(path, each)
            found.setdefault(stream, each)
            return _strip(each, len(stream.split(".")), path)

        if node.name == "count" and len(node.arguments) == 1:
            stream = ".".join(_list_path(node.arguments[0]))
            if stream in self.streams:
                star = syntax_tree.Star(node.arguments[0].span)
                return replace(node, arguments=(star,)), stream
        call = syntax_tree.replace_nodes(node, find)
        assert isinstance(call, syntax_tree.CallNode)
        if not found:
            hint = f"count({next(iter(self.streams))}) counts the rows of a stream"
            raise ExpressionError(f"{node.name} names no column of a stream", node.span, hint)
        if len(found) > 1:
            names = " and ".join(f'"{name}"' for name in found)
            message = f"{node.name} is over one stream, and this names {names}"
            raise ExpressionError(message, node.span, EXAMPLE)
        return call, next(iter(found))

    def _find_stream(self, path: Sequence[str], node: syntax_tree.SyntaxNode) -> str:
        """Return the stream with which a dotted name begins. Raises ExpressionError."""
        for count in (2, 1):
            name = ".".join(path[:count])
            if count < len(path) and name in self.streams:
                return name
        known = ", ".join(self.streams)
        if ".".join(path) in self.streams:
            stream = ".".join(path)
            message = f'"{stream}" is a stream: which of its columns is meant?'
            raise ExpressionError(message, node.span, f"write {stream}.column")
        if len(path) == 1:
            having = [n for n, s in self.streams.items() if path[0] in s.schema]
            meant = f"write {having[0]}.{path[0]}" if having else f"the streams are {known}"
            raise ExpressionError(f'"{path[0]}" is of no stream', node.span, meant)
        hint = suggest_name(path[0], tuple(self.streams)) or f"the streams are {known}"
        raise ExpressionError(f'there is no stream "{path[0]}"', node.span, hint)


def _list_path(node: syntax_tree.SyntaxNode) -> list[str]:
    """Return the names of a dotted name, as of `split.big.amount`; of other nodes none."""
    match node:
        case syntax_tree.Name(name=name):
            return [name]
        case syntax_tree.Member(base=base, name=name):
            before = _list_path(base)
            return [*before, name] if before else []
    return []


def _strip(node: syntax_tree.SyntaxNode, count: int, path: Sequence[str]) -> syntax_tree.SyntaxNode:
    """Return a dotted name without the first names."""
    if len(path) == count + 1:
        return syntax_tree.Name(node.span, path[-1])
    assert isinstance(node, syntax_tree.Member)
    return replace(node, base=_strip(node.base, count, path[:-1]))
