"""The operands of arithmetic operators: texts are numbers there; errors for other operands."""

from __future__ import annotations

from dataclasses import replace

from headrace.core.expressions.coercion import convert_implicitly
from headrace.core.expressions.function import TypedCall
from headrace.core.expressions.typed import ExpressionError
from headrace.core.types.data_types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT_TYPES,
    NULL,
    STRING,
    TIMESTAMP_TYPES,
    Interval,
    Time,
    Type,
    is_numeric,
)

_SIGNS = {"negative": "-", "positive": "+"}
_TIMES = (DATE, *TIMESTAMP_TYPES)
_SCALING = ("*", "/", "try_multiply", "try_divide")


def convert_texts(call: TypedCall) -> TypedCall:
    """Return the call with its texts as doubles, or as dates before a date that is subtracted.

    A text next to a date, a timestamp or a boolean is left, and `div` takes none.
    """
    types = {argument.type for argument in call.arguments}
    if STRING not in types or call.name == "div":
        return call
    target = DOUBLE
    if [a.type for a in call.arguments] == [STRING, DATE] and call.name == "-":
        target = DATE
    elif not all(type in (STRING, NULL) or _takes_texts(call.name, type) for type in types):
        return call
    converted = (
        convert_implicitly(argument, target) if argument.type == STRING else argument
        for argument in call.arguments
    )
    return replace(call, arguments=tuple(converted))


def _takes_texts(name: str, other: Type) -> bool:
    """Whether the operator converts a text next to a value of another type to a double."""
    return is_numeric(other) or (name in _SCALING and _is_interval(other))


def operand_error(call: TypedCall) -> ExpressionError:
    """Return the error for operands that no overload takes: for the operand that is not a number,
    or for all."""
    name = _SIGNS.get(call.name, call.name)
    for argument in call.arguments:
        if not _is_computable(argument.type):
            message = f"{name} wants a number, got {argument.type}"
            others = [each.type for each in call.arguments if each is not argument]
            hint = _number_hint(name, argument.type, others)
            return ExpressionError(message, argument.span, hint)
    types = [argument.type for argument in call.arguments]
    message = f"{name} does not take {' and '.join(map(str, types))}"
    return ExpressionError(message, call.span, _pair_hint(name, types))


def _is_computable(type: Type) -> bool:
    """Whether there are operators that compute with the type."""
    return is_numeric(type) or type in (*_TIMES, NULL) or isinstance(type, Interval | Time)


def _is_interval(type: Type) -> bool:
    return isinstance(type, Interval)


def _number_hint(name: str, type: Type, others: list[Type]) -> str:
    if type == STRING and name in ("+", "-") and others and not is_numeric(others[0]):
        return _time_hint(name, others[0])
    if type == STRING:
        return "cast(... as bigint) converts text to a number" if name == "div" else ""
    return "cast(... as int) converts true to 1 and false to 0" if type == BOOLEAN else ""


def _time_hint(name: str, other: Type) -> str:
    """Return the hint for a text that is added to a date, a time or an interval, or subtracted."""
    if other == DATE:
        return "to_date(...) reads text" if name == "-" else "cast(... as int) converts the text"
    if other in TIMESTAMP_TYPES and name == "+":
        return "an interval is added to a time, as in interval 1 hour"
    is_time = other in TIMESTAMP_TYPES or _is_interval(other)
    return "to_timestamp(...) reads text" if is_time else ""


def _pair_hint(name: str, types: list[Type]) -> str:
    if name == "div" and any(type in FLOAT_TYPES for type in types):
        return "cast(... / ... as bigint) drops the decimals"
    if all(type in _TIMES for type in types):
        return (
            "subtract one from the other for the time between; datediff(..., ...) counts its days"
        )
    if any(type in TIMESTAMP_TYPES for type in types) and any(map(is_numeric, types)):
        return "give the number a unit: ... + interval 1 hour"
    return ""
