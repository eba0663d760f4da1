"""The narrowest type that takes every value seen, found value by value.

A `Seen` holds what a place (a column, a field, the elements of an array) has shown so far. Kinds
that do not go together end as string, which takes any JSON value as its text; only integers and
fractions meet as double. What the result leaves open is said in words, as the doubt of a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime

from headrace.core.types import (
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

# An object with more fields than this is a table of its own, keyed by data; no struct.
MAX_FIELDS = 200

# How deep arrays and structs may stand in each other before the rest is kept as text.
MAX_DEPTH = 12

# The texts that JSON has for what its numbers cannot say; a double reads them.
_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)

_WORDS = {
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
class Seen:
    """What one place has shown: kinds of values, and what is inside arrays and objects."""

    kinds: set[str] = field(default_factory=set)
    largest: int = 0
    element: Seen | None = None
    fields: dict[str, Seen] = field(default_factory=dict)

    def add(self, value: object, depth: int = 0) -> None:
        """Take one more value into account; null says nothing about the type."""
        match value:
            case None:
                return
            case bool():
                self.kinds.add("boolean")
            case int():
                self.kinds.add("integer")
                self.largest = max(self.largest, abs(value))
            case float():
                self.kinds.add("fraction")
            case str():
                self.kinds.add(kind_of_text(value))
            case list():
                self._add_elements(value, depth)
            case dict():
                self._add_fields(value, depth)

    def _add_elements(self, values: list[object], depth: int) -> None:
        self.kinds.add("array" if depth < MAX_DEPTH else "text")
        self.element = self.element or Seen()
        for value in values if depth < MAX_DEPTH else ():
            self.element.add(value, depth + 1)

    def _add_fields(self, values: dict[str, object], depth: int) -> None:
        fits = depth == 0 or (depth < MAX_DEPTH and len(self.fields) <= MAX_FIELDS)
        self.kinds.add("object" if fits else "text")
        for name, value in values.items() if fits else ():
            self.fields.setdefault(name, Seen()).add(value, depth + 1)

    @property
    def type(self) -> Type:
        """The narrowest type for all of it."""
        match sorted(self.kinds - {"not finite"} if "fraction" in self.kinds else self.kinds):
            case ["boolean"]:
                return BOOLEAN
            case ["integer"]:
                return self._integer()
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

    def _integer(self) -> Type:
        if self.largest < 2**63:
            return BIGINT
        digits = len(str(self.largest))
        return Decimal(digits, 0) if digits <= MAX_DIGITS else STRING

    @property
    def doubt(self) -> str:
        """What the values leave open about the type, or ""."""
        words = sorted({_WORDS[kind] for kind in self.kinds})
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


def kind_of_text(text: str) -> str:
    """What a JSON string holds: a date, a timestamp, a word for a number, or just text.

    >>> kind_of_text("2024-02-30"), kind_of_text("2024-02-29T08:00:00Z")
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


def kind_of_cell(text: str) -> str:
    """What a cell of a CSV file holds; digits with leading zeros are a code, not a number.

    >>> kind_of_cell("12"), kind_of_cell("007"), kind_of_cell("1.5e3"), kind_of_cell("true")
    ('integer', 'text', 'fraction', 'boolean')
    """
    if text in ("true", "false"):
        return "boolean"
    if re.fullmatch(r"-?(0|[1-9]\d*)", text, re.ASCII):
        return "integer"
    if re.fullmatch(r"-?(0|[1-9]\d*)?\.?\d+([eE][+-]?\d+)?", text, re.ASCII):
        return "fraction" if not re.fullmatch(r"-?0\d+", text) else "text"
    return kind_of_text(text)


def seen_in_cells(cells: Iterable[str]) -> Seen:
    """What a column of CSV cells shows; an empty cell is null."""
    seen = Seen()
    for cell in cells:
        if cell:
            kind = kind_of_cell(cell)
            seen.kinds.add(kind)
            if kind == "integer":
                seen.largest = max(seen.largest, abs(int(cell)))
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
