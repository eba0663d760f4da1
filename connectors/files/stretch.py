"""A range of a file, which is one batch split."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.connectors.files.opened import Seen


@dataclass(frozen=True, slots=True)
class Stretch:
    """A range of bytes of text or rows of Parquet; without an end, up to the file's end."""

    seen: Seen
    first: int = 0
    end: int | None = None
