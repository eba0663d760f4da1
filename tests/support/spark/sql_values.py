"""Encoding of SQL values in the JSON files of cases and answers.

NaN and the infinities are words, decimals are strings, timestamps are microseconds and dates days
since the epoch, binary is base64, structs are objects, maps are sorted lists of pairs: PySpark
gives their entries in no order.
"""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any

EPOCH = datetime(1970, 1, 1)
DIGITS = Context(prec=38)


def decode(value: Any, type: str) -> Any:
    """The Python value of a coded one, for a column of that type."""
    if value is None:
        return None
    if type in ("double", "float"):
        return float(value)
    if type.startswith("decimal"):
        return Decimal(value)
    if type == "binary":
        return base64.b64decode(value)
    if type == "date":
        return date(1970, 1, 1) + timedelta(days=value)
    if type in ("timestamp", "timestamp_ntz"):
        return EPOCH + timedelta(microseconds=value)
    if type.startswith("time("):
        return time.fromisoformat(value)
    if type.startswith("array<"):
        return [decode(item, type[6:-1]) for item in value]
    if type.startswith("struct<"):
        return {name: decode(value[name], inner) for name, inner in struct_fields(type)}
    if type.startswith("map<"):
        key, item = split_types(type[4:-1])
        return {decode(k, key): decode(v, item) for k, v in value}
    return value


def encode(value: Any, type: str) -> Any:
    """The coded form of a Python value; times may come as the numbers they are coded as."""
    if value is None:
        return None
    if type in ("double", "float"):
        if math.isnan(value):
            return "NaN"
        return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
    if type.startswith("decimal"):
        # PySpark hands small ones over with more zeros than their type has.
        unit = Decimal(1).scaleb(-int(type[:-1].rpartition(",")[2]))
        return format(value.quantize(unit, context=DIGITS), "f")
    if type == "binary":
        return base64.b64encode(bytes(value)).decode()
    if type == "date" and isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    if type in ("timestamp", "timestamp_ntz") and isinstance(value, datetime):
        return (value.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)
    if type.startswith("array<"):
        return [encode(item, type[6:-1]) for item in value]
    if type.startswith("struct<"):
        return {name: encode(value[name], inner) for name, inner in struct_fields(type)}
    if type.startswith("map<"):
        key, item = split_types(type[4:-1])
        pairs = ([encode(k, key), encode(v, item)] for k, v in value.items())
        return sorted(pairs, key=json.dumps)
    return value


def struct_fields(type: str) -> list[tuple[str, str]]:
    """The names and types of `struct<a:int,b:array<string>>`."""
    parts = (part.partition(":") for part in split_types(type[7:-1]))
    return [(name.strip("`"), inner) for name, _, inner in parts]


def split_types(text: str) -> list[str]:
    """Split at the commas outside of all brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part]
