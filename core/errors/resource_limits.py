"""Errors of a system that has run out of something: no bugs, and they may pass.

Polars, RocksDB and other libraries report them by exceptions of their own, whose texts have the
system's error.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from headrace.core.errors.full_disks import describe_full_disk


@dataclass(frozen=True, slots=True)
class ResourceShortage:
    """A lack of something that a process needs, in words, and what to do."""

    message: str
    hint: str


OPEN_FILES = ResourceShortage("too many open files", "ulimit -n 4096 allows more")
MEMORY = ResourceShortage(
    "out of memory",
    "give it more, or lower settings.state.memory, settings.buffer.bytes or the parallelism",
)
THREADS = ResourceShortage(
    "no more threads can be started", "ulimit -u, or the limit of its container, is too low for it"
)
DISK_SPACE = ResourceShortage("no space left on device", "remove files, or give it more space")
FILE_SIZE = ResourceShortage("file too large", "ulimit -f limits the size of files")

_BY_ERRNO = {
    errno.EMFILE: OPEN_FILES,
    errno.ENFILE: ResourceShortage(
        "too many open files in the system", "sysctl fs.file-max allows more"
    ),
    errno.ENOMEM: MEMORY,
    errno.ENOSPC: DISK_SPACE,
    errno.EDQUOT: ResourceShortage("disk quota exceeded", DISK_SPACE.hint),
    errno.EFBIG: FILE_SIZE,
}
_BY_TEXT = (
    (re.compile(r"can't start new thread|could not spawn threads|failed to spawn thread"), THREADS),
    (re.compile(r"(?is)(?:spawn|thread ?pool).*(?:os error 11\b|code: 11,)"), THREADS),
    (re.compile(r"too many open files", re.IGNORECASE), OPEN_FILES),
    (re.compile(r"no space left on device", re.IGNORECASE), DISK_SPACE),
    (re.compile(r"file too large", re.IGNORECASE), FILE_SIZE),
    (
        re.compile(r"cannot allocate memory|out of memory|memory allocation|failed to map segment"),
        MEMORY,
    ),
)
"""The texts of other libraries, which quote the system's own or Rust's."""


def find_shortage(error: BaseException, path: str | None = None) -> ResourceShortage | None:
    """Return what the process has run out of, if that is the cause of an exception.

    `path` is where it was writing, if the exception does not say so.
    """
    for each in _list_causes(error):
        if isinstance(each, MemoryError):
            return MEMORY
        if isinstance(each, OSError) and each.errno in _BY_ERRNO:
            return _name_disk(_BY_ERRNO[each.errno], each)
        if not isinstance(each, (ValueError, TypeError, LookupError)):
            for pattern, shortage in _BY_TEXT:
                if pattern.search(str(each)):
                    return _name_disk(shortage, OSError(errno.ENOSPC, "", path))
    return None


def _name_disk(shortage: ResourceShortage, error: OSError) -> ResourceShortage:
    """Return a lack of space with the name of the full disk, if it is known."""
    where = describe_full_disk(error) if shortage.hint == DISK_SPACE.hint else ""
    return replace(shortage, hint=f"{where}; {shortage.hint}") if where else shortage


def _list_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and what caused it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                yield from _list_causes(each)
        hidden = error.__suppress_context__
        error = error.__cause__ or (None if hidden else error.__context__)
