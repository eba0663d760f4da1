"""The time to kill a process: some time after its start, or soon after a new file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random


def moments(chance: Random, longest_s: float, folder: Path, pattern: str | None) -> Iterator[bool]:
    """Yield whether the time has come.

    With a pattern it comes after the first new file of that kind, or twice as late.
    """
    begin = time.monotonic()
    until = begin + chance.uniform(0, longest_s)
    before = _seen(folder, pattern)
    after_s = chance.choice([0.0, 0.0, 0.003, 0.03])
    while True:
        if pattern and _seen(folder, pattern) - before:
            until, pattern = time.monotonic() + after_s, None
        yield time.monotonic() >= (begin + 2 * longest_s if pattern else until)


def _seen(folder: Path, pattern: str | None) -> set[str]:
    return {str(path) for path in folder.glob(pattern)} if pattern else set()
