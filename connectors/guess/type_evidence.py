"""The narrowest type that accepts every value seen, found value by value.

A `TypeEvidence` records the kinds of values seen so far in a column, a field, or the elements of an
array. Incompatible kinds become string, which accepts any JSON value as text; integers and
fractions together become double. What stays undecided is reported as the doubt of a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime

from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    MAX_DIGITS,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Struct,
    Type,
)

# An object with more fields than this is a table keyed by data, not a struct.
MAX_FIELDS = 200

# How deep arrays and structs may nest before the rest is taken as text.
MAX_DEPTH = 12

# The texts that JSON uses for non-finite numbers; a double accepts them.
_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)

_KIND_NAMES = {
    "boolean": "booleans",
    "integer": "numbers",
    "fraction": "numbers",
    "date": "dates",
    "timestamp": "timestamps",
    "text": "text",
    "not finite": "text",
    "array": "arrays",
    "object": "objects",
}


@dataclass(slots=True)
class TypeEvidence:
    """The kinds of values seen in one position, and what was seen inside arrays and objects."""

    kinds: set[str] = field(default_factory=set)
    largest_integer: int = 0
    element: TypeEvidence | None = None
    fields: dict[str, TypeEvidence] = field(default_factory=dict)

    def add(self, value: object, depth: int = 0) -> None:
        """Take one more value into account; null gives no evidence."""
        match value:
            case None:
                return
            case bool():
                self.kinds.add("boolean")
            case int():
                self.kinds.add("integer")
                self.largest_integer = max(self.largest_integer, abs(value))
            case float():
                self.kinds.add("fraction")
            case str():
                self.kinds.add(classify_text(value))
            case list():
                self._add_elements(value, depth)
            case dict():
                self._add_fields(value, depth)

    def _add_elements(self, values: list[object], depth: int) -> None:
        self.kinds.add("array" if depth < MAX_DEPTH else "text")
        self.element = self.element or TypeEvidence()
        for value in values if depth < MAX_DEPTH else ():
            self.element.add(value, depth + 1)

    def _add_fields(self, values: dict[str, object], depth: int) -> None:
        fits = depth == 0 or (depth < MAX_DEPTH and len(self.fields) <= MAX_FIELDS)
        self.kinds.add("object" if fits else "text")
        for name, value in values.items() if fits else ():
            self.fields.setdefault(name, TypeEvidence()).add(value, depth + 1)

    @property
    def type(self) -> Type:
        """The narrowest type for all values seen."""
        match sorted(self.kinds - {"not finite"} if "fraction" in self.kinds else self.kinds):
            case ["boolean"]:
                return BOOLEAN
            case ["integer"]:
                return self._integer_type()
            case ["fraction"] | ["fraction", "integer"]:
                return DOUBLE
            case ["integer", "not finite"]:
                return DOUBLE
            case ["date"]:
                return DATE
            case ["timestamp"]:
                return TIMESTAMP
            case ["array"] if self.element:
                return Array(self.element.type)
            case ["object"] if 0 < len(self.fields) <= MAX_FIELDS:
                return Struct(tuple(Field(n, seen.type) for n, seen in self.fields.items()))
        return STRING

    def _integer_type(self) -> Type:
        if self.largest_integer < 2**63:
            return BIGINT
        digits = len(str(self.largest_integer))
        return Decimal(digits, 0) if digits <= MAX_DIGITS else STRING

    @property
    def doubt(self) -> str:
        """The question about the type that the values leave undecided, or ""."""
        words = sorted({_KIND_NAMES[kind] for kind in self.kinds})
        if not self.kinds:
            return "only nulls here"
        if len(words) > 1 and self.type == STRING:
            return f"{', '.join(words[:-1])} and {words[-1]} here"
        if self.kinds == {"object"} and self.type == STRING:
            return "an object with too many names for a struct" if self.fields else "empty objects"
        if self.kinds == {"array"} and self.element:
            inner = self.element.doubt
            return "only empty arrays here" if inner == "only nulls here" else inner
        return next((f"{n}: {s.doubt}" for n, s in self.fields.items() if s.doubt), "")


def classify_text(text: str) -> str:
    """Classify a JSON string as a date, a timestamp, a non-finite number, or text.

    >>> classify_text("2024-02-30"), classify_text("2024-02-29T08:00:00Z")
    ('text', 'timestamp')
    """
    if text in _NOT_FINITE:
        return "not finite"
    if _DATE.fullmatch(text):
        return "date" if _is_date(text) else "text"
    match = _TIMESTAMP.fullmatch(text)
    if match and _is_date(match[1]) and _is_time(match[2]):
        return "timestamp"
    return "text"


def classify_cell(text: str) -> str:
    """Classify a cell of a CSV file; digits with leading zeros are a code, not a number.

    >>> classify_cell("12"), classify_cell("007"), classify_cell("1.5e3"), classify_cell("true")
    ('integer', 'text', 'fraction', 'boolean')
    """
    if text in ("true", "false"):
        return "boolean"
    if re.fullmatch(r"-?(0|[1-9]\d*)", text, re.ASCII):
        return "integer"
    if re.fullmatch(r"-?(0|[1-9]\d*)?\.?\d+([eE][+-]?\d+)?", text, re.ASCII):
        return "fraction" if not re.fullmatch(r"-?0\d+", text) else "text"
    return classify_text(text)


def collect_cell_evidence(cells: Iterable[str]) -> TypeEvidence:
    """Return the evidence of a column of CSV cells; an empty cell is null."""
    seen = TypeEvidence()
    for cell in cells:
        if cell:
            kind = classify_cell(cell)
            seen.kinds.add(kind)
            if kind == "integer":
                seen.largest_integer = max(seen.largest_integer, abs(int(cell)))
    return seen


def _is_date(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    try:
        return bool(datetime.strptime(text, "%H:%M:%S"))
    except ValueError:
        return False
