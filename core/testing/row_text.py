"""Rows as text in a test: the values of `written_values`, written as a person would."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal as DecimalNumber

from headrace.core.pipeline.yaml_document.nodes import NULL_WORDS
from headrace.core.pipeline.yaml_document.source_file import INVISIBLE_CHARACTERS
from headrace.core.types.data_types import (
    FLOAT,
    Array,
    Interval,
    MapType,
    Schema,
    Struct,
    Type,
)
from headrace.core.types.lazy_dataclass import dataclass

PLAIN_WORD = re.compile(r"[A-Za-z_][\w/@-]*(?:[. ][\w/@-]+)*", re.ASCII)
"""Text that YAML reads as it is, and that nobody takes for a number or a date."""
YAML_WORDS = {*NULL_WORDS, *("true", "false", "yes", "no", "on", "off", "nan", "inf")}
"""Words that need quotes: for YAML, or for its readers, they are no text."""


class UnwritableValue(Exception):
    """A value of a type that a test cannot have."""

    def __init__(self, type: Type) -> None:
        super().__init__(f"a test cannot have values of type {type}")


@dataclass(frozen=True, slots=True)
class RowWriter:
    """Writes typed values; times on `day` are written without it, if a test has one."""

    day: date | None = None

    def write_row(
        self, row: Mapping[str, object], schema: Schema, names: Iterable[str] | None = None
    ) -> str:
        """Write these columns of a row, by default all, as in `{user: a, total: 5}`.

        Raises UnwritableValue.
        """
        return f"{{{', '.join(self.write_entries(row, schema, names))}}}"

    def write_entries(
        self, row: Mapping[str, object], schema: Schema, names: Iterable[str] | None = None
    ) -> list[str]:
        """Write columns of a row, each as in `user: a`. Raises UnwritableValue."""
        fields = {field.name: field for field in schema}
        return [
            f"{write_text(name)}: {self.write_value(row[name], fields[name].type)}"
            for name in (fields if names is None else names)
        ]

    def write_value(self, value: object, type: Type) -> str:
        """Write a value of the type. Raises UnwritableValue."""
        if value is None:
            return "null"
        match type, value:
            case Array(element), list():
                return f"[{', '.join(self.write_value(each, element) for each in value)}]"
            case MapType(key, inner), dict():
                entries = (
                    f"{self.write_value(name, key)}: {self.write_value(each, inner)}"
                    for name, each in value.items()
                )
                return f"{{{', '.join(entries)}}}"
            case Struct(fields), dict():
                return self.write_row(value, Schema(fields))
            case Interval(), _:
                raise UnwritableValue(type)
        return self._write_atom(value, type)

    def _write_atom(self, value: object, type: Type) -> str:
        match value:
            case bool():
                return "true" if value else "false"
            case float():
                return write_float(value, is_single=type == FLOAT)
            case int():
                return str(value)
            case DecimalNumber():
                return format(value, "f")
            case bytes():
                return write_text(base64.b64encode(value).decode())
            case datetime():
                return f'"{self._format_time(value)}"'
            case date():
                return value.isoformat()
            case time():
                return f'"{_strip_zeros(value.isoformat())}"'
            case str():
                return write_text(value)
        raise UnwritableValue(type)

    def _format_time(self, moment: datetime) -> str:
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC)
        if moment.date() == self.day:
            return _strip_zeros(moment.time().isoformat())
        return _strip_zeros(moment.replace(tzinfo=None).isoformat()) + "Z" * bool(moment.tzinfo)


def _strip_zeros(text: str) -> str:
    """Remove the zeros at the end of the fraction of a second."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def write_float(value: float, *, is_single: bool = False) -> str:
    """Write a number in the fewest digits from which it is read again.

    >>> write_float(0.1), write_float(2.0), write_float(math.inf)
    ('0.1', '2.0', 'inf')
    """
    if is_single and math.isfinite(value):
        import numpy as np

        return str(np.float32(value))
    return str(value)


def write_text(text: str) -> str:
    """Write text, in quotes unless it is a plain word.

    >>> write_text("new york"), write_text("10:00"), write_text("null"), write_text("5")
    ('new york', '"10:00"', '"null"', '"5"')
    """
    if PLAIN_WORD.fullmatch(text) and text.lower() not in YAML_WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False).replace("${", "$${")
    return INVISIBLE_CHARACTERS.sub(_escape, quoted)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}"
