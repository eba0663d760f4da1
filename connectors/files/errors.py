"""Errors of the operating system about files, as messages for users."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.connectors.files.compression import list_errors
from headrace.core.api.failures import ConnectorError
from headrace.core.api.splits import Position
from headrace.core.errors.full_disks import describe_full_disk

PERMISSION_HINT = "look at its permissions, and at those of the folders above it"
DISK_FULL_HINT = "make room and run it again: what this run has not committed is removed"
ERROR_HINTS = {
    errno.EACCES: PERMISSION_HINT,
    errno.EPERM: PERMISSION_HINT,
    errno.EROFS: "it is on a disk that is mounted read-only",
    errno.ENOSPC: DISK_FULL_HINT,
    errno.EDQUOT: DISK_FULL_HINT,
    errno.EFBIG: "see ulimit -f; with roll: {bytes: ...} files are smaller",
    errno.EMFILE: "see ulimit -n",
    errno.ENAMETOOLONG: "a name has at most 255 bytes; with partition_by, values become names",
    errno.EIO: "the disk may be failing: see dmesg",
}
FINAL_ERRORS = {
    errno.EACCES,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
"""Errors that another attempt would meet again, unlike those of a full disk."""
DAMAGED_HINT = "it may be damaged, still being written, or not what its name says"


@contextmanager
def translate_errors(
    doing: str, split: str | None = None, position: Position = None, exit_status: int = 1
) -> Iterator[None]:
    """Translate errors to ConnectorError: `cannot read a.json: permission denied`."""
    is_final = False
    try:
        yield
    except OSError as error:
        # An error without a number is a decompressor's, whose text may hold bytes of the file.
        why = (error.strerror or str(error).split(" (b")[0]).lower()
        hint = ERROR_HINTS.get(error.errno, "") if error.errno else DAMAGED_HINT
        hint = "; ".join(filter(None, (describe_full_disk(error), hint)))
        is_final = error.errno in FINAL_ERRORS
    except Exception as error:
        if not isinstance(error, list_errors()):
            raise
        why, hint = str(error).lower(), DAMAGED_HINT
    else:
        return
    raise ConnectorError(
        f"cannot {doing}: {why}",
        hint,
        split=split,
        position=position,
        exit_status=exit_status,
        final=is_final,
    )
