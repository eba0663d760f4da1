"""Conversion of state documents between typed structs and plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from headrace.core.snapshots import DamagedSnapshot
from headrace.core.state import Document

Typed = TypeVar("Typed", bound=msgspec.Struct)


def to_plain(document: msgspec.Struct) -> Document:
    """Return the document as plain data, as JSON has it."""
    built = msgspec.to_builtins(document)
    assert isinstance(built, Mapping)
    return built


def to_typed(document: object, kind: type[Typed]) -> Typed:
    """Convert plain data to a typed document. Raises DamagedSnapshot."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise DamagedSnapshot(f"wanted the state of a step, got another: {error}") from error
