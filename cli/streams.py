"""The standard streams of the process, made such that nothing said about a run can break it.

What is said on standard error is for whoever listens. Where nobody does (its reader is gone, its
disk is full) it is lost, and the run goes on: its result is elsewhere. And a stream that was closed
before we began leaves its number to the first file that is opened, into which everything would go
that somebody prints; so its number is taken.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress


class Heedless(io.FileIO):
    """Writes as far as it can, and says that it wrote all."""

    def write(self, data: memoryview, /) -> int:  # type: ignore[override]
        """What cannot be written is lost."""
        with suppress(OSError):
            return super().write(data)
        return data.nbytes


def take_standard_streams() -> None:
    """Call this once, before anything is opened."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    encoding = sys.stderr.encoding if sys.stderr else "utf-8"
    raw = io.BufferedWriter(Heedless(2, "w", closefd=False))  # type: ignore[type-var]
    # A name that is not UTF-8, or a terminal that is not: shown with escapes, never an error.
    escaped = "backslashreplace"
    sys.stderr = io.TextIOWrapper(raw, encoding, escaped, line_buffering=True)
    if sys.stdout:
        sys.stdout.reconfigure(errors=escaped)  # type: ignore[union-attr]
