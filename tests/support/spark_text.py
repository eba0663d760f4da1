"""Values as Spark's `cast(x as string)` formats them, with NULL for null."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from headrace.core.expressions.casts.intervals import to_interval_text
from headrace.core.types.data_types import Array, Interval, MapType, Struct, Type, to_polars


def spark_text(value: Any, type: Type) -> str:
    """Format a Python value of a SQL type."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float():
            return java_double(value)
        case Decimal():
            return format(value, "f")
        case datetime():
            return _timestamp(value)
        case date():
            return value.isoformat()
        case time():
            return value.isoformat().rstrip("0") if value.microsecond else value.isoformat()
        case bytes():
            return value.decode("utf-8", "replace")
    match type:
        case Array(element):
            return f"[{', '.join(_inner(item, element) for item in value)}]"
        case MapType(key, item):
            pairs = (f"{_inner(k, key)} -> {_inner(v, item)}" for k, v in value.items())
            return f"{{{', '.join(pairs)}}}"
        case Struct(fields):
            inner = (_inner(value[field.name], field.type) for field in fields)
            return f"{{{', '.join(inner)}}}"
    if isinstance(type, Interval):
        return str(to_interval_text(pl.Series([value], dtype=to_polars(type)), type)[0])
    return str(value)


def _inner(value: Any, type: Type) -> str:
    return "null" if value is None else spark_text(value, type)


def java_double(value: float) -> str:
    """Format a double as Java does: at least one decimal digit, an exponent outside 1e-3 to 1e7."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    _, figures, exponent = Decimal(repr(abs(value))).normalize().as_tuple()
    digits = "".join(map(str, figures))
    assert isinstance(exponent, int)
    point = len(digits) + exponent
    if -2 <= point <= 7:
        whole = digits[:point].ljust(point, "0") if point > 0 else ""
        rest = digits[max(point, 0) :] if point > 0 else "0" * -point + digits
        return f"{sign}{whole or '0'}.{rest or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _timestamp(value: datetime) -> str:
    text = f"{value:%Y-%m-%d %H:%M:%S}".rjust(19, "0")
    return f"{text}.{value.microsecond:06}".rstrip("0") if value.microsecond else text


def _day_time(value: timedelta) -> str:
    sign, micros = ("-" if value < timedelta() else ""), abs(value) // timedelta(microseconds=1)
    days, rest = divmod(micros, 86_400_000_000)
    hours, rest = divmod(rest, 3_600_000_000)
    minutes, rest = divmod(rest, 60_000_000)
    seconds = f"{rest // 1_000_000:02}" + (
        f".{rest % 1_000_000:06}".rstrip("0") if rest % 1_000_000 else ""
    )
    return f"INTERVAL '{sign}{days} {hours:02}:{minutes:02}:{seconds}' DAY TO SECOND"
