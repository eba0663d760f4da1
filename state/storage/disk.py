"""Interface to a file system: only what a store needs, so that simulations can replace it.

A file is durable when it is synced and the folder that names it is synced. Until then a crash may
leave any part of it: the name without the bytes, the bytes without the name, or some of either.
Every failure is an OSError. After a failed sync the state of the file is unknown, and syncing again
proves nothing: the system may have dropped what it could not write, and regards the file as clean.
Only bytes written again, under a new name, can be trusted.

`local_disk` is the real file system. `memory_disk` loses unsynced data and fails on demand; it
ships with headrace, because simulations run on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

CHUNK_BYTES = 1 << 20
"""Approximate number of bytes read at a time."""


class Disk(Protocol):
    """A file system. Paths are those of the operating system.

    Files are created for their owner alone (`access`), and only regular ones are opened.
    """

    def make_folder(self, path: str) -> None:
        """Create this folder and its parents, durably."""
        ...

    def list_names(self, folder: str) -> list[str]:
        """Return the names in a folder, in no order; none if there is no such folder."""
        ...

    def get_size(self, path: str) -> int | None:
        """Return the length of a file; None if there is none."""
        ...

    def read(self, path: str) -> bytes:
        """Return all bytes of a file."""
        ...

    def read_chunks(self, path: str) -> Iterator[memoryview]:
        """Yield a file in chunks; each chunk is overwritten by the next one."""
        ...

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Create a file, not durably; it must not exist. A failure may leave part of it."""
        ...

    def sync(self, paths: Sequence[str]) -> None:
        """Wait until the bytes of all these files are durable."""
        ...

    def sync_folder(self, path: str) -> None:
        """Wait until all names created, renamed and removed in a folder are durable."""
        ...

    def rename(self, path: str, to: str) -> None:
        """Rename a file or folder within its folder, replacing one of that name."""
        ...

    def link(self, path: str, to: str) -> None:
        """Give a file a second name, which must be free."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove a folder with its contents, if it exists."""
        ...

    def is_link(self, path: str) -> bool:
        """Whether a name is a link to another file or folder."""
        ...

    def restrict_access(self, folder: str) -> str:
        """Take the access to a folder and all in it from other users; returns a line for the user
        if there was any, else "".
        """
        ...

    def lock(self, path: str) -> FileLock | None:
        """Take the lock of this file; None if it is held."""
        ...


class FileLock(Protocol):
    """A held lock, until it is released or the process ends, however it ends."""

    def read(self) -> bytes:
        """Return the contents of the lock file."""
        ...

    def write(self, data: bytes) -> None:
        """Replace the contents of the lock file, not necessarily durably."""
        ...

    def release(self) -> None: ...


def write_atomically(disk: Disk, path: str, temporary: str, data: bytes) -> None:
    """Write these bytes durably to this path, atomically replacing what was there. May be repeated.

    If it fails before the rename, nothing has changed; if syncing the folder fails, the file is
    visible, but it is unknown whether it is durable.
    """
    disk.remove(temporary)
    try:
        disk.write(temporary, (data,))
        disk.sync((temporary,))
        disk.rename(temporary, path)
    except OSError:
        remove_quietly(disk, temporary)
        raise
    disk.sync_folder(os.path.dirname(path))


def remove_quietly(disk: Disk, path: str) -> None:
    """Remove a temporary file if possible; otherwise the next start removes it."""
    try:
        disk.remove(path)
    except OSError:
        return
