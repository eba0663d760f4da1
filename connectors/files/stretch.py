"""A part of a file that is read at once."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.connectors.files.opened import Seen


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes of text, or rows of Parquet, of a file; without an end to the file's."""

    seen: Seen
    first: int = 0
    end: int | None = None
