"""The narrowest type that accepts the values seen, found value by value.

A `TypeEvidence` records the kinds of values seen so far in a column, a field, or the elements of an
array. Integers and fractions together become double. Incompatible kinds become string, which
accepts any JSON value as text; but if only a few values are of another kind, they are not counted,
and their lines are reported. What stays undecided is reported as the doubt of a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from datetime import date
from types import NoneType
from typing import Any

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
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

# An object with more fields than this is a table keyed by data, not a struct.
MAX_FIELDS = 200

# How deep arrays and structs may nest before the rest is taken as text.
MAX_DEPTH = 12

# The texts that JSON uses for non-finite numbers; a double accepts them.
_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}

_DATE = compile_pattern(r"\d{4}-\d\d-\d\d")
_TIMESTAMP = compile_pattern(
    r"(\d{4}-\d\d-\d\d)[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)

_KIND_NAMES = {
    "boolean": "booleans",
    "integer": "numbers",
    "fraction": "numbers",
    "date": "dates",
    "timestamp": "timestamps",
    "text": "text",
    "code": "text",
    "not finite": "text",
    "array": "arrays",
    "object": "objects",
}


MAX_LINES_SHOWN = 3
FEW_ONE_IN = 10
"""Values of another kind are few if they are at most one in this number."""


@dataclass(slots=True)
class KindCount:
    """The number of values of one kind, and the lines of the first of them."""

    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, lines: Sequence[int]) -> None:
        """Count more values, one of each of these lines."""
        self.count += len(lines)
        for line in lines:
            if len(self.lines) == MAX_LINES_SHOWN:
                break
            if line not in self.lines:
                self.lines.append(line)


@dataclass(slots=True)
class TypeEvidence:
    """The kinds of values seen in one position, and what was seen inside arrays and objects."""

    seen: dict[str, KindCount] = field(default_factory=dict)
    largest_integer: int = 0
    element: TypeEvidence | None = None
    fields: dict[str, TypeEvidence] = field(default_factory=dict)

    def add(self, value: object, line: int, depth: int = 0) -> None:
        """Take one more value into account, from a line of the file; null gives no evidence."""
        match value:
            case str():
                self.add_kind(classify_text(value), line)
            case bool():
                self.add_kind("boolean", line)
            case int():
                self.add_kind("integer", line)
                self.largest_integer = max(self.largest_integer, abs(value))
            case float():
                self.add_kind("fraction", line)
            case list():
                self._add_elements(value, line, depth)
            case dict():
                self._add_fields(value, line, depth)

    def add_all(self, values: Sequence[Any], lines: Sequence[int], depth: int = 0) -> None:
        """Take values into account, each from its line, as `add` does for one."""
        types = {*map(type, values)}
        if NoneType in types and len(types) > 1:
            lines = [line for line, value in zip(lines, values, strict=True) if value is not None]
            self.add_all([value for value in values if value is not None], lines, depth)
        elif types == {str} and len(kinds := {*map(classify_text, {*values})}) == 1:
            self.add_kind(kinds.pop(), *lines)
        elif types == {int}:
            self.add_kind("integer", *lines)
            self.largest_integer = max(self.largest_integer, *map(abs, values))
        elif types == {dict} and depth == 0 and len({*map(tuple, values)}) == 1:
            self.add_kind("object", *lines)
            names, columns = values[0], zip(*(row.values() for row in values), strict=True)
            for name, column in zip(names, columns, strict=True):
                self.fields.setdefault(name, TypeEvidence()).add_all(column, lines, depth + 1)
        else:
            for value, line in zip(values, lines, strict=True):
                self.add(value, line, depth)

    def add_kind(self, kind: str, *lines: int) -> None:
        """Take more values of a kind into account."""
        count = self.seen.get(kind)
        if count is None:
            count = self.seen[kind] = KindCount()
        count.add(lines)

    def _add_elements(self, values: list[object], line: int, depth: int) -> None:
        self.add_kind("array" if depth < MAX_DEPTH else "text", line)
        self.element = self.element or TypeEvidence()
        for value in values if depth < MAX_DEPTH else ():
            self.element.add(value, line, depth + 1)

    def _add_fields(self, values: dict[str, object], line: int, depth: int) -> None:
        fits = depth == 0 or (depth < MAX_DEPTH and len(self.fields) <= MAX_FIELDS)
        self.add_kind("object" if fits else "text", line)
        for name, value in values.items() if fits else ():
            evidence = self.fields.get(name)
            if evidence is None:
                evidence = self.fields[name] = TypeEvidence()
            evidence.add(value, line, depth + 1)

    @property
    def kinds(self) -> set[str]:
        """The kinds that decide the type: all, or those of nearly all values."""
        families: dict[str, set[str]] = {}
        for kind in self.seen:
            families.setdefault(self._get_family(kind), set()).add(kind)
        counts = {name: sum(self.seen[k].count for k in of) for name, of in families.items()}
        most = max(counts, key=lambda name: counts[name], default="")
        others = sum(counts.values()) - counts.get(most, 0)
        are_few = 0 < FEW_ONE_IN * others <= sum(counts.values())
        # A code would lose its zeros as a number, and text accepts every value.
        if not are_few or most == "text" or "code" in self.seen:
            return set(self.seen)
        return families[most]

    def _get_family(self, kind: str) -> str:
        """Return the name for all kinds that fit one type together."""
        has_numbers = not self.seen.keys().isdisjoint(("integer", "fraction"))
        if kind in ("integer", "fraction") or (kind == "not finite" and has_numbers):
            return "number"
        return "text" if kind in ("code", "not finite") else kind

    @property
    def type(self) -> Type:
        """The narrowest type for the values seen, except for a few of another kind."""
        kinds = self.kinds
        match sorted(kinds - {"not finite"} if "fraction" in kinds else kinds):
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
        if not self.seen:
            return "only nulls here"
        kinds = self.kinds
        if few := self.seen.keys() - kinds:
            # A timestamp column reads a date as its midnight.
            bad = few - {"date"} if "timestamp" in kinds else few
            described = "; ".join(map(self._describe_few, sorted(few)))
            return f"{described}; bad records, see on_error" if bad else described
        words = sorted({_KIND_NAMES[kind] for kind in kinds})
        if len(words) > 1 and self.type == STRING:
            return f"{', '.join(words[:-1])} and {words[-1]} here"
        if kinds == {"object"} and self.type == STRING:
            return "an object with too many names for a struct" if self.fields else "empty objects"
        if kinds == {"array"} and self.element:
            inner = self.element.doubt
            return "only empty arrays here" if inner == "only nulls here" else inner
        return next((f"{n}: {s.doubt}" for n, s in self.fields.items() if s.doubt), "")

    def _describe_few(self, kind: str) -> str:
        found = self.seen[kind]
        lines = ", ".join(map(str, found.lines))
        more = found.count - len(found.lines)
        shown = f"{lines} and {more} more" if more > 0 else lines
        return f"{_KIND_NAMES[kind]} in line{'s' if found.count > 1 else ''} {shown}"


def classify_text(text: str) -> str:
    """Classify a JSON string as a date, a timestamp, a non-finite number, or text.

    >>> classify_text("2024-02-30"), classify_text("2024-02-29T08:00:00Z")
    ('text', 'timestamp')
    """
    if not text[:1].isdigit():
        return "not finite" if text in _NOT_FINITE else "text"
    if _DATE.fullmatch(text):
        return "date" if _is_date(text) else "text"
    match = _TIMESTAMP.fullmatch(text)
    return "timestamp" if match and _is_date(match[1]) else "text"


def classify_cell(text: str) -> str:
    """Classify a cell of a CSV file; digits with leading zeros are a code, not a number.

    >>> classify_cell("12"), classify_cell("007"), classify_cell("1.5e3"), classify_cell("true")
    ('integer', 'code', 'fraction', 'boolean')
    """
    if text in ("true", "false"):
        return "boolean"
    if re.fullmatch(r"-?(0|[1-9]\d*)", text, re.ASCII):
        return "integer"
    if re.fullmatch(r"-?(0|[1-9]\d*)?\.?\d+([eE][+-]?\d+)?", text, re.ASCII):
        return "fraction" if not re.fullmatch(r"-?0\d+", text) else "code"
    return classify_text(text)


def add_cell_evidence(seen: TypeEvidence, cells: Iterable[tuple[int, str]]) -> None:
    """Take CSV cells of a column into account, each with its line; an empty cell is null."""
    for line, cell in cells:
        if cell:
            kind = classify_cell(cell)
            seen.add_kind(kind, line)
            if kind == "integer":
                seen.largest_integer = max(seen.largest_integer, abs(int(cell)))


def _is_date(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False
