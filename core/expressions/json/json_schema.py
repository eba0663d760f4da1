"""The schema of a JSON text, as Spark infers it, written as Spark's DDL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal as PythonDecimal

from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    MAX_DIGITS,
    NULL,
    STRING,
    Array,
    Decimal,
    Field,
    Struct,
    Type,
)

_BIGINT_DIGITS = 20
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def infer_type(value: object) -> Type:
    """Return the type of a value that a JsonReader gave; ValueError if it has none."""
    match value:
        case None | "":
            return NULL
        case bool():
            return BOOLEAN
        case int():
            if -(2**63) <= value < 2**63:
                return BIGINT
            digits = len(str(abs(value)))
            return Decimal(digits, 0) if digits <= MAX_DIGITS else DOUBLE
        case PythonDecimal():
            return _infer_decimal(value)
        case float():
            return DOUBLE
        case tuple():
            fields = sorted(
                (Field(name, infer_type(each)) for name, each in value), key=lambda each: each.name
            )
            return Struct(tuple(fields))
        case list():
            return Array(_merge_all([infer_type(each) for each in value]))
    return STRING


def _infer_decimal(value: PythonDecimal) -> Type:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is no decimal")
    precision = max(len(digits), -exponent)
    if precision > MAX_DIGITS:
        return DOUBLE
    if exponent > 0:
        raise ValueError(f"the decimal {value} has a negative scale")
    return Decimal(precision, -exponent)


def convert_to_text(type: Type) -> Type:
    """Return the type with text for all that is no struct and no array."""
    match type:
        case Struct(fields):
            return Struct(tuple(Field(each.name, convert_to_text(each.type)) for each in fields))
        case Array(element):
            return Array(convert_to_text(element))
    return NULL if type == NULL else STRING


def _merge_all(types: Sequence[Type]) -> Type:
    merged: Type = NULL
    for type in types:
        merged = merge_types(merged, type)
    return merged


def merge_types(one: Type, other: Type) -> Type:
    """Return the type of both: of structs with all their fields, of other things text."""
    if one == other or other == NULL:
        return one
    if one == NULL:
        return other
    match one, other:
        case Struct(), Struct():
            return _merge_structs(one, other)
        case Array(), Array():
            return Array(merge_types(one.element, other.element))
    return _merge_numbers(one, other)


def _merge_structs(one: Struct, other: Struct) -> Struct:
    names = sorted({each.name for each in (*one.fields, *other.fields)})
    fields = []
    for name in names:
        parts = [each.type for part in (one, other) for each in part.fields if each.name == name]
        fields.append(Field(name, _merge_all(parts)))
    return Struct(tuple(fields))


def _merge_numbers(one: Type, other: Type) -> Type:
    types = {one, other}
    if all(type in (BIGINT, DOUBLE) or isinstance(type, Decimal) for type in types):
        if DOUBLE in types:
            return DOUBLE
        decimals = [t if isinstance(t, Decimal) else Decimal(_BIGINT_DIGITS, 0) for t in types]
        scale = max(each.scale for each in decimals)
        digits = scale + max(each.precision - each.scale for each in decimals)
        return Decimal(digits, scale) if digits <= MAX_DIGITS else DOUBLE
    return STRING


def format_inferred(type: Type, *, drops_nulls: bool = False) -> str:
    """Return a type as Spark's `schema_of_json` writes it.

    What is only NULL is text, or left out with `drops_nulls`; so is what has no fields.
    """
    if (kept := _drop_empty(type, drops_nulls)) is not None:
        return _format(kept)
    match type:
        case Struct():
            return "STRUCT<>"
        case Array(Struct()):
            return "ARRAY<STRUCT<>>"
    return "STRING"


def _drop_empty(type: Type, drops_nulls: bool) -> Type | None:
    """Return the type without fields that have no name or no type; None if nothing is left."""
    match type:
        case Struct(fields):
            types = [(each.name, _drop_empty(each.type, drops_nulls)) for each in fields]
            kept = tuple(Field(name, inner) for name, inner in types if name and inner)
            return Struct(kept) if kept else None
        case Array(element):
            inside = _drop_empty(element, drops_nulls)
            return Array(inside) if inside else None
    if type == NULL:
        return None if drops_nulls else STRING
    return type


def _format(type: Type) -> str:
    match type:
        case Struct(fields):
            inside = ", ".join(f"{_quote(each.name)}: {_format(each.type)}" for each in fields)
            return f"STRUCT<{inside}>"
        case Array(element):
            return f"ARRAY<{_format(element)}>"
    return str(type).upper()


def _quote(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"
