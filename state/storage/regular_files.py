"""Opening files that must be regular ones: never through a link, and never waiting for a pipe.

Whoever can write into a folder could put a link there, so that headrace would read or change
another file, or a pipe, at which it would wait for ever.
"""

from __future__ import annotations

import errno
import os
import stat

_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISREG, "a regular file"),
)


class IrregularFile(OSError):
    """Something else where a regular file, or a socket, must be."""

    def __init__(self, path: str, mode: int, wanted: str = "a regular file") -> None:
        kind = next((kind for matches, kind in _KINDS if matches(mode)), "a device")
        super().__init__(errno.EINVAL, f"it is {kind}, wanted {wanted}", path)


def open_regular(path: str, flags: int = os.O_RDONLY) -> int:
    """Open a regular file; returns the descriptor. Raises IrregularFile."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR):
            raise
        raise IrregularFile(path, os.lstat(path).st_mode) from None
    try:
        check_descriptor(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_descriptor(descriptor: int, path: str) -> None:
    """Raise IrregularFile unless the open file is a regular one."""
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        raise IrregularFile(path, mode)


def measure_file(path: str) -> int | None:
    """Return the length of a file or folder; None if there is none. Raises IrregularFile."""
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode) and os.path.isdir(path):
            found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise IrregularFile(path, found.st_mode)
    return found.st_size
