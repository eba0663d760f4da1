"""Values of states as their declared types have them: checked, and made what a restore makes.

What already is so, by its exact class, passes at once. Else Polars says what becomes of it, as when
it is kept and read again: a float in a `float`, an int in a `double`, a moment without a zone.
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
"""The value as its type has it; raises Unfit."""

CLASSES: Mapping[Type, type] = {
    BOOLEAN: bool,
    DOUBLE: float,
    STRING: str,
    BINARY: bytes,
    DATE: date,
}
_SINGLE = (bool, int, float, str, bytes, date, Decimal)
"""What no struct is made of."""
BITS: Mapping[Type, int] = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}


class Unfit(TypeError):
    """A value is not of its type."""


@lru_cache(maxsize=256)
def fitting(type: Type) -> Fit:
    """What makes values be of a type, and lets None pass."""
    scope: dict[str, Any] = {"other": _other(type), "kind": CLASSES.get(type)}
    test = f"value is None or {passes(type, 'kind')}"
    exec(f"def fit(value):\n return value if {test} else other(value)", scope)
    return scope["fit"]  # type: ignore[no-any-return]


def passes(type: Type, kind: str) -> str:
    """Which values are right as they are, as Python says it: `kind` is the name of CLASSES[type].

    >>> from headrace.core.types import TINYINT
    >>> passes(TINYINT, "kind")
    'type(value) is int and -128 <= value <= 127'
    """
    if type in BITS:
        most = 1 << BITS[type] - 1
        return f"type(value) is int and {-most} <= value <= {most - 1}"
    return f"type(value) is {kind}" if type in CLASSES else "False"


def _other(type: Type) -> Fit:
    """What makes of those that are not right as they are."""
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
        value[:] = made  # whoever set it may hold it still
        return value

    return array


def _struct(fits: Mapping[str, Fit], type: Type) -> Fit:
    def struct(value: Any) -> Any:
        alien = isinstance(value, Mapping) and not value.keys() <= fits.keys()
        if alien or isinstance(value, _SINGLE):  # Polars leaves out the one, and makes do with both
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
    """What a value is when it has been kept."""
    import polars as pl

    wanted = to_polars(type)
    try:
        kept = pl.Series([value], dtype=wanted, strict=True)
        found = kept.to_list()[0]
    except refusals():
        raise Unfit(f"{shown(value)} is no {type}") from None
    if kept.dtype != wanted or found is None:
        raise Unfit(f"{shown(value)} is no {type}")
    return found


def shown(value: object) -> str:
    """A value and its class, as messages have them."""
    return f"{value!r:.200} ({value.__class__.__name__})"
