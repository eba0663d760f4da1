"""Standard streams of the process, set up so that a failing report cannot break a run.

If standard error cannot be written (its reader is gone, its disk is full), the text is lost and the
run continues: its result is elsewhere. If a standard stream was closed before the start, the first
opened file would get its number, and all printed text; so the number is reserved.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress


class LossyFile(io.FileIO):
    """A file that ignores errors of writing, and reports that it wrote everything."""

    def write(self, data: memoryview, /) -> int:  # type: ignore[override]
        """Write the data; data that cannot be written is lost."""
        with suppress(OSError):
            return super().write(data)
        return data.nbytes


def set_up_standard_streams() -> None:
    """Set up the standard streams. Call once, before any file is opened."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    encoding = sys.stderr.encoding if sys.stderr else "utf-8"
    raw = io.BufferedWriter(LossyFile(2, "w", closefd=False))  # type: ignore[type-var]
    # A name or a terminal that is not UTF-8: escapes are shown, instead of an error.
    escaped = "backslashreplace"
    sys.stderr = io.TextIOWrapper(raw, encoding, escaped, line_buffering=True)
    if sys.stdout:
        sys.stdout.reconfigure(errors=escaped)  # type: ignore[union-attr]
