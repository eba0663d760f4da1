"""Calls over the rows of a key in their order, and expressions made of such calls and of columns.

    row_number(), rank(), dense_rank()     the place of a row
    lag(x, n, default), lead(...)          the value in an earlier or later row
    sum(x) over (rows 4 preceding)         an aggregate of the rows of a frame

`price - lag(price)` is one call, and an expression over its result and the columns of the row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Literal, TypeAlias

from headrace.core.aggregates.accumulator import Accumulator
from headrace.core.aggregates.aggregate_resolver import type_aggregates
from headrace.core.aggregates.calls import AggregateCall, AggregateInput
from headrace.core.aggregates.canonical_text import canonical_text
from headrace.core.aggregates.ordered_aggregates import build_nth
from headrace.core.aggregates.table import AGGREGATES
from headrace.core.expressions.coercion import coerce_argument
from headrace.core.expressions.functions import FUNCTIONS
from headrace.core.expressions.parsing import syntax_tree
from headrace.core.expressions.parsing.syntax_tree import DEFAULT_FRAME, RowFrame
from headrace.core.expressions.resolver import ExpressionResolver
from headrace.core.expressions.typed import (
    DEFAULT_MAX_VALUE,
    ColumnReference,
    Constant,
    ExpressionError,
    TypedExpression,
    find_columns,
)
from headrace.core.types.data_types import BOOLEAN, INT, Schema, Type
from headrace.core.types.lazy_dataclass import dataclass

RankFunction: TypeAlias = Literal["row_number", "rank", "dense_rank"]

RANK_FUNCTIONS: tuple[RankFunction, ...] = ("row_number", "rank", "dense_rank")
OFFSET_FUNCTIONS = ("lag", "lead")
OVER_FUNCTIONS = (*RANK_FUNCTIONS, *OFFSET_FUNCTIONS, "nth_value")
"""The functions that are only over ordered rows; the others are aggregates."""


@dataclass(frozen=True, slots=True)
class RankCall:
    """A number by the place of a row; `name` is the column of its result."""

    name: str
    function: RankFunction

    @property
    def type(self) -> Type:
        """The type of the result."""
        return INT

    @property
    def is_nullable(self) -> bool:
        """Whether the result may be NULL."""
        return False

    @property
    def inputs(self) -> tuple[AggregateInput, ...]:
        """The columns that it reads of a row."""
        return ()


@dataclass(frozen=True, slots=True)
class OffsetCall:
    """The value in the row `offset` rows further on (before, if negative), or the default."""

    name: str
    value: AggregateInput
    offset: int
    default: AggregateInput | None
    """The value where there is no such row: of the row itself; None: NULL."""

    @property
    def type(self) -> Type:
        """The type of the result."""
        return self.value.typed.type

    @property
    def is_nullable(self) -> bool:
        """Whether the result may be NULL."""
        default = self.default
        return self.value.typed.nullable or default is None or default.typed.nullable

    @property
    def inputs(self) -> tuple[AggregateInput, ...]:
        """The columns that it reads of a row."""
        return (self.value, *((self.default,) if self.default else ()))


@dataclass(frozen=True, slots=True)
class FrameCall:
    """An aggregate of the rows of a frame."""

    name: str
    aggregate: AggregateCall
    frame: RowFrame

    @property
    def type(self) -> Type:
        """The type of the result."""
        return self.aggregate.type

    @property
    def is_nullable(self) -> bool:
        """Whether the result may be NULL."""
        return self.aggregate.nullable

    @property
    def inputs(self) -> tuple[AggregateInput, ...]:
        """The columns that it reads of a row."""
        return self.aggregate.all_inputs


OverCall: TypeAlias = RankCall | OffsetCall | FrameCall


@dataclass(frozen=True, slots=True)
class OverExpression:
    """An expression over a row: `finish` reads the columns of its calls and those of the row."""

    calls: tuple[OverCall, ...]
    finish: TypedExpression

    @property
    def type(self) -> Type:
        """The type of the result."""
        return self.finish.type

    @property
    def input_columns(self) -> frozenset[str]:
        """The columns of rows that the expression reads."""
        made = {call.name for call in self.calls}
        read = (find_columns(each.typed) for call in self.calls for each in call.inputs)
        return frozenset(find_columns(self.finish) - made).union(*read)


def deduplicate_over_calls(expressions: Iterable[OverExpression]) -> tuple[OverCall, ...]:
    """Return the calls of several expressions, each once."""
    calls = (call for expression in expressions for call in expression.calls)
    return tuple({call.name: call for call in calls}.values())


def list_carried_calls(expressions: Iterable[OverExpression]) -> tuple[AggregateCall, ...]:
    """Return the calls of aggregates over frames without a start, each once.

    Their states are carried from row to row.
    """
    calls = (call for call in deduplicate_over_calls(expressions) if isinstance(call, FrameCall))
    carried = (call.aggregate for call in calls if call.frame.start is None)
    return tuple({call.name: call for call in carried}.values())


def find_computed_inputs(calls: Iterable[OverCall]) -> dict[str, TypedExpression]:
    """Return the inputs of calls that are more than a column, by their names, each once."""
    found: dict[str, TypedExpression] = {}
    for call in calls:
        if isinstance(call, FrameCall):
            found.update(call.aggregate.computed_inputs)
        else:
            found.update((each.name, each.typed) for each in call.inputs if each.is_computed)
    return found


def read_computed_inputs(call: OverCall) -> OverCall:
    """Return the call over rows in which its inputs have been computed."""
    if not isinstance(call, FrameCall):
        return call
    aggregate = call.aggregate
    condition = aggregate.condition and _read_input(aggregate.condition)
    inputs = tuple(map(_read_input, aggregate.inputs))
    return replace(call, aggregate=replace(aggregate, inputs=inputs, condition=condition))


def _read_input(each: AggregateInput) -> AggregateInput:
    typed = each.typed
    return replace(each, typed=ColumnReference(typed.type, typed.nullable, typed.span, each.name))


def type_over(
    node: syntax_tree.SyntaxNode,
    schema: Schema,
    max_value: int = DEFAULT_MAX_VALUE,
) -> OverExpression:
    """Return the typed expression over ordered rows of this schema. Raises ExpressionErrors."""
    resolver = _OverResolver(schema, max_value=max_value)
    finish = resolver.resolve(node)
    return OverExpression(tuple(resolver.calls.values()), finish)


class _InputResolver(ExpressionResolver):
    """Types expressions inside a call, which are over one row."""

    def resolve_call(self, node: syntax_tree.CallNode) -> TypedExpression:
        if node.name in AGGREGATES or node.name in OVER_FUNCTIONS:
            message = f"{node.name} is inside another function over rows"
            raise ExpressionError(message, node.name_span, "compute it in an earlier step")
        return super().resolve_call(node)

    def _resolve_node(self, node: syntax_tree.SyntaxNode) -> TypedExpression:
        inner = node.call if isinstance(node, syntax_tree.FramedCall) else node
        return super()._resolve_node(inner)


class _OverResolver(ExpressionResolver):
    """Types expressions outside of calls, and collects the calls, each once."""

    def __init__(self, schema: Schema, *, max_value: int) -> None:
        super().__init__(schema, max_value=max_value)
        self.calls: dict[str, OverCall] = {}
        self._inputs = _InputResolver(schema, max_value=max_value)

    def list_function_names(self) -> Collection[str]:
        return (*FUNCTIONS, *AGGREGATES, *OVER_FUNCTIONS)

    def _resolve_node(self, node: syntax_tree.SyntaxNode) -> TypedExpression:
        if isinstance(node, syntax_tree.FramedCall):
            return self._resolve_over(node.call, node.frame, is_framed=True)
        return super()._resolve_node(node)

    def resolve_call(self, node: syntax_tree.CallNode) -> TypedExpression:
        if node.name in AGGREGATES or node.name in OVER_FUNCTIONS:
            return self._resolve_over(node, None)
        return super().resolve_call(node)

    def _resolve_over(
        self, node: syntax_tree.CallNode, frame: RowFrame | None, *, is_framed: bool = False
    ) -> TypedExpression:
        if is_framed and node.name not in AGGREGATES and node.name not in OVER_FUNCTIONS:
            if node.name not in FUNCTIONS:
                return super().resolve_call(node)
            message = f"{node.name} is not a function over rows"
            hint = "over takes aggregates, row_number, rank, dense_rank, lag, lead and nth_value"
            raise ExpressionError(message, node.name_span, hint)
        call = self._build_call(node, frame)
        self.calls.setdefault(call.name, call)
        return ColumnReference(call.type, call.is_nullable, node.span, call.name)

    def _build_call(self, node: syntax_tree.CallNode, frame: RowFrame | None) -> OverCall:
        if node.name in AGGREGATES:
            return self._build_frame_call(node, frame or DEFAULT_FRAME)
        if node.is_distinct or node.filter or node.within_group:
            word = "distinct" if node.is_distinct else "filter" if node.filter else "within group"
            message = f"{word} is for aggregates, and {node.name} is not one"
            raise ExpressionError(message, node.name_span)
        if node.name == "nth_value":
            return self._build_nth_call(node, frame or DEFAULT_FRAME)
        if frame is not None:
            message = f"{node.name} takes no frame: it is about single rows"
            raise ExpressionError(message, node.span, "leave out over (...)")
        if node.name in OFFSET_FUNCTIONS:
            return self._build_offset_call(node)
        if node.arguments:
            message = f"{node.name} takes no arguments, got {len(node.arguments)}"
            raise ExpressionError(message, node.span)
        function = next(each for each in RANK_FUNCTIONS if each == node.name)
        return RankCall(f"__{function}()", function)

    def _build_frame_call(self, node: syntax_tree.CallNode, frame: RowFrame) -> FrameCall:
        found = type_aggregates(
            node, self.schema, Schema(()), self.max_value, has_row_place=self.has_row_place
        )
        (call,) = found.calls
        return FrameCall(f"{call.name} over ({frame})", call, frame)

    def _build_nth_call(self, node: syntax_tree.CallNode, frame: RowFrame) -> FrameCall:
        if not 2 <= len(node.arguments) <= 3:
            message = f"nth_value takes 2 arguments, got {len(node.arguments)}"
            raise ExpressionError(message, node.span, "as in nth_value(price, 2)")
        (value,) = self._inputs.resolve_arguments(node.arguments[:1])
        number = _read_number(node, 1)
        if number < 1:
            raise ExpressionError("wanted a number from 1", node.arguments[1].span)
        skips_nulls = _reads_true(node.arguments[2:])
        accumulator = build_nth(value.type, number, skips_nulls=skips_nulls)
        name = f"__{canonical_text(node)}"
        call = _make_aggregate_call(name, self._build_input(node.arguments[0], value), accumulator)
        return FrameCall(f"{name} over ({frame})", call, frame)

    def _build_offset_call(self, node: syntax_tree.CallNode) -> OffsetCall:
        if not 1 <= len(node.arguments) <= 3:
            message = f"{node.name} takes 1 to 3 arguments, got {len(node.arguments)}"
            hint = f"as in {node.name}(price), or {node.name}(price, 1, 0.0)"
            raise ExpressionError(message, node.span, hint)
        last = node.arguments[-1]
        # The parser makes `true` of `ignore nulls`, with the span of its first word.
        is_flag = isinstance(last, syntax_tree.Literal) and last.type == BOOLEAN
        if is_flag and last.span.end - last.span.start == len("ignore"):
            message = f"{node.name} does not ignore nulls"
            hint = "last(value, true) over (rows between unbounded preceding and 1 preceding)"
            raise ExpressionError(message, last.span, hint)
        value, *more = self._inputs.resolve_arguments((*node.arguments[:1], *node.arguments[2:]))
        offset = _read_number(node, 1) if len(node.arguments) > 1 else 1
        default = None
        if more:
            coerced = coerce_argument(more[0], value.type)
            if coerced is None:
                message = f"the default of {node.name} is {more[0].type}, the value {value.type}"
                raise ExpressionError(message, more[0].span, f"cast(... as {value.type})")
            is_null = isinstance(coerced, Constant) and coerced.value is None
            default = None if is_null else self._build_input(node.arguments[2], coerced)
        return OffsetCall(
            f"__{canonical_text(node)}",
            self._build_input(node.arguments[0], value),
            -offset if node.name == "lag" else offset,
            default,
        )

    def _build_input(self, node: syntax_tree.SyntaxNode, typed: TypedExpression) -> AggregateInput:
        if isinstance(typed, ColumnReference):
            return AggregateInput(typed.name, typed)
        return AggregateInput(f"__{canonical_text(node)} {typed.type}", typed)


def _read_number(node: syntax_tree.CallNode, at: int) -> int:
    """Return a constant argument that is a whole number."""
    match node.arguments[at]:
        case syntax_tree.Literal(value=int() as value) if not isinstance(value, bool):
            return value
        case argument:
            message = f"wanted a number of rows, got {canonical_text(argument)}"
            raise ExpressionError(message, argument.span, f"as in {node.name}(price, 2)")


def _reads_true(arguments: tuple[syntax_tree.SyntaxNode, ...]) -> bool:
    """Whether an optional flag is true."""
    for argument in arguments:
        match argument:
            case syntax_tree.Literal(value=bool() as value):
                return value
        raise ExpressionError("wanted true or false", argument.span)
    return False


def _make_aggregate_call(
    name: str, value: AggregateInput, accumulator: Accumulator
) -> AggregateCall:
    return AggregateCall(name, value.typed.type, True, (value,), None, accumulator)
