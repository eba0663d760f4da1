"""Output of a job's log: its last lines, and those that follow."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from typing import IO

import orjson

from headrace.cli.server.log_rotation import list_log_files
from headrace.cli.server.run_log import parse_event

POLL_INTERVAL_S = 0.2
HEADS = ("event", "time", "pipeline")


def iterate_last_lines(path: str, count: int) -> Iterator[bytes]:
    """Yield the last lines of a log, across its rotated files."""
    last: deque[bytes] = deque(maxlen=count)
    for each in list_log_files(path):
        with open(each, "rb") as file:
            last.extend(file)
    return iter(last)


def follow_log(path: str, count: int = 0) -> Iterator[bytes]:
    """Yield the last lines, and all that follow, also of the files that replace a rotated log.

    One open file gives both, so no line is lost between them. Only whole lines are yielded.
    """
    with open(path, "rb") as file:
        last = deque(_iterate_older_lines(path, file), maxlen=count)
        partial = b""
        for line in file:
            if line.endswith(b"\n"):
                last.append(line)
            else:
                partial = line
        yield from last
        yield from _follow_file(path, file, partial)
    while True:
        with open(path, "rb") as file:
            yield from _follow_file(path, file)


def _iterate_older_lines(path: str, newest: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of the files that were rotated before this one was begun."""
    for each in list_log_files(path):
        with open(each, "rb") as file:
            if os.path.sameopenfile(file.fileno(), newest.fileno()):
                return
            yield from file


def _follow_file(path: str, file: IO[bytes], partial: bytes = b"") -> Iterator[bytes]:
    """Yield the rest of a file until another one has its path; `partial` begins its next line."""
    is_rotated = False
    while not is_rotated:
        is_rotated = _is_replaced(path, file.fileno())
        for piece in file:
            partial += piece
            if partial.endswith(b"\n"):
                yield partial
                partial = b""
        if not is_rotated:
            time.sleep(POLL_INTERVAL_S)


def format_line(line: bytes) -> str:
    """Format a line for people: an event in words, any other line as it is.

    >>> format_line(b'{"event":"checkpoint","time":"08:00:00Z","pipeline":"p","number":7}')
    '08:00:00Z checkpoint number=7'
    """
    event = parse_event(line)
    if event is None:
        return line.decode("utf-8", "replace").rstrip("\n")
    values = [
        f"{key}={value if isinstance(value, str) else orjson.dumps(value).decode()}"
        for key, value in event.items()
        if key not in HEADS and value not in (None, "") and not isinstance(value, dict)
    ]
    return " ".join([event["time"], event["event"], *values])


def _is_replaced(path: str, descriptor: int) -> bool:
    try:
        return not os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
