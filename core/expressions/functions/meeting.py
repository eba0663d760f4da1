"""Values of unlike types in one place: the type they share, or an error that says how to make one.

Two rules, as Spark has them. Comparisons read a string literal beside a date or timestamp as one.
Branches (`case`, `coalesce`, `array`) do not: Spark makes text of the date there, which nobody
means, so the two are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.core.expressions.coercion import coerce, common_type
from headrace.core.expressions.function import Call
from headrace.core.expressions.typed import Constant, ExpressionError, Typed
from headrace.core.types import (
    BOOLEAN,
    DATE,
    NULL,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Struct,
    Type,
    is_numeric,
)


def meet(call: Call, values: Sequence[Typed]) -> tuple[tuple[Typed, ...], Type]:
    """The branches of a call as their common type, and that type."""
    common: Type = NULL
    for value in values:
        wider = common_type(common, value.type)
        if wider is None:
            message = f"{call.name} cannot give both {common} and {value.type}"
            raise ExpressionError(message, value.span, how_to_meet(common, value.type, values))
        common = wider
    return tuple(to_type(value, common) for value in values), common


def to_type(value: Typed, target: Type) -> Typed:
    """The value as a type that is known to take it."""
    taken = coerce(value, target)
    assert taken, f"{value.type} is widened to {target}"
    return taken


def how_to_meet(left: Type, right: Type, values: Iterable[Typed] = ()) -> str:
    """The hint for two types that do not go together."""
    types = {left, right}
    if STRING in types:
        other = right if left == STRING else left
        return _text_and(other, values)
    if BOOLEAN in types and any(map(is_numeric, types)):
        return "cast(... as int) makes 1 of true and 0 of false"
    if all(map(is_numeric, types)):
        digits = any(isinstance(type, Decimal) for type in types)
        return "more than 38 digits together: cast one to a decimal of fewer" if digits else ""
    if all(isinstance(type, Struct) for type in types):
        return "structs go together when their fields have the same names, in order"
    return ""


def _text_and(other: Type, values: Iterable[Typed]) -> str:
    if other in (DATE, TIMESTAMP):
        literals = (v.value for v in values if isinstance(v, Constant))
        literal = next((value for value in literals if isinstance(value, str)), None)
        written = f"write {other} '{literal}'" if literal else f"to_{other}(...) reads text"
        return f"{written}, or cast(... as string) makes text of the {other}"
    if isinstance(other, Array | Struct):
        return ""
    return f"cast(... as {other}) converts the text"


def condition(call: Call, value: Typed, *, null: bool) -> Typed:
    """The value as a condition: a boolean, and a bare NULL only where Spark takes one."""
    if value.type == BOOLEAN:
        return value
    if value.type == NULL and null:
        return to_type(value, BOOLEAN)
    message = f"{call.name} wants a boolean condition, got {value.type}"
    raise ExpressionError(message, value.span, _condition_hint(value.type))


def _condition_hint(type: Type) -> str:
    if is_numeric(type):
        return "compare it: ... <> 0"
    return "cast(null as boolean) is a condition that is never true" if type == NULL else ""
