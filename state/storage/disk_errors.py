"""Translation of the operating system's errors about a store's files into messages."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.core.api.snapshots import RefusedSnapshot, StoreError
from headrace.core.errors.full_disks import describe_full_disk
from headrace.state.storage.regular_files import IrregularFile

_NO_SPACE_HINT = "remove files, or give it more space: earlier checkpoints are intact"
_PERMISSION_HINT = "look at its permissions, and at those of the folders above it"
_IRREGULAR_HINT = "headrace makes none and follows none: move it away"
_HINTS = {
    errno.ENOSPC: _NO_SPACE_HINT,
    errno.EDQUOT: _NO_SPACE_HINT,
    errno.EACCES: _PERMISSION_HINT,
    errno.EPERM: _PERMISSION_HINT,
    errno.EROFS: "it is on a disk that is mounted read-only; --home names another folder",
    errno.EMFILE: "see ulimit -n",
    errno.EFBIG: "see ulimit -f",
    errno.EIO: "the disk may be failing: see dmesg",
    errno.ENOLCK: "its disk has no locks; --home names another folder",
    errno.ENOTSUP: "its disk cannot do that; --home names another folder",
}


@contextmanager
def translate_os_errors(doing: str) -> Iterator[None]:
    """Translate an OSError into what could not be done, and why: `cannot write checkpoint 7: no
    space left`.
    """
    try:
        yield
    except IrregularFile as error:
        message = f"cannot {doing}: {error.filename}: {describe_os_error(error)}"
        raise RefusedSnapshot(message, _IRREGULAR_HINT) from error
    except OSError as error:
        raise StoreError(
            f"cannot {doing}: {describe_os_error(error)}", build_hint(error)
        ) from error


def build_hint(error: OSError) -> str:
    """Return what to do about an error, and of a full disk which one it is."""
    hint = _HINTS.get(error.errno or 0, "")
    return "; ".join(filter(None, (describe_full_disk(error), hint)))


def describe_os_error(error: OSError) -> str:
    """Return the system's error text."""
    return (error.strerror or str(error)).lower()
