"""Schemas of JSON and CSV texts: the columns that a constant text names."""

from __future__ import annotations

import re

from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.text_options import read_options
from headrace.core.expressions.typed import ExpressionError
from headrace.core.types.data_types import STRING, Array, Field, MapType, Struct, Type
from headrace.core.types.type_parser import TypeTextError, parse_type

CORRUPT_COLUMN = "_corrupt_record"


def parse_schema(bound: BoundArguments) -> Type:
    """Return the type that the second argument of a call, a constant text, names."""
    text, span = bound.constants[1], bound.arguments[1].span
    if not isinstance(text, str) or not text.strip():
        raise ExpressionError("a schema is needed", span, "as in 'a int, b string'")
    try:
        return parse_columns(text)
    except TypeTextError as error:
        hint = error.hint or "as in 'a int, b string'"
        raise ExpressionError(f"the schema '{text}': {error}", span, hint) from None


def check_corrupt_column(function: str, bound: BoundArguments, type: Type) -> None:
    """Refuse a schema whose column for texts that are not read is not of text."""
    options = read_options(function, bound, 2)
    name = options.get_text("columnNameOfCorruptRecord", CORRUPT_COLUMN)
    corrupt = type.get(name) if isinstance(type, Struct) else None
    if corrupt and corrupt.type != STRING:
        message = f"the column {name} is for texts that are not read, got {corrupt.type}"
        raise ExpressionError(message, bound.arguments[1].span, f"write {name} string")


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
