"""Standard output: whole pieces, in order, until nobody reads any more.

A reader that goes away, as `head` does, is no failure: what comes later is dropped, and the caller
is told so that the job can end. A terminal is written as text through `sys.stdout`, which progress
on the same terminal takes over so that the two do not garble each other. What users' code prints
while rows are written there goes to standard error, or it would stand among the rows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from headrace.core.contracts import ConnectorError


@dataclass(slots=True)
class StandardOutput:
    """What a sink writes to; one writes at a time."""

    closed: bool = False

    def check(self) -> None:
        """There is a standard output."""
        if sys.stdout is None or sys.stdout.closed:
            raise ConnectorError("standard output is closed", exit_status=2)

    def put(self, data: bytes) -> bool:
        """Write all of it, waiting as long as the reader takes; whether anybody still reads."""
        if not self.closed:
            try:
                _write(data)
            except BrokenPipeError:
                self.closed = True
                _forget()
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                raise ConnectorError(f"cannot write to standard output: {why}") from None
        return not self.closed


class Apart:
    """`sys.stdout` for all but rows: what is printed goes to standard error."""

    def __init__(self, rows: TextIO) -> None:
        self.rows = rows

    def write(self, text: str) -> int:
        """Write to standard error."""
        return sys.stderr.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self.rows, name)


@contextmanager
def rows_apart() -> Iterator[None]:
    """Until the end, standard output has rows only."""
    before = sys.stdout
    if before is not None:
        sys.stdout = Apart(before)
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


def _forget() -> None:
    """Let Python flush into nothing when it ends, instead of complaining."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
