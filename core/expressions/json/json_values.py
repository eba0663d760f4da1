"""Values of types from what the exact reader reads, as Spark's `from_json` converts them."""

from __future__ import annotations

import base64
import binascii
import decimal
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from headrace.core.expressions.json.json_writer import format_json, quote_16_bits
from headrace.core.types.data_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Decimal,
    Type,
)

ValueConversion: TypeAlias = Callable[[object], object]


class BadValue(Exception):
    """A value that does not fit its type."""


_SPECIAL = {
    **{"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")},
    **{"+INF": float("inf"), "+Infinity": float("inf"), "-INF": float("-inf")},
}
_LIMITS: dict[Type, tuple[int, int]] = {
    # As Jackson does, a byte from 128 to 255 is taken for a negative one.
    TINYINT: (-(2**7), 2**8),
    SMALLINT: (-(2**15), 2**15),
    INT: (-(2**31), 2**31),
    BIGINT: (-(2**63), 2**63),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

NUMBER_MARK: Final = "\0"
"""The first character of the text of a time that is a number of seconds."""


def find_conversion(type: Type) -> ValueConversion:
    """Return the conversion to a type without parts: decimals and times become texts, for a cast to
    read."""
    if isinstance(type, Decimal):
        return lambda value: _convert_decimal(value, type.precision, type.scale)
    return _compile_integer(type) if type in _LIMITS else _CONVERSIONS.get(type, _convert_date)


def convert_elements(value: object, convert: ValueConversion) -> list[object]:
    """Return the elements of an array; one that does not fit makes the array bad."""
    if not isinstance(value, list):
        raise BadValue
    return [None if each is None else convert(each) for each in value]


def convert_entries(value: object, convert: ValueConversion) -> dict[str, object]:
    """Return the members of an object as a map; of those with one name the last counts."""
    if not isinstance(value, tuple):
        raise BadValue
    return {name: None if each is None else convert(each) for name, each in value}


def _compile_integer(type: Type) -> ValueConversion:
    low, end = _LIMITS[type]

    def convert(value: object) -> int:
        if value.__class__ is int and low <= value < end:
            assert isinstance(value, int)
            return value - 256 if type == TINYINT and value > 127 else value
        raise BadValue

    return convert


def _convert_double(value: object) -> float:
    if isinstance(value, str):
        if value not in _SPECIAL:
            raise BadValue
        return _SPECIAL[value]
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        raise BadValue
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _convert_boolean(value: object) -> bool:
    if value is True or value is False:
        return value
    raise BadValue


def write_text(value: object) -> str:
    """Return a text, or the JSON text of another value."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    return format_json(value, quote_16_bits)


def _convert_binary(value: object) -> bytes:
    if not isinstance(value, str):
        raise BadValue
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise BadValue from None


def _convert_date(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise BadValue
    return write_text(value)


def write_timestamp(value: object) -> str:
    """Return the text of a time, or of a number of seconds since 1970."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _format_seconds(value)
    return _convert_date(value)


def _format_seconds(seconds: int) -> str:
    """Return a time as a text that a cast reads."""
    try:
        text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)
    except OverflowError:
        raise BadValue from None
    return f"{NUMBER_MARK}{text}"


_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_CONTEXT = decimal.Context(prec=1100, rounding=decimal.ROUND_HALF_UP, traps=[])


def find_number(text: str) -> str:
    """Return the number in a text, which may have commas."""
    number = text.replace(",", "")
    if not _NUMBER.fullmatch(number):
        raise BadValue
    return number


def _convert_decimal(value: object, precision: int, scale: int) -> str:
    """Return the text of a number rounded to the digits of a type."""
    if isinstance(value, bool) or not isinstance(value, str | int | decimal.Decimal):
        raise BadValue
    number = decimal.Decimal(find_number(value) if isinstance(value, str) else value)
    if number and number.adjusted() >= precision:
        raise BadValue
    rounded = number.quantize(decimal.Decimal((0, (1,), -scale)), context=_CONTEXT)
    if not rounded.is_finite() or len(rounded.as_tuple().digits) > precision:
        raise BadValue
    return f"{rounded:f}"


_CONVERSIONS: Mapping[Type, ValueConversion] = {
    BOOLEAN: _convert_boolean,
    FLOAT: _convert_double,
    DOUBLE: _convert_double,
    STRING: write_text,
    BINARY: _convert_binary,
    DATE: _convert_date,
    TIMESTAMP: write_timestamp,
}
