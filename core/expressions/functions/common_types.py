"""Common types of values of different types, or an error with a hint how to cast them.

Two rules, as in Spark. Comparisons parse a string literal next to a date or timestamp as one.
Branches (`case`, `coalesce`, `array`) do not: Spark converts the date to text there, which is never
intended, so the two are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.core.expressions.coercion import coerce_to, common_type
from headrace.core.expressions.function import TypedCall
from headrace.core.expressions.typed import Constant, ExpressionError, TypedExpression
from headrace.core.types.data_types import (
    BOOLEAN,
    DATE,
    NULL,
    STRING,
    TIMESTAMP_TYPES,
    Decimal,
    Struct,
    Time,
    Type,
    find_map,
    is_nested,
    is_numeric,
)


def widen_all(
    call: TypedCall, values: Sequence[TypedExpression]
) -> tuple[tuple[TypedExpression, ...], Type]:
    """Widen the branches of a call to their common type; return them and the type."""
    common: Type = NULL
    for value in values:
        wider = common_type(common, value.type)
        if wider is None:
            message = f"{call.name} cannot return both {common} and {value.type}"
            raise ExpressionError(message, value.span, conversion_hint(common, value, values))
        common = wider
    return tuple(widen(value, common) for value in values), common


def widen(value: TypedExpression, target: Type) -> TypedExpression:
    """Cast the value to a type to which it can be widened."""
    result = coerce_to(value, target)
    assert result, f"{value.type} is widened to {target}"
    return result


def conversion_hint(
    wanted: Type, value: TypedExpression, values: Iterable[TypedExpression] = ()
) -> str:
    """Return the hint for a value, at the caret, that does not fit the type of those before it."""
    if wanted == STRING and not is_nested(value.type):
        return "cast(... as string) converts it to text"
    return mismatch_hint(wanted, value.type, values)


def find_text(values: Sequence[TypedExpression]) -> TypedExpression | None:
    """Return the value that has to be converted to the type of the others: a text, or a boolean."""
    for type in (STRING, BOOLEAN):
        if found := next((value for value in values if value.type == type), None):
            return found
    return None


def mismatch_hint(left: Type, right: Type, values: Iterable[TypedExpression] = ()) -> str:
    """Return the hint for two types that are not compatible."""
    types = {left, right}
    if STRING in types:
        other = right if left == STRING else left
        return _text_hint(other, values)
    if BOOLEAN in types and any(map(is_numeric, types)):
        return "cast(... as int) converts true to 1 and false to 0"
    if all(map(is_numeric, types)):
        digits = any(isinstance(type, Decimal) for type in types)
        return "both need more than 38 digits: cast one to a decimal of fewer" if digits else ""
    if all(isinstance(type, Struct) for type in types):
        return "structs are compatible when their fields have the same names, in order"
    return ""


def _text_hint(other: Type, values: Iterable[TypedExpression]) -> str:
    if other in (DATE, *TIMESTAMP_TYPES) or isinstance(other, Time):
        literals = (v.value for v in values if isinstance(v, Constant))
        literal = next((value for value in literals if isinstance(value, str)), None)
        written = f"write {other} '{literal}'" if literal else f"to_{other}(...) reads text"
        return f"{written}, or convert the {other} with cast(... as string)"
    if is_nested(other):
        return ""
    return f"cast(... as {other}) converts the text"


def refuse_map(name: str, value: TypedExpression) -> None:
    """Raise an error if the value is a map or contains one: to Spark, maps have no equality."""
    if find_map(value.type):
        message = f"{name} cannot compare maps, got {value.type}"
        hint = "compare one of its values, as in m['key'], or map_keys(m), map_values(m)"
        raise ExpressionError(message, value.span, hint)


def to_condition(call: TypedCall, value: TypedExpression, *, null: bool) -> TypedExpression:
    """Return the value as a condition: a boolean, and a bare NULL only where Spark accepts one."""
    if value.type == BOOLEAN:
        return value
    if value.type == NULL and null:
        return widen(value, BOOLEAN)
    message = f"{call.name} wants a boolean condition, got {value.type}"
    raise ExpressionError(message, value.span, _condition_hint(value.type))


def _condition_hint(type: Type) -> str:
    if is_numeric(type):
        return "compare it: ... <> 0"
    return "cast(null as boolean) is a condition that is never true" if type == NULL else ""
