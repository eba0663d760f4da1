"""Schemas of JSON and CSV texts: the columns that a constant text names."""

from __future__ import annotations

import re

from headrace.core.types.data_types import Array, Field, MapType, Struct, Type
from headrace.core.types.type_parser import TypeTextError, parse_type


def parse_columns(text: str) -> Type:
    """Return the struct of columns as in 'a int, b string', or a type as it is written."""
    try:
        return parse_type(f"struct<{text}>")[0]
    except TypeTextError as error:
        try:
            return parse_type(text)[0]
        except TypeTextError as other:
            is_type = re.match(r"\s*(array|struct|map)\s*<", text, re.IGNORECASE)
            raise (other if is_type else error) from None


def drop_not_null(type: Type) -> Type:
    """Return the type with all fields nullable: a text may lack any of them."""
    match type:
        case Struct(fields):
            return Struct(tuple(Field(f.name, drop_not_null(f.type)) for f in fields))
        case Array(element):
            return Array(drop_not_null(element))
        case MapType(key, value):
            return MapType(key, drop_not_null(value))
    return type
