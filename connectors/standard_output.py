"""Standard output: whole batches, in order, until the reading process closes the pipe.

A reader that exits early, as `head` does, is no failure: later rows are dropped, and the caller
is notified so that the job can end. Rows for a terminal are written as text through `sys.stdout`,
which the progress display replaces so that the two do not garble each other. While rows go to
standard output, `print` calls of user code go to standard error, so as not to mix with the rows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from headrace.core.api.failures import ConnectorError
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True)
class StandardOutput:
    """Standard output as the target of a sink; one caller writes at a time."""

    is_closed: bool = False

    def check(self) -> None:
        """Raise ConnectorError if standard output is closed."""
        if sys.stdout is None or sys.stdout.closed:
            raise ConnectorError("standard output is closed", exit_status=2)

    def write(self, data: bytes) -> bool:
        """Write all of the data, waiting for the reader; return False once the pipe is closed."""
        if not self.is_closed:
            try:
                _write(data)
            except BrokenPipeError:
                self.is_closed = True
                _discard_output()
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                message = f"cannot write to standard output: {why}"
                # A restart would write rows again that were written before.
                raise ConnectorError(message, final=True) from None
        return not self.is_closed


class PrintRedirect:
    """A replacement for `sys.stdout` that sends printed text to standard error."""

    def __init__(self, rows: TextIO) -> None:
        self.rows = rows

    def write(self, text: str) -> int:
        """Write to standard error."""
        return sys.stderr.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self.rows, name)


@contextmanager
def redirect_prints() -> Iterator[None]:
    """Reserve standard output for rows within the `with` block."""
    before = sys.stdout
    if before is not None:
        sys.stdout = PrintRedirect(before)
    try:
        yield
    finally:
        sys.stdout = before


def _write(data: bytes) -> None:
    out = getattr(sys.stdout, "rows", sys.stdout)
    buffer = getattr(out, "buffer", None)
    if buffer is None or out.isatty():
        out.write(data.decode("utf-8", "replace"))
    else:
        buffer.write(data)
        buffer.flush()
    out.flush()


def _discard_output() -> None:
    """Redirect standard output to /dev/null, so that Python's final flush raises nothing."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
