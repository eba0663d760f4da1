"""Conversion of state values to their declared types, with the same result as a restore.

A value of the exact Python class is accepted at once. Any other is converted by Polars, as if it
had been stored and read again: a float in a `float`, an int in a `double`, a time without a zone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

from headrace.core.api.user_code import get_polars_errors
from headrace.core.types.data_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Array,
    MapType,
    Struct,
    Type,
    to_polars,
)

ValueConverter: TypeAlias = Callable[[Any], Any]
"""Converts a value to its type; raises ConversionError."""

EXACT_CLASSES: Mapping[Type, type] = {
    BOOLEAN: bool,
    DOUBLE: float,
    STRING: str,
    BINARY: bytes,
    DATE: date,
}
_NON_STRUCT_CLASSES = (bool, int, float, str, bytes, date, Decimal)
"""The classes of values that are never structs."""
INTEGER_BITS: Mapping[Type, int] = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}


class ConversionError(TypeError):
    """A value that cannot be converted to its type."""


@lru_cache(maxsize=256)
def build_converter(type: Type) -> ValueConverter:
    """Build the converter of a type; it returns None for None."""
    scope: dict[str, Any] = {"other": _build_fallback(type), "kind": EXACT_CLASSES.get(type)}
    test = f"value is None or {build_exact_test(type, 'kind')}"
    exec(f"def fit(value):\n return value if {test} else other(value)", scope)
    return scope["fit"]  # type: ignore[no-any-return]


def build_exact_test(type: Type, kind: str) -> str:
    """Return the Python condition for values that need no conversion; `kind` names the class.

    >>> from headrace.core.types.data_types import TINYINT
    >>> build_exact_test(TINYINT, "kind")
    'type(value) is int and -128 <= value <= 127'
    """
    if type in INTEGER_BITS:
        limit = 1 << INTEGER_BITS[type] - 1
        return f"type(value) is int and {-limit} <= value <= {limit - 1}"
    return f"type(value) is {kind}" if type in EXACT_CLASSES else "False"


def _build_fallback(type: Type) -> ValueConverter:
    """Build the converter of values that do need conversion."""
    match type:
        case Array(element):
            return _build_array_converter(build_converter(element), type)
        case MapType(key, value):
            return _build_map_converter(build_converter(key), build_converter(value), type)
        case Struct(fields):
            return _build_struct_converter(
                {field.name: build_converter(field.type) for field in fields}, type
            )
    special: dict[Type, ValueConverter] = {
        TIMESTAMP: _convert_timestamp,
        TIMESTAMP_NTZ: _convert_local_timestamp,
    }
    return special.get(type, lambda value: _convert_by_polars(value, type))


def _build_array_converter(fit: ValueConverter, type: Type) -> ValueConverter:
    def array(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return _convert_by_polars(value, type)
        made = [fit(each) for each in value]
        if value.__class__ is not list:
            return made
        value[:] = made  # in place: user code may still have a reference to the list
        return value

    return array


def _build_map_converter(
    fit_key: ValueConverter, fit_value: ValueConverter, type: Type
) -> ValueConverter:
    def map(value: Any) -> Any:
        if value.__class__ is not dict or None in value:
            return _convert_by_polars(value, type)
        made = {fit_key(key): fit_value(each) for key, each in value.items()}
        value.clear()  # in place: user code may still have a reference to the map
        value.update(made)
        return value

    return map


def _build_struct_converter(fits: Mapping[str, ValueConverter], type: Type) -> ValueConverter:
    def struct(value: Any) -> Any:
        alien = isinstance(value, Mapping) and not value.keys() <= fits.keys()
        if alien or isinstance(
            value, _NON_STRUCT_CLASSES
        ):  # Polars would accept both, and drop extra fields
            raise ConversionError(f"{format_value(value)} is no {type}")
        if value.__class__ is not dict or value.keys() != fits.keys():
            return _convert_by_polars(value, type)
        for name, fit in fits.items():
            value[name] = fit(value[name])
        return value

    return struct


def _convert_timestamp(value: Any) -> Any:
    if not isinstance(value, datetime):
        return _convert_by_polars(value, TIMESTAMP)
    if value.tzinfo is UTC:
        return value
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _convert_local_timestamp(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        raise ConversionError(f"{format_value(value)} has a time zone, and is no timestamp_ntz")
    return value if type(value) is datetime else _convert_by_polars(value, TIMESTAMP_NTZ)


def _convert_by_polars(value: Any, type: Type) -> Any:
    """Return the value as it would be after being stored and restored."""
    import polars as pl

    wanted = to_polars(type)
    try:
        stored = pl.Series([value], dtype=wanted, strict=True)
        found = stored.to_list()[0]
    except get_polars_errors():
        raise ConversionError(f"{format_value(value)} is no {type}") from None
    if stored.dtype != wanted or found is None:
        raise ConversionError(f"{format_value(value)} is no {type}")
    return found


def format_value(value: object) -> str:
    """Format a value and its class for a message."""
    return f"{value!r:.200} ({value.__class__.__name__})"
