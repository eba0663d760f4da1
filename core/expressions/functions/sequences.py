"""Sequences: arrays of numbers, dates or timestamps from a start to a stop, a step apart."""

from __future__ import annotations

from headrace.core.expressions.coercion import common_type
from headrace.core.expressions.function import (
    SqlFunction,
    TypedCall,
    function,
    with_growth,
)
from headrace.core.expressions.functions.arguments import SMALL_FACTOR, literal_int
from headrace.core.expressions.functions.common_types import widen
from headrace.core.expressions.functions.sequence_forms import SequenceSteps
from headrace.core.expressions.typed import (
    AS_WRITTEN,
    NO_SPARK_FORM,
    ExpressionError,
    FunctionCall,
    TypedExpression,
)
from headrace.core.types.data_types import (
    DATE,
    DAY,
    INTERVAL_TYPES,
    NULL,
    TIMESTAMP,
    Array,
    Type,
    is_integer,
)

_SIGNATURES = (
    "sequence(start: I, stop: I, [step: I]) -> array<I>",
    "sequence(start: date, stop: date, [step: interval]) -> array<date>",
    "sequence(start: timestamp, stop: timestamp, [step: interval]) -> array<timestamp>",
)


def _resolve_sequence(call: TypedCall) -> TypedExpression:
    if len(call.arguments) not in (2, 3):
        message = f"sequence takes 2 or 3 arguments, got {len(call.arguments)}"
        raise ExpressionError(message, call.span, f"its signature is {_SIGNATURES[0]}")
    start, stop, *steps = call.arguments
    type = _find_type(start, stop)
    for step in steps:
        type = _check_step(type, step)
    arguments = [widen(start, type), widen(stop, type)]
    arguments += [widen(step, type) if is_integer(type) else step for step in steps]
    unit = steps[0].type if steps else DAY
    forms = SequenceSteps(type, unit)
    known = _is_small(call)
    typed = FunctionCall(
        *(Array(type), any(a.nullable for a in arguments), call.span, call.name),
        *(tuple(arguments), forms.build()),
        AS_WRITTEN if known else NO_SPARK_FORM,
        failure=None if known or not steps else forms.explain_bounds,
    )
    return typed if known else with_growth(typed, forms.measure)


def _find_type(start: TypedExpression, stop: TypedExpression) -> Type:
    """Return the type of the elements."""
    for bound in (start, stop):
        if not (is_integer(bound.type) or bound.type in (DATE, TIMESTAMP, NULL)):
            message = f"sequence wants integers, dates or timestamps, got {bound.type}"
            raise ExpressionError(message, bound.span)
    common = common_type(start.type, stop.type)
    if common is None or common == NULL:
        message = f"sequence wants bounds of one type, got {start.type} and {stop.type}"
        raise ExpressionError(message, stop.span)
    return common


def _check_step(type: Type, step: TypedExpression) -> Type:
    """Return the type of the elements with this step, or raise an error."""
    if is_integer(type):
        if not is_integer(step.type) and step.type != NULL:
            message = f"sequence wants an integer as step of integers, got {step.type}"
            raise ExpressionError(message, step.span, "cast(... as int) converts it")
        return common_type(type, step.type) or type
    if step.type not in INTERVAL_TYPES:
        message = f"sequence wants an interval as step of a {type}, got {step.type}"
        raise ExpressionError(message, step.span, "as in interval 1 day")
    return type


def _is_small(call: TypedCall) -> bool:
    """Whether the arguments are literals that make a short array."""
    numbers = [literal_int(argument) for argument in call.arguments]
    start, stop, *steps = numbers
    if start is None or stop is None or None in steps:
        return False
    step = steps[0] if steps else 1 if stop >= start else -1
    if not step:
        if start != stop:
            raise ExpressionError("sequence wants a step that is not 0", call.arguments[2].span)
        return True
    if (stop - start) * step < 0:
        message = f"no step of {step} leads from {start} to {stop}"
        raise ExpressionError(message, call.span, "without a step it is 1 or -1")
    return (stop - start) // step <= SMALL_FACTOR


SEQUENCES: tuple[SqlFunction, ...] = (
    function(
        "sequence",
        "collections",
        "The array of the values from a start to a stop, a step apart: by default 1, -1 or a day."
        " A row in which the step leads away from the stop fails.",
        example=("sequence(1, 5)", "[1, 2, 3, 4, 5]"),
        more=(
            ("sequence(5, 1, -2)", "[5, 3, 1]"),
            (
                "sequence(date '2026-01-31', date '2026-03-31', interval 1 month)",
                "[2026-01-31, 2026-02-28, 2026-03-31]",
            ),
        ),
        resolve=_resolve_sequence,
        signatures=_SIGNATURES,
    ),
)
"""The function of sequences."""
