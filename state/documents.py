"""Documents of states: typed where they are made and read, and plain data on their way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from headrace.core.snapshots import DamagedSnapshot
from headrace.core.state import Document

Typed = TypeVar("Typed", bound=msgspec.Struct)


def plain(document: msgspec.Struct) -> Document:
    """The document as plain data."""
    built = msgspec.to_builtins(document)
    assert isinstance(built, Mapping)
    return built


def typed(document: object, kind: type[Typed]) -> Typed:
    """What is kept of a step, of plain data. Raises DamagedSnapshot."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise DamagedSnapshot(f"wanted what is kept of a step, got another: {error}") from error
