"""Full disks: which file system is full, and of what, so that the right thing is removed.

The system's error is the same for a disk without free bytes and for one without free inodes, on
which a file of any size cannot be made.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

_DESCRIPTION_ATTRIBUTE = "headrace_full_disk"
FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def name_file(path: str) -> Iterator[None]:
    """Give errors of the system the path that they are about, unless they have one.

    A full disk is described at once: what was written in vain is removed soon.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        setattr(error, _DESCRIPTION_ATTRIBUTE, describe_full_disk(error))
        raise


def describe_full_disk(error: OSError) -> str:
    """Return what is used up, and on which file system; "" if that is not the error or not known.

    >>> describe_full_disk(OSError(errno.EACCES, "permission denied", "/"))
    ''
    """
    known: str = getattr(error, _DESCRIPTION_ATTRIBUTE, "")
    if known or error.errno not in FULL_ERRORS or not isinstance(error.filename, str):
        return known
    mount = _find_mount(error.filename)
    try:
        found = os.statvfs(mount)
    except OSError:
        return ""
    if found.f_files and not found.f_favail:
        return (
            f"the file system at {mount} has no free inodes: {found.f_files:,} files are the most"
        )
    if not found.f_bavail:
        size = format_mebibytes(found.f_blocks * found.f_frsize)
        return f"the file system at {mount} has no free space: all {size} are used"
    return ""


def format_mebibytes(size: int) -> str:
    """Format a size.

    >>> format_mebibytes(512 << 10), format_mebibytes(20 << 30)
    ('0.5 MiB', '20,480.0 MiB')
    """
    return f"{size / (1 << 20):,.1f} MiB"


def _find_mount(path: str) -> str:
    """Return the root of the file system of a path, which need not exist."""
    path = os.path.realpath(path)
    while not os.path.ismount(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path
