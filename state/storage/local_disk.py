"""File system of the operating system. Files are regular ones, and of their owner only.

Many small files are synced by several threads at once, because a file system writes its journal
once for all syncs that wait for it (50 files of 10 kB: 140 ms one by one, 33 ms with eight
threads).
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from headrace.core.api.forked_children import release_descriptor, withhold_descriptor
from headrace.core.errors.full_disks import name_file
from headrace.state.storage.access import (
    create_file,
    create_folder,
    restrict_access,
    restrict_file,
)
from headrace.state.storage.disk import CHUNK_BYTES
from headrace.state.storage.regular_files import measure_file, open_regular

SYNC_THREADS = 8
MAX_SERIAL_SYNCS = 2
"""Up to this many files are synced without threads."""

# Where fsync leaves data in the cache of the drive (macOS), another call does not.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


class LocalDisk:
    """`Disk` of the operating system."""

    def make_folder(self, path: str) -> None:
        path = os.path.abspath(path)
        if os.path.isdir(path):
            return
        above = os.path.dirname(path)
        if above != path:
            self.make_folder(above)
        with suppress(FileExistsError):
            create_folder(path)
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        self.sync_folder(above)

    def list_names(self, folder: str) -> list[str]:
        try:
            return os.listdir(folder)
        except FileNotFoundError:
            return []

    def get_size(self, path: str) -> int | None:
        return measure_file(path)

    def read(self, path: str) -> bytes:
        with open(open_regular(path), "rb", buffering=0) as file:
            return file.readall()

    def read_chunks(self, path: str) -> Iterator[memoryview]:
        """Yield a file in chunks, all in the same buffer: a new buffer per chunk takes twice as
        long.
        """
        view = memoryview(bytearray(CHUNK_BYTES))
        with open(open_regular(path), "rb", buffering=0) as file:
            while got := file.readinto(view):
                yield view[:got]

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        descriptor = create_file(path, os.O_WRONLY | os.O_EXCL)
        try:
            for piece in pieces:
                with name_file(path):
                    _write_all(descriptor, piece)
        finally:
            os.close(descriptor)

    def sync(self, paths: Sequence[str]) -> None:
        """Sync all files; fails if one sync fails."""
        if len(paths) <= MAX_SERIAL_SYNCS:
            for path in paths:
                _sync_path(path)
            return
        with ThreadPoolExecutor(min(SYNC_THREADS, len(paths)), "headrace-sync") as threads:
            list(threads.map(_sync_path, paths))

    def sync_folder(self, path: str) -> None:
        _sync_path(path)

    def rename(self, path: str, to: str) -> None:
        os.replace(path, to)

    def link(self, path: str, to: str) -> None:
        os.link(path, to)
        restrict_file(to)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def remove_folder(self, path: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(path)

    def is_link(self, path: str) -> bool:
        return os.path.islink(path)

    def restrict_access(self, folder: str) -> str:
        return restrict_access(folder)

    def lock(self, path: str) -> LocalFileLock | None:
        """Take the lock by flock, which the system releases when the process ends."""
        descriptor = _open_lock(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        withhold_descriptor(descriptor)
        return LocalFileLock(descriptor)


class LocalFileLock:
    """Lock by flock. The file is never removed: otherwise two processes could lock two files."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self) -> bytes:
        return os.pread(self._descriptor, CHUNK_BYTES, 0)

    def write(self, data: bytes) -> None:
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, data, 0)

    def release(self) -> None:
        release_descriptor(self._descriptor)
        os.close(self._descriptor)


def _open_lock(path: str) -> int:
    """Open a lock file, created if there is none. Raises IrregularFile."""
    if measure_file(path) is None:
        with suppress(FileExistsError):
            return create_file(path, os.O_RDWR | os.O_EXCL)
    return open_regular(path, os.O_RDWR)


def _write_all(descriptor: int, data: bytes | memoryview) -> None:
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_path(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        with name_file(path):
            if _FULL_SYNC is None:
                os.fsync(descriptor)
            else:
                fcntl.fcntl(descriptor, _FULL_SYNC)
    finally:
        os.close(descriptor)
