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
    """Return the type of a value that a JsonReader gave; numbers with a point are doubles."""
    match value:
        case None:
            return NULL
        case bool():
            return BOOLEAN
        case int():
            if -(2**63) <= value < 2**63:
                return BIGINT
            digits = len(str(abs(value)))
            return Decimal(digits, 0) if digits <= MAX_DIGITS else DOUBLE
        case float() | PythonDecimal():
            return DOUBLE
        case tuple():
            fields = sorted(
                (Field(name, infer_type(each)) for name, each in value), key=lambda each: each.name
            )
            return Struct(tuple(fields))
        case list():
            return Array(_merge_all([infer_type(each) for each in value]))
    return STRING


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
        digits = [t.precision if isinstance(t, Decimal) else _BIGINT_DIGITS for t in types]
        return Decimal(max(digits), 0)
    return STRING


def format_inferred(type: Type) -> str:
    """Return a type as Spark's `schema_of_json` writes it; what is only NULL is text."""
    match type:
        case Struct(fields):
            kept = [each for each in fields if each.name and not _is_empty(each.type)]
            inside = ", ".join(f"{_quote(f.name)}: {format_inferred(f.type)}" for f in kept)
            return f"STRUCT<{inside}>"
        case Array(element):
            return f"ARRAY<{format_inferred(element)}>"
    return "STRING" if type == NULL else str(type).upper()


def _is_empty(type: Type) -> bool:
    """Whether no value has a field, so that Spark leaves the field of this type out."""
    match type:
        case Struct(fields):
            return all(not each.name or _is_empty(each.type) for each in fields)
        case Array(element):
            return _is_empty(element)
    return False


def _quote(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"
