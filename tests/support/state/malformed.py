"""Documents of another form than the one that was written: for each key, of each kind of change."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from headrace.state.storage.checksummed_json import encode_checksummed

Way: TypeAlias = "tuple[str | int, ...]"

OTHERS: tuple[object, ...] = (None, -7, "x", [], {"x": None})
MAPS = (
    *("parts", "kept", "readings", "sources", "states", "sinks", "failed", "rows"),
    *("calls", "aggregates", "columns", "users", "of", "process", "shape", "database"),
)
"""The members whose own keys are names."""


def read_document(path: Path) -> dict[str, Any]:
    """Return the members of a document, but for its checksum and its format."""
    document: dict[str, Any] = json.loads(path.read_bytes())
    return {key: value for key, value in document.items() if key not in ("checksum", "format")}


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Write a document with the right checksum, so that only its form is wrong."""
    path.write_bytes(encode_checksummed(document))


def find_shapes(document: dict[str, Any]) -> list[Way]:
    """Return the way to one member of each shape: of several with other names, one is enough."""
    shapes: dict[tuple[object, ...], Way] = {}
    for way in find_ways(document):
        pairs = zip(("", *way), way, strict=False)
        shapes.setdefault(tuple("*" if above in MAPS else each for above, each in pairs), way)
    return [*shapes.values()]


def find_ways(value: object, maps: int = 9, way: Way = ()) -> Iterator[Way]:
    """Yield the way to each member, and to the first of each list, down to a depth."""
    if isinstance(value, dict) and maps:
        for key, member in value.items():
            yield (*way, key)
            yield from find_ways(member, maps - 1, (*way, key))
    elif isinstance(value, list) and value and maps:
        yield (*way, 0)
        yield from find_ways(value[0], maps - 1, (*way, 0))


def change(document: dict[str, Any], way: Way) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the document without a member, with it renamed, and with values of other types."""
    *above, last = way

    def copied() -> tuple[dict[str, Any], Any]:
        whole: dict[str, Any] = copy.deepcopy(document)
        holder: Any = whole
        for step in above:
            holder = holder[step]
        return whole, holder

    whole, holder = copied()
    old = holder[last]
    del holder[last]
    yield "removed", whole
    if isinstance(holder, dict):
        whole, holder = copied()
        holder[f"{last}_"] = holder.pop(last)
        yield "renamed", whole
    for other in OTHERS:
        if type(other) is not type(old) or isinstance(other, dict):
            whole, holder = copied()
            holder[last] = other
            yield f"{other!r}", whole
