"""Why an arithmetic operator does not take its operands, in the words of who wrote it."""

from __future__ import annotations

from headrace.core.expressions.function import Call
from headrace.core.expressions.typed import ExpressionError
from headrace.core.types import (
    BOOLEAN,
    DATE,
    FLOATS,
    INTERVALS,
    NULL,
    STRING,
    TIMESTAMP,
    Type,
    is_numeric,
)

_SIGNS = {"negative": "-", "positive": "+"}
_TIMES = (DATE, TIMESTAMP)


def unfit(call: Call) -> ExpressionError:
    """The error for operands that no overload takes: about the one that is no number, or all."""
    name = _SIGNS.get(call.name, call.name)
    for argument in call.arguments:
        if not _counts(argument.type):
            message = f"{name} wants a number, got {argument.type}"
            return ExpressionError(message, argument.span, _number_hint(name, argument.type))
    types = [argument.type for argument in call.arguments]
    message = f"{name} does not take {' and '.join(map(str, types))}"
    return ExpressionError(message, call.span, _pair_hint(name, types))


def _counts(type: Type) -> bool:
    """Whether there are operators that calculate with it."""
    return is_numeric(type) or type in (*_TIMES, NULL) or _is_interval(type)


def _is_interval(type: Type) -> bool:
    return type in INTERVALS or str(type).startswith("interval")


def _number_hint(name: str, type: Type) -> str:
    if type == STRING:
        joined = "; || joins texts" if name == "+" else ""
        return f"cast(... as double) makes a number of text{joined}"
    return "cast(... as int) makes 1 of true and 0 of false" if type == BOOLEAN else ""


def _pair_hint(name: str, types: list[Type]) -> str:
    if name == "div" and any(type in FLOATS for type in types):
        return "cast(... / ... as bigint) cuts the decimals off"
    if all(type in _TIMES for type in types):
        return "one minus the other is the time between; datediff(..., ...) counts its days"
    if TIMESTAMP in types and any(map(is_numeric, types)):
        return "say what the number counts: ... + interval 1 hour"
    return ""
