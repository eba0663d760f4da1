"""The condition `on` of a join: equalities between the inputs, and the rest of the condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from headrace.core.expressions import function
from headrace.core.expressions.functions import FUNCTIONS
from headrace.core.expressions.typed import (
    FunctionCall,
    ProcessingTime,
    TypedExpression,
    find_columns,
    walk,
)
from headrace.core.pipeline.text import Text
from headrace.core.plan.columns import (
    KnownColumns,
    PlanProblems,
    suggest_single_value,
    type_condition,
)
from headrace.core.plan.nodes import StreamKind
from headrace.core.types.data_types import Field, Schema, is_nested
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class JoinInput:
    """An input of a join: its name, its kind, and its known columns."""

    name: str
    kind: StreamKind
    known_columns: KnownColumns
    has_event_time: bool


@dataclass(frozen=True, slots=True)
class JoinCondition:
    """The parts of a join condition, over columns that are called `input.column`."""

    equalities: tuple[tuple[TypedExpression, TypedExpression], ...]
    """Pairs of a left and a right value that must be equal."""
    rest: TypedExpression | None
    """The rest of the condition."""


def split_condition(
    text: Text, left: JoinInput, right: JoinInput, report: PlanProblems
) -> JoinCondition | None:
    """Return the conditions; None if they are invalid, which is reported."""
    typed = type_condition(text, _merge_columns(left, right), report)
    if typed is None:
        return None
    if any(isinstance(node, ProcessingTime) for node in walk(typed)):
        report.add("the processing time has no place in a join", text.locate())
        return None
    pairs: list[tuple[TypedExpression, TypedExpression]] = []
    rest: list[TypedExpression] = []
    for each in _split_conjunction(typed):
        pair = _get_equality(each, left, right)
        if pair is None:
            rest.append(each)
            continue
        pairs.append(pair)
        if is_nested(pair[0].type):
            at = text.locate(each.span.start, each.span.end)
            message = f"wanted a key of a single value, got {pair[0].type}"
            report.add(message, at, suggest_single_value(pair[0].type))
    return JoinCondition(tuple(pairs), _build_conjunction(rest))


def _merge_columns(left: JoinInput, right: JoinInput) -> KnownColumns:
    """Return the columns of both inputs."""
    fields = (
        Field(f"{side.name}.{field.name}", field.type, field.nullable)
        for side in (left, right)
        for field in side.known_columns.schema
    )
    tables = {
        side.name: {name: f"{side.name}.{name}" for name in side.known_columns.schema.names}
        for side in (left, right)
    }
    return KnownColumns(Schema(tuple(fields)), tables=tables)


def _get_equality(
    typed: TypedExpression, left: JoinInput, right: JoinInput
) -> tuple[TypedExpression, TypedExpression] | None:
    """Return the left and the right value of an equality between the inputs; None for others."""
    if not (isinstance(typed, FunctionCall) and typed.function in ("=", "==")):
        return None
    one, other = typed.arguments
    if _reads_only(one, right) and _reads_only(other, left):
        one, other = other, one
    elif not (_reads_only(one, left) and _reads_only(other, right)):
        return None
    return (one, other) if one.type == other.type else None


def _reads_only(typed: TypedExpression, side: JoinInput) -> bool:
    names = find_columns(typed)
    return bool(names) and all(name.startswith(f"{side.name}.") for name in names)


def _split_conjunction(typed: TypedExpression) -> Iterator[TypedExpression]:
    """Yield the operands of a conjunction."""
    if isinstance(typed, FunctionCall) and typed.function == "and":
        for argument in typed.arguments:
            yield from _split_conjunction(argument)
    else:
        yield typed


def _build_conjunction(conditions: Sequence[TypedExpression]) -> TypedExpression | None:
    def conjoin(one: TypedExpression, other: TypedExpression) -> TypedExpression:
        return FUNCTIONS["and"].resolve(function.TypedCall("and", (one, other), other.span))

    return reduce(conjoin, conditions) if conditions else None
