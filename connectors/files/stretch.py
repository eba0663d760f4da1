"""A range of a file, which is one batch split."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.connectors.files.opened import FileVersion


@dataclass(frozen=True, slots=True)
class FileRange:
    """A range of bytes of text or rows of Parquet; without an end, up to the file's end."""

    version: FileVersion
    first: int = 0
    end: int | None = None
