"""Rows found for keys: Python values converted to the declared types.

A value that cannot be converted is an error of its row only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal as Exact
from decimal import InvalidOperation
from typing import TYPE_CHECKING, Any

import orjson

from headrace.core.api.lookup_tables import LOOKUP_KEY_INDEX, ROW_ERROR
from headrace.core.plan import nodes
from headrace.core.types.data_types import (
    BINARY,
    BOOLEAN,
    DATE,
    FLOAT_TYPES,
    INTEGER_TYPES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Decimal,
    Time,
    Type,
    to_polars,
)

if TYPE_CHECKING:
    import polars as pl

INTEGER_BITS = dict(zip(INTEGER_TYPES, (8, 16, 32, 64), strict=True))


def build_found_rows(
    at: Sequence[int], rows: Sequence[Sequence[object]], lookup: nodes.Lookup
) -> pl.DataFrame:
    """Return the found rows as columns: the row of each key, the added columns, and errors."""
    import polars as pl

    errors: list[str | None] = [None] * len(rows)
    columns = [pl.Series(LOOKUP_KEY_INDEX, at, dtype=pl.UInt32)]
    for place, lookup_column in enumerate(lookup.columns):
        read = make_value_converter(lookup_column.field.type)
        values: list[object] = []
        for row, of_row in enumerate(rows):
            value = of_row[place]
            try:
                values.append(None if value is None else read(value))
            except (ValueError, TypeError, OverflowError, InvalidOperation):
                values.append(None)
                wanted = f'column "{lookup_column.column}": wanted {lookup_column.field.type}'
                errors[row] = errors[row] or f"{wanted}, the table has {_format_short(value)}"
        columns.append(
            pl.Series(
                lookup_column.field.name,
                values,
                dtype=to_polars(lookup_column.field.type),
                strict=True,
            )
        )
    return pl.DataFrame([*columns, pl.Series(ROW_ERROR, errors, dtype=pl.String)])


def make_value_converter(type: Type) -> Callable[[Any], object]:
    """Return a converter to the type; it raises ValueError and the like for an invalid value."""
    if type == STRING:
        return format_value
    if type in INTEGER_BITS:
        return lambda value: _to_integer(value, INTEGER_BITS[type])
    if type in FLOAT_TYPES:
        return _to_float
    if isinstance(type, Decimal):
        return lambda value: _to_decimal(value, type)
    if isinstance(type, Time):
        return _to_clock_time
    readings: dict[Type, Callable[[Any], object]] = {
        BOOLEAN: _to_boolean,
        DATE: _to_date,
        TIMESTAMP: _to_timestamp,
        TIMESTAMP_NTZ: _to_local_timestamp,
        BINARY: bytes,
    }
    return readings[type]


def format_value(value: object) -> str:
    """Format any value as text, as in JSON.

    >>> (
    ...     format_value(True),
    ...     format_value(1.5),
    ...     format_value(datetime(2026, 1, 31, 8)),
    ...     format_value({"a": [1]}),
    ... )
    ('true', '1.5', '2026-01-31T08:00:00.000000Z', '{"a":[1]}')
    """
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case datetime():
            return (
                f"{_to_timestamp(value).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
            )
        case bytes() | memoryview():
            return bytes(value).decode()
        case dict() | list():
            return orjson.dumps(value, default=str).decode()
    return str(value)


def _to_integer(value: Any, bits: int) -> int:
    number = int(value)
    if isinstance(value, str) or value != number:
        raise ValueError
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise OverflowError
    return number


def _to_float(value: object) -> float:
    if isinstance(value, str | bool):
        raise ValueError
    return float(value)  # type: ignore[arg-type]


def _to_decimal(value: object, type: Decimal) -> Exact:
    if isinstance(value, str | bool):
        raise ValueError
    number = Exact(str(value))
    scaled = number.quantize(Exact(1).scaleb(-type.scale))
    if scaled != number or abs(number) >= Exact(10) ** (type.precision - type.scale):
        raise ValueError
    return scaled


def _to_boolean(value: object) -> bool:
    if value not in (0, 1) or isinstance(value, float | str):
        raise ValueError
    return bool(value)


def _to_date(value: object) -> date:
    if isinstance(value, datetime):
        raise ValueError
    return value if isinstance(value, date) else date.fromisoformat(value)  # type: ignore[arg-type]


def _to_timestamp(value: object) -> datetime:
    if not isinstance(value, datetime):
        value = datetime.fromisoformat(value)  # type: ignore[arg-type]
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def _to_local_timestamp(value: object) -> datetime:
    at = value if isinstance(value, datetime) else datetime.fromisoformat(value)  # type: ignore[arg-type]
    if at.tzinfo:
        raise ValueError
    return at


def _to_clock_time(value: object) -> time:
    at = value if isinstance(value, time) else time.fromisoformat(value)  # type: ignore[arg-type]
    if at.tzinfo:
        raise ValueError
    return at


def _format_short(value: object) -> str:
    text = format_value(value) if not isinstance(value, bytes | memoryview) else "binary"
    return f'"{text[:40]}"' if isinstance(value, str) else text[:40]
