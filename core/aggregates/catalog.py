"""The catalogue of functions and aggregates in expressions, for help, docs and completion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

from headrace.core.aggregates.table import AGGREGATES as AGGREGATES
from headrace.core.aggregates.table import EXAMPLE_ROWS
from headrace.core.expressions.functions import FUNCTIONS, list_functions


class CatalogEntry(Protocol):
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


Catalog: TypeAlias = Mapping[str, CatalogEntry]

ENTRIES_BY_NAME: Catalog = {**AGGREGATES, **FUNCTIONS}
"""Every entry by its lower-case name and by each alias."""

ENTRIES: tuple[CatalogEntry, ...] = (
    *list_functions(),
    *dict.fromkeys(AGGREGATES.values()),
)
"""Every entry once: functions by their families, then the aggregates."""


def group_by_family(
    entries: Iterable[CatalogEntry] = ENTRIES,
) -> dict[str, list[CatalogEntry]]:
    """Return the entries by family, in their order; by default all of them."""
    found: dict[str, list[CatalogEntry]] = {}
    for entry in entries:
        found.setdefault(entry.family, []).append(entry)
    return found


def format_examples(entry: CatalogEntry) -> Iterable[str]:
    """Yield the examples, with aligned values; for an aggregate also its input rows."""
    width = max(len(text) for text, _ in entry.examples)
    for text, value in entry.examples:
        yield f"{text:<{width}}  ->  {value}"
    if entry.name in AGGREGATES:
        yield from _format_example_rows([text for text, _ in entry.examples])


def _format_example_rows(texts: list[str]) -> Iterable[str]:
    words = set(re.findall(r"\w+", " ".join(texts)))
    for name, (_, values) in EXAMPLE_ROWS.items():
        if name in words:
            yield f"where {name} is {', '.join(map(_format_value, values))}"


def _format_value(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str():
            return f"'{value}'"
    return str(value)
