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

from headrace.core.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Array,
    Struct,
    Type,
    to_polars,
)
from headrace.core.user_code import refusals

Fit: TypeAlias = Callable[[Any], Any]
"""Converts a value to its type; raises ConversionError."""

CLASSES: Mapping[Type, type] = {
    BOOLEAN: bool,
    DOUBLE: float,
    STRING: str,
    BINARY: bytes,
    DATE: date,
}
_SINGLE = (bool, int, float, str, bytes, date, Decimal)
"""The classes of values that are never structs."""
BITS: Mapping[Type, int] = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}


class Unfit(TypeError):
    """A value that cannot be converted to its type."""


@lru_cache(maxsize=256)
def fitting(type: Type) -> Fit:
    """Build the converter of a type; it returns None for None."""
    scope: dict[str, Any] = {"other": _other(type), "kind": CLASSES.get(type)}
    test = f"value is None or {passes(type, 'kind')}"
    exec(f"def fit(value):\n return value if {test} else other(value)", scope)
    return scope["fit"]  # type: ignore[no-any-return]


def passes(type: Type, kind: str) -> str:
    """Return the Python condition for values that need no conversion; `kind` names the class.

    >>> from headrace.core.types import TINYINT
    >>> passes(TINYINT, "kind")
    'type(value) is int and -128 <= value <= 127'
    """
    if type in BITS:
        most = 1 << BITS[type] - 1
        return f"type(value) is int and {-most} <= value <= {most - 1}"
    return f"type(value) is {kind}" if type in CLASSES else "False"


def _other(type: Type) -> Fit:
    """Build the converter of values that do need conversion."""
    match type:
        case Array(element):
            return _array(fitting(element), type)
        case Struct(fields):
            return _struct({field.name: fitting(field.type) for field in fields}, type)
    return _moment if type == TIMESTAMP else lambda value: _restored(value, type)


def _array(fit: Fit, type: Type) -> Fit:
    def array(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return _restored(value, type)
        made = [fit(each) for each in value]
        if value.__class__ is not list:
            return made
        value[:] = made  # in place: user code may still have a reference to the list
        return value

    return array


def _struct(fits: Mapping[str, Fit], type: Type) -> Fit:
    def struct(value: Any) -> Any:
        alien = isinstance(value, Mapping) and not value.keys() <= fits.keys()
        if alien or isinstance(value, _SINGLE):  # Polars would accept both, and drop extra fields
            raise Unfit(f"{shown(value)} is no {type}")
        if value.__class__ is not dict or value.keys() != fits.keys():
            return _restored(value, type)
        for name, fit in fits.items():
            value[name] = fit(value[name])
        return value

    return struct


def _moment(value: Any) -> Any:
    if not isinstance(value, datetime):
        return _restored(value, TIMESTAMP)
    if value.tzinfo is UTC:
        return value
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _restored(value: Any, type: Type) -> Any:
    """Return the value as it would be after being stored and restored."""
    import polars as pl

    wanted = to_polars(type)
    try:
        stored = pl.Series([value], dtype=wanted, strict=True)
        found = stored.to_list()[0]
    except refusals():
        raise Unfit(f"{shown(value)} is no {type}") from None
    if stored.dtype != wanted or found is None:
        raise Unfit(f"{shown(value)} is no {type}")
    return found


def shown(value: object) -> str:
    """Format a value and its class for a message."""
    return f"{value!r:.200} ({value.__class__.__name__})"
