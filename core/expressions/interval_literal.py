"""One part of an interval literal, as a count of microseconds or of months."""

from __future__ import annotations

from headrace.core.types import DAY_TIME, YEAR_MONTH, Type

_MICROSECONDS = {"second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6, "day": 86400 * 10**6}


def parse_interval(value: str, unit: str, to_unit: str | None) -> tuple[Type, int]:
    """The type and count of a value in a unit; ValueError where they do not go together."""
    name = unit.lower().removesuffix("s")
    if name in ("month", "year"):
        return YEAR_MONTH, int(value) * (12 if name == "year" else 1)
    if name not in _MICROSECONDS:
        raise ValueError(f'unknown unit "{unit}"')
    return DAY_TIME, int(value) * _MICROSECONDS[name]
