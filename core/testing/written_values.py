"""Values of tests as written, converted to the types of columns."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal as DecimalNumber
from decimal import InvalidOperation

from headrace.core.errors.problems import suggest_name
from headrace.core.pipeline.text import NOTHING, Text, describe_value
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
    TIMESTAMP_NTZ,
    TINYINT,
    Array,
    Decimal,
    MapType,
    Struct,
    Time,
    Type,
)
from headrace.core.types.lazy_dataclass import dataclass

INTEGER_BITS: Mapping[Type, int] = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}
WHOLE_NUMBER = re.compile(r"[+-]?\d{1,20}", re.ASCII)
TIME_OF_DAY = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?", re.ASCII)
TIME_EXAMPLES = '"2026-01-31T10:00:05Z", or "10:00:05" in a test with date:'


class WrongValue(Exception):
    """A value is not one of the type: what was wanted, and the text that is wrong, if it is one."""

    def __init__(self, message: str, hint: str = "", text: Text | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.text = text


@dataclass(frozen=True, slots=True)
class ValueConverter:
    """Converts written values; times without a day are of `day`, if a test has one."""

    day: date | None = None

    def convert(self, value: object, type: Type) -> object:
        """Return a value of the type, None for null. Raises WrongValue."""
        if value is NOTHING:
            return None
        match type:
            case Array(element):
                if isinstance(value, list):
                    return [self.convert(each, element) for each in value]
            case MapType(key, inner):
                if isinstance(value, dict):
                    return {
                        self.convert(name, key): self.convert(each, inner)
                        for name, each in value.items()
                    }
            case Struct():
                if isinstance(value, dict):
                    return self._convert_struct(value, type)
            case _ if isinstance(value, Text):
                return self._convert_text(value, type)
        text = value if isinstance(value, Text) else None
        raise WrongValue(f"wanted {type}, got {describe_value(value)}", text=text)

    def _convert_struct(self, value: Mapping[Text, object], type: Struct) -> dict[str, object]:
        for name in value:
            if type.get(name) is None:
                names = [field.name for field in type.fields]
                hint = suggest_name(name, names) or f"the fields are {', '.join(names)}"
                raise WrongValue(f'there is no field "{name}"', hint, name)
        written = {str(name): each for name, each in value.items()}
        return {
            field.name: self.convert(written.get(field.name, NOTHING), field.type)
            for field in type.fields
        }

    def _convert_text(self, text: Text, type: Type) -> object:
        convert = CONVERSIONS.get(type)
        try:
            match type:
                case Decimal():
                    return _convert_decimal(text, type)
                case Time():
                    return time.fromisoformat(text)
                case _ if type in INTEGER_BITS:
                    return _convert_whole_number(text, INTEGER_BITS[type])
                case _ if type in (TIMESTAMP, TIMESTAMP_NTZ):
                    return self.convert_time(text, has_zone=type == TIMESTAMP)
                case _ if convert is not None:
                    return convert(text)
        except (ValueError, InvalidOperation, binascii.Error):
            pass
        hint = f"as in {TIME_EXAMPLES}" if type in (TIMESTAMP, TIMESTAMP_NTZ) else ""
        raise WrongValue(f"wanted {type}, got {describe_value(text)}", hint, text)

    def convert_time(self, text: Text, *, has_zone: bool = True) -> datetime:
        """Return a point in time; without a zone it is UTC. Raises WrongValue or ValueError."""
        if TIME_OF_DAY.fullmatch(text):
            if self.day is None:
                hint = "add date: 2026-01-31 to the test, or write the whole time"
                raise WrongValue(f'"{text}" has no day', hint, text)
            found = datetime.combine(self.day, time.fromisoformat(text))
        else:
            found = datetime.fromisoformat(text)
        if not has_zone:
            if found.tzinfo is not None:
                raise WrongValue(f'"{text}" has a time zone, and its column none', "", text)
            return found
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _convert_whole_number(text: Text, bits: int) -> int:
    if not WHOLE_NUMBER.fullmatch(text) or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        raise ValueError
    return int(text)


def _convert_decimal(text: Text, type: Decimal) -> DecimalNumber:
    number = DecimalNumber(text)
    if not number.is_finite():
        raise ValueError
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "only finite numbers have digits"
    whole_digits = len(digits) + exponent if number else 0
    if -exponent > type.scale or whole_digits > type.precision - type.scale:
        raise ValueError
    return number


def _convert_boolean(text: Text) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _convert_single(text: Text) -> float:
    """Return the nearest number of single precision, which is what a column holds."""
    try:
        return float(struct.unpack("f", struct.pack("f", float(text)))[0])
    except OverflowError:
        raise ValueError from None


CONVERSIONS: Mapping[Type, Callable[[Text], object]] = {
    BOOLEAN: _convert_boolean,
    FLOAT: _convert_single,
    DOUBLE: float,
    STRING: Text.reveal,
    BINARY: lambda text: base64.b64decode(text, validate=True),
    DATE: date.fromisoformat,
}
