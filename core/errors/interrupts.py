"""Ctrl-C: the exit status, and the handler of commands that handle KeyboardInterrupt."""

from __future__ import annotations

import os
import signal
from types import FrameType

INTERRUPTED_STATUS = 130


def raise_interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, as a handler of SIGINT; exit if a module is being imported.

    Some modules of others drop the exception, and Polars panics on it.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os.write(2, b"stopped\n")
            os._exit(INTERRUPTED_STATUS)
        frame = frame.f_back
    raise KeyboardInterrupt


def is_interrupt_raised() -> bool:
    """Whether Ctrl-C raises KeyboardInterrupt in this process."""
    return signal.getsignal(signal.SIGINT) in (signal.default_int_handler, raise_interrupt)
