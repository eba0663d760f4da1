"""Common types of values of different types, or an error with a hint how to cast them.

`coercion` has the rules, which are Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.expressions.coercion import choose_type, common_type, convert_implicitly
from headrace.core.expressions.function import TypedCall
from headrace.core.expressions.typed import ExpressionError, TypedExpression
from headrace.core.types.data_types import (
    BINARY,
    BOOLEAN,
    NULL,
    STRING,
    Decimal,
    Struct,
    Type,
    find_map,
    is_nested,
    is_numeric,
)


def widen_all(
    call: TypedCall, values: Sequence[TypedExpression]
) -> tuple[tuple[TypedExpression, ...], Type]:
    """Widen the branches of a call to their common type; return them and the type."""
    common = choose_type(value.type for value in values)
    if common is None:
        raise _choice_error(call, values)
    return tuple(widen(value, common) for value in values), common


def _choice_error(call: TypedCall, values: Sequence[TypedExpression]) -> ExpressionError:
    """Return the error of the first value that has no common type with those before it."""
    common: Type = NULL
    for value in values:
        wider = choose_type((common, value.type))
        if wider is None:
            message = f"{call.name} cannot return both {common} and {value.type}"
            return ExpressionError(message, value.span, mismatch_hint(common, value.type))
        common = wider
    types = " and ".join(dict.fromkeys(str(value.type) for value in values))
    return ExpressionError(f"{call.name} cannot return {types}", call.span)


def widen(value: TypedExpression, target: Type) -> TypedExpression:
    """Convert the value to the common type of values."""
    return convert_implicitly(value, target)


def mismatch_hint(left: Type, right: Type) -> str:
    """Return the hint for two types that are not compatible."""
    types = {left, right}
    if BOOLEAN in types and any(map(is_numeric, types)):
        return "cast(... as int) converts true to 1 and false to 0"
    for other in (BOOLEAN, BINARY):
        if types == {STRING, other}:
            return f"cast(... as string) converts the {other}"
    if STRING in types and not any(map(is_nested, types)):
        return f"cast(... as {right if left == STRING else left}) converts the text"
    if all(isinstance(type, Struct) for type in types):
        return "structs are compatible when their fields have the same names, in order"
    return ""


def find_tight_type(left: Type, right: Type) -> Type | None:
    """Return the type of an element and a value that is looked for: without a decimal between."""
    common = common_type(left, right)
    if isinstance(common, Decimal):
        two = left != right and isinstance(left, Decimal) and isinstance(right, Decimal)
        return None if two or common not in (left, right) else common
    return common


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
