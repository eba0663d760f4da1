"""The expressions of operations over input rows: listed, replaced, and those that may fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from headrace.core.expressions.typed import (
    NOWHERE,
    ColumnReference,
    TypedExpression,
    is_fallible,
    with_null_on_failure,
)
from headrace.core.plan.nodes import (
    Aggregate,
    AggregatedColumn,
    Apply,
    ChangelogConversion,
    ComputedColumn,
    Dedup,
    Explode,
    Filter,
    Join,
    KeyedOperation,
    Lookup,
    Match,
    MatchCondition,
    Operation,
    Over,
    OverColumn,
    Process,
    Project,
    Route,
    RowTime,
    Top,
)
from headrace.core.types.data_types import TIMESTAMP
from headrace.core.types.elements import EVENT_TIME
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateCall, AggregateInput

ExpressionRule: TypeAlias = Callable[[TypedExpression], TypedExpression]
OperationT = TypeVar("OperationT", bound=Operation)
"""A type of operation."""

EVENT_TIME_REFERENCE = ColumnReference(TIMESTAMP, True, NOWHERE, EVENT_TIME)
"""The event time as a column: every projection passes it on."""

SHOWN_CHARACTERS = 60
"""The length to which the text of a condition is cut in messages."""


@dataclass(frozen=True, slots=True)
class RowExpression:
    """An expression of an operation over its input rows."""

    place: str
    """Its place in the operation, for messages: `column "total"`."""
    typed: TypedExpression
    is_key: bool = False
    """Whether it is a part of the key of the operation."""


def find_fallible_expressions(operation: Operation) -> tuple[RowExpression, ...]:
    """Return the expressions over input rows that may fail, in the order of the operation."""
    return tuple(each for each in list_expressions(operation) if is_fallible(each.typed))


def find_fallible_keys(join: Join) -> Iterator[tuple[RowExpression, ...]]:
    """Yield the keys of each input of a join that may fail."""
    for side in (join.left, join.right):
        keys = (RowExpression(f'key "{c.name}"', c.value, is_key=True) for c in side.key)
        yield tuple(each for each in keys if is_fallible(each.typed))


def list_expressions(operation: Operation) -> Iterator[RowExpression]:
    """Yield the expressions of an operation over its input rows."""
    match operation:
        case Filter(condition, text):
            yield RowExpression(f"the condition {_shorten_text(text)}", condition)
        case Project(columns=columns):
            for column in columns:
                yield RowExpression(f'column "{column.name}"', column.value)
        case Explode(array=array):
            yield RowExpression("explode", array)
        case Route(branches):
            for name, condition, _ in branches:
                yield RowExpression(f'the condition of "{name}"', condition)
        case RowTime(value):
            yield RowExpression("event_time", value)
        case Aggregate(columns=aggregated):
            inputs = {
                name: RowExpression(f'an argument of "{added.name}"', value)
                for added in reversed(aggregated)
                for call in added.expression.calls
                for name, value in call.computed_inputs.items()
            }
            yield from inputs.values()
        case Top(by=by):
            for ranking in by:
                yield RowExpression("by", ranking.value)
        case Over(columns=over_columns):
            yield from _list_over_inputs(over_columns)
        case Match():
            yield from _list_match_inputs(operation)
        case Join(left, right):
            for column in (*left.key, *right.key):
                yield RowExpression(f'key "{column.name}"', column.value, is_key=True)
    if isinstance(operation, KeyedOperation | Lookup):
        # An upsert whose lookup fails deletes the row before it.
        is_key = not (isinstance(operation, Lookup) and operation.reads_upserts)
        for column in operation.key:
            yield RowExpression(f'key "{column.name}"', column.value, is_key=is_key)


def _list_match_inputs(match: Match) -> Iterator[RowExpression]:
    """Yield the conditions over single rows, and the computed inputs of calls."""
    for condition in match.conditions:
        if not condition.is_crossed:
            place = f'the condition of "{condition.variable}"'
            yield RowExpression(place, condition.value.finish)
        for call in condition.value.calls:
            yield from _list_call_inputs(call, f'the condition of "{condition.variable}"')
    for column in match.emit:
        for call in column.expression.calls:
            yield from _list_call_inputs(call, f'an argument of "{column.name}"')


def _list_call_inputs(call: AggregateCall, place: str) -> Iterator[RowExpression]:
    return (RowExpression(place, each.typed) for each in call.inputs if each.is_computed)


def _list_over_inputs(columns: tuple[OverColumn, ...]) -> Iterator[RowExpression]:
    """Yield the inputs of calls that are more than a column, each once."""
    # Loading all aggregates takes time, which a pipeline without aggregates need not spend.
    from headrace.core.aggregates.over_calls import find_computed_inputs

    inputs = {
        name: RowExpression(f'an argument of "{column.name}"', value)
        for column in reversed(columns)
        for name, value in find_computed_inputs(column.expression.calls).items()
    }
    yield from inputs.values()


def _shorten_text(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}..."


def is_fallible_operation(operation: Operation) -> bool:
    """Whether an input row may fail because of an expression of the operation."""
    return bool(find_fallible_expressions(operation))


def replace_expressions(operation: OperationT, rule: ExpressionRule) -> OperationT:
    """Return the operation with each expression over input rows replaced by the rule's."""
    match operation:
        case Filter(condition):
            return replace(operation, condition=rule(condition))
        case Project(columns=columns):
            return replace(operation, columns=_replace_columns(columns, rule))
        case Explode(array=array):
            return replace(operation, array=rule(array))
        case Route(branches):
            replaced = ((name, rule(condition), text) for name, condition, text in branches)
            return replace(operation, branches=tuple(replaced))
        case RowTime(value):
            return replace(operation, value=rule(value))
        case Aggregate(key=key, columns=aggregated):
            added = tuple(_replace_arguments(column, rule) for column in aggregated)
            return replace(operation, key=_replace_columns(key, rule), columns=added)
        case Top(key=key, by=by):
            ranked = tuple(replace(each, value=rule(each.value)) for each in by)
            return replace(operation, key=_replace_columns(key, rule), by=ranked)
        case Over(key=key, columns=over_columns):
            made = tuple(_replace_over_arguments(column, rule) for column in over_columns)
            return replace(operation, key=_replace_columns(key, rule), columns=made)
        case Match(key=key, conditions=conditions, emit=emit):
            tests = tuple(_replace_in_condition(each, rule) for each in conditions)
            emit = tuple(_replace_arguments(each, rule) for each in emit)
            key = _replace_columns(key, rule)
            return replace(operation, key=key, conditions=tests, emit=emit)
        case Join(left, right):
            left = replace(left, key=_replace_columns(left.key, rule))
            right = replace(right, key=_replace_columns(right.key, rule))
            return replace(operation, left=left, right=right)
        case (
            Apply(key=key)
            | ChangelogConversion(key=key)
            | Dedup(key=key)
            | Process(key=key)
            | Lookup(key=key)
        ):
            return replace(operation, key=_replace_columns(key, rule))
    return operation


def without_failures(operation: OperationT) -> OperationT:
    """Return the operation with NULL for values that fail, for rows that were checked before."""
    return replace_expressions(operation, with_null_on_failure)


def _replace_in_condition(condition: MatchCondition, rule: ExpressionRule) -> MatchCondition:
    """Return the condition with the rule applied to what it computes of single rows."""
    value = condition.value
    calls = tuple(_replace_call(call, rule) for call in value.calls)
    finish = value.finish if condition.is_crossed else rule(value.finish)
    return replace(condition, value=replace(value, calls=calls, finish=finish))


def _replace_columns(
    columns: tuple[ComputedColumn, ...], rule: ExpressionRule
) -> tuple[ComputedColumn, ...]:
    return tuple(replace(column, value=rule(column.value)) for column in columns)


def _replace_arguments(column: AggregatedColumn, rule: ExpressionRule) -> AggregatedColumn:
    calls = tuple(_replace_call(call, rule) for call in column.expression.calls)
    return replace(column, expression=replace(column.expression, calls=calls))


def _replace_call(call: AggregateCall, rule: ExpressionRule) -> AggregateCall:
    condition = call.condition and _replace_input(call.condition, rule)
    inputs = tuple(_replace_input(each, rule) for each in call.inputs)
    return replace(call, inputs=inputs, condition=condition)


def _replace_input(each: AggregateInput, rule: ExpressionRule) -> AggregateInput:
    return replace(each, typed=rule(each.typed))


def _replace_over_arguments(column: OverColumn, rule: ExpressionRule) -> OverColumn:
    from headrace.core.aggregates.over_calls import FrameCall, OffsetCall, OverCall

    def replace_call(call: OverCall) -> OverCall:
        match call:
            case FrameCall(aggregate=aggregate):
                return replace(call, aggregate=_replace_call(aggregate, rule))
            case OffsetCall(value=value, default=default):
                default = default and _replace_input(default, rule)
                return replace(call, value=_replace_input(value, rule), default=default)
        return call

    calls = tuple(map(replace_call, column.expression.calls))
    return replace(column, expression=replace(column.expression, calls=calls))
