"""From the bytes of a file to its text, or to what is wrong with it as a text."""

from __future__ import annotations

from pathlib import Path

from headrace.core.pipeline.file import File
from headrace.core.problems import Problem

MAX_BYTES = 2**20


def read(path: str | Path) -> tuple[File | None, list[Problem]]:
    """The file's text, a byte order mark removed."""
    name = str(path)
    try:
        content = Path(path).read_bytes()
        return File(name, content.decode("utf-8-sig")), []
    except (OSError, ValueError) as error:
        return None, [Problem(str(error), File(name, "").whole())]
