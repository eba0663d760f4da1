"""The file system that is there.

Many small files are synced by several threads at once: the journal of a file system is written for
all that wait for it together (50 files of 10 kB: 140 ms one by one, 33 ms by eight threads).
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from headrace.state.storage.disk import PIECE

THREADS = 8
FEW = 2
"""Up to so many files are synced without threads."""

# Where fsync leaves data in the cache of the drive (macOS), another call does not.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


class LocalDisk:
    """`Disk` over the operating system."""

    def make_folder(self, path: str) -> None:
        """Have it, and those above it."""
        path = os.path.abspath(path)
        if os.path.isdir(path):
            return
        above = os.path.dirname(path)
        if above != path:
            self.make_folder(above)
        with suppress(FileExistsError):
            os.mkdir(path)
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        self.sync_folder(above)

    def names(self, folder: str) -> list[str]:
        """What is in it."""
        try:
            return os.listdir(folder)
        except FileNotFoundError:
            return []

    def size(self, path: str) -> int | None:
        """Its length."""
        try:
            return os.stat(path).st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, path: str) -> bytes:
        """Its bytes."""
        with open(path, "rb", buffering=0) as file:
            return file.readall()

    def pieces(self, path: str) -> Iterator[memoryview]:
        """Its bytes, all in the same memory: fresh memory for each piece takes twice as long."""
        view = memoryview(bytearray(PIECE))
        with open(path, "rb", buffering=0) as file:
            while got := file.readinto(view):
                yield view[:got]

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Make it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o666)
        try:
            for piece in pieces:
                _write_all(descriptor, piece)
        finally:
            os.close(descriptor)

    def sync(self, paths: Sequence[str]) -> None:
        """Sync them all, and fail if one did."""
        if len(paths) <= FEW:
            for path in paths:
                _sync(path)
            return
        with ThreadPoolExecutor(min(THREADS, len(paths)), "headrace-sync") as threads:
            list(threads.map(_sync, paths))

    def sync_folder(self, path: str) -> None:
        """Sync it."""
        _sync(path)

    def rename(self, path: str, to: str) -> None:
        """Rename it."""
        os.replace(path, to)

    def link(self, path: str, to: str) -> None:
        """Link it."""
        os.link(path, to)

    def remove(self, path: str) -> None:
        """Remove it."""
        with suppress(FileNotFoundError):
            os.unlink(path)

    def remove_folder(self, path: str) -> None:
        """Remove all of it."""
        with suppress(FileNotFoundError):
            shutil.rmtree(path)

    def lock(self, path: str) -> LocalLock | None:
        """Take it with flock, which the system takes back from a process that ends."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return LocalLock(descriptor)


class LocalLock:
    """A lock by flock. The file stays: who removed it would let two processes lock two files."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self) -> bytes:
        """What it says."""
        return os.pread(self._descriptor, PIECE, 0)

    def write(self, data: bytes) -> None:
        """Say this."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, data, 0)

    def release(self) -> None:
        """Let go."""
        os.close(self._descriptor)


def _write_all(descriptor: int, data: bytes | memoryview) -> None:
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(descriptor, view) :]


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _FULL_SYNC is None:
            os.fsync(descriptor)
        else:
            fcntl.fcntl(descriptor, _FULL_SYNC)
    finally:
        os.close(descriptor)
