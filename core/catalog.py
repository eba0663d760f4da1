"""The catalogue of functions and aggregates in expressions, for help, docs and completion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

from headrace.core.aggregates.table import EXAMPLE_ROWS
from headrace.core.aggregates.table import TABLE as AGGREGATES
from headrace.core.expressions.functions import FAMILIES
from headrace.core.expressions.functions import TABLE as FUNCTIONS


class Entry(Protocol):
    """The description of a function or an aggregate."""

    @property
    def name(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def doc(self) -> str: ...
    @property
    def signatures(self) -> tuple[str, ...]: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...
    @property
    def examples(self) -> tuple[tuple[str, str], ...]: ...


Catalog: TypeAlias = Mapping[str, Entry]

BY_NAME: Catalog = {**AGGREGATES, **FUNCTIONS}
"""Every entry by its lower-case name and by each alias."""

ENTRIES: tuple[Entry, ...] = (
    *(row for family in FAMILIES for row in family),
    *dict.fromkeys(AGGREGATES.values()),
)
"""Every entry once: functions by their families, then the aggregates."""


def families() -> dict[str, list[Entry]]:
    """Return the entries by family, in the order of the table."""
    found: dict[str, list[Entry]] = {}
    for entry in ENTRIES:
        found.setdefault(entry.family, []).append(entry)
    return found


def example_lines(entry: Entry) -> Iterable[str]:
    """Yield the examples, with aligned values; for an aggregate also its input rows."""
    width = max(len(text) for text, _ in entry.examples)
    for text, value in entry.examples:
        yield f"{text:<{width}}  ->  {value}"
    if entry.name in AGGREGATES:
        yield from _rows([text for text, _ in entry.examples])


def _rows(texts: list[str]) -> Iterable[str]:
    words = set(re.findall(r"\w+", " ".join(texts)))
    for name, (_, values) in EXAMPLE_ROWS.items():
        if name in words:
            yield f"where {name} is {', '.join(map(_shown, values))}"


def _shown(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str():
            return f"'{value}'"
    return str(value)
