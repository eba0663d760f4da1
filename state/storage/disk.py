"""What a store asks of a file system, and nothing else: so small that a test can stand in for it.

A file is safe when it is synced and the folder that names it is synced. Until then a crash may
leave any of it: the name without the bytes, the bytes without the name, part of either. Every
failure is an OSError. After a failed sync nothing is known, and syncing again tells nothing
either: the system may have dropped what it could not write, and calls it clean. Only bytes
written anew, under a new name, can be trusted again.

`local_disk` is the real one. `memory_disk` forgets what was not synced and fails when it is told
to; it ships, because simulations are run with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

PIECE = 1 << 20
"""About how many bytes are read at a time."""


class Disk(Protocol):
    """A file system. Paths are as the operating system has them."""

    def make_folder(self, path: str) -> None:
        """Have this folder and those above it, all of them safe."""
        ...

    def names(self, folder: str) -> list[str]:
        """What is in a folder, in no order; nothing if there is no such folder."""
        ...

    def size(self, path: str) -> int | None:
        """How long a file is; None if there is none."""
        ...

    def read(self, path: str) -> bytes:
        """All bytes of a file."""
        ...

    def pieces(self, path: str) -> Iterator[memoryview]:
        """A file, piece by piece; each piece is lost when the next one is asked for."""
        ...

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Make a file that is not there yet; it is not safe. A failure may leave part of it."""
        ...

    def sync(self, paths: Sequence[str]) -> None:
        """Wait until the bytes of all these files are safe."""
        ...

    def sync_folder(self, path: str) -> None:
        """Wait until what was named, renamed and removed in a folder is safe."""
        ...

    def rename(self, path: str, to: str) -> None:
        """Give a file or folder another name in its folder, in place of what has that name."""
        ...

    def link(self, path: str, to: str) -> None:
        """Give a file a second name, which is not taken yet."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove a folder and all that is in it, if it is there."""
        ...

    def lock(self, path: str) -> Lock | None:
        """Take the lock that this file stands for; None if somebody has it."""
        ...


class Lock(Protocol):
    """A lock that is held, until it is released or the process ends, however it ends."""

    def read(self) -> bytes:
        """What the file says."""
        ...

    def write(self, data: bytes) -> None:
        """Let it say this; need not be safe."""
        ...

    def release(self) -> None:
        """Let go of it."""
        ...


def publish(disk: Disk, path: str, temporary: str, data: bytes) -> None:
    """Have these bytes under this name, safe, in place of what was there. May be repeated.

    If it fails before the name is given, nothing has changed; a failure of the last line leaves the
    name visible, and nobody knows whether it is safe.
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
    """Remove a temporary, if that can be done: if not, the next start does it."""
    try:
        disk.remove(path)
    except OSError:
        return
