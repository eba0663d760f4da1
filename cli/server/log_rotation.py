"""The log of a job: a file for standard output and standard error, rotated by the job itself.

No pipe is involved, so the job needs no reader, and goes on when the process that started it ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from headrace.state.storage.access import create_file

MAX_BYTES = 10 * 2**20
"""The size at which a log is rotated."""

ROTATED_FILES = 3
"""The number of older files that are retained."""

CHECK_INTERVAL_S = 1.0
STANDARD_STREAMS = (1, 2)


@contextmanager
def open_log(path: str, max_bytes: int = MAX_BYTES) -> Iterator[None]:
    """Redirect the standard streams of this process to a log, and rotate it until the end."""
    _redirect_streams(path)
    ended = threading.Event()

    def watch_size() -> None:
        while not ended.wait(CHECK_INTERVAL_S):
            with suppress(OSError):
                rotate_log(path, max_bytes)

    thread = threading.Thread(target=watch_size, name="headrace-log", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def rotate_log(path: str, max_bytes: int = MAX_BYTES) -> None:
    """Rotate the log of this process if it has reached this size. Raises OSError."""
    if os.fstat(STANDARD_STREAMS[-1]).st_size < max_bytes:
        return
    for number in reversed(range(ROTATED_FILES)):
        with suppress(FileNotFoundError):
            os.replace(get_rotated_path(path, number), get_rotated_path(path, number + 1))
    _redirect_streams(path)


def get_rotated_path(path: str, number: int) -> str:
    """Return the path of the log that was rotated this number of times; 0 is the log itself.

    >>> get_rotated_path("orders.log", 0), get_rotated_path("orders.log", 2)
    ('orders.log', 'orders.log.2')
    """
    return f"{path}.{number}" if number else path


def list_log_files(path: str) -> list[str]:
    """List the files of a log, the oldest first."""
    every = (get_rotated_path(path, number) for number in reversed(range(ROTATED_FILES + 1)))
    return [each for each in every if os.path.exists(each)]


def _redirect_streams(path: str) -> None:
    descriptor = create_file(path, os.O_WRONLY | os.O_APPEND)
    try:
        for stream in STANDARD_STREAMS:
            os.dup2(descriptor, stream)
    finally:
        os.close(descriptor)
