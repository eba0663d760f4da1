"""The sizes of values, as far as their types tell them."""

from __future__ import annotations

from headrace.core.types.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    FLOAT,
    INT,
    NULL,
    SMALLINT,
    STRING,
    TINYINT,
    Array,
    Decimal,
    Interval,
    MapType,
    Struct,
    Type,
)

_BYTES: dict[Type, int] = {
    **{NULL: 0, BOOLEAN: 1, TINYINT: 1, SMALLINT: 2, INT: 4, FLOAT: 4, DATE: 4},
}


def count_bytes(type: Type, text_bytes: int = 0, list_bytes: int = 0) -> int:
    """Return the bytes of a value, given those of texts in it, and of arrays and maps.

    >>> count_bytes(Struct(())), count_bytes(STRING, 20)
    (0, 20)
    """
    match type:
        case Struct(fields):
            return sum(count_bytes(field.type, text_bytes, list_bytes) for field in fields)
        case Decimal():
            return 16
        case Interval():
            return 4 if type.is_months else 8
        case Array() | MapType():
            return list_bytes
    return text_bytes if is_text(type) else _BYTES.get(type, 8)


def is_text(type: Type) -> bool:
    """Whether a value is a text, or bytes, of any length."""
    return type in (STRING, BINARY)


def has_lists(type: Type) -> bool:
    """Whether there are arrays or maps in a value."""
    match type:
        case Struct(fields):
            return any(has_lists(field.type) for field in fields)
    return isinstance(type, Array | MapType)


def has_texts(type: Type) -> bool:
    """Whether there are texts in a value, outside of arrays and maps."""
    match type:
        case Struct(fields):
            return any(has_texts(field.type) for field in fields)
    return is_text(type)
