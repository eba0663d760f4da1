"""File system in memory that loses what a disk may lose, for simulations.

It separates visible from durable data. `lose_power` returns to the durable data, except that each
unsynced change of a folder happens or not, and each unsynced file is old, new, cut short or
corrupt, as drawn. `kill` is the end of a process: it releases the process's locks and loses nothing
else.

Every operation first calls the hook `before_operation`, which may raise OSError, so that the
operation fails; raise anything else, like a crash in the middle; or let virtual time pass, like a
slow disk. As on real disks, a failed sync marks data as clean that was never written: a repeated
sync succeeds and does not help.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from headrace.state.storage.disk import CHUNK_BYTES
from headrace.state.storage.memory_nodes import MemoryFile, MemoryFolder, MemoryNode


def _do_nothing(operation: str, path: str) -> None:
    """Do nothing before an operation: a disk that is fast and never fails."""


class MemoryDisk:
    """`Disk` in memory. All paths are below "/"."""

    def __init__(self, before: Callable[[str, str], None] = _do_nothing) -> None:
        self.before_operation = before
        self.capacity: int | None = None
        """Capacity in bytes; None: unlimited."""
        self.sync_count = 0
        """Number of syncs of files and folders."""
        self._root = MemoryFolder()
        self._locks: dict[str, MemoryFileLock] = {}

    def make_folder(self, path: str) -> None:
        above, name = os.path.split(path)
        if not name or isinstance(self._find_node(path), MemoryFolder):
            return
        self.make_folder(above)
        self.before_operation("make_folder", path)
        parent = self._get_folder(above)
        if name in parent.names:
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        parent.apply_change({name: MemoryFolder()})
        self.sync_folder(above)

    def list_names(self, folder: str) -> list[str]:
        found = self._find_node(folder)
        return list(found.names) if isinstance(found, MemoryFolder) else []

    def get_size(self, path: str) -> int | None:
        found = self._find_node(path)
        return len(found.data) if isinstance(found, MemoryFile) else None

    def read(self, path: str) -> bytes:
        self.before_operation("read", path)
        return self._get_file(path).data

    def read_chunks(self, path: str) -> Iterator[memoryview]:
        view = memoryview(self.read(path))
        yield from (view[at : at + CHUNK_BYTES] for at in range(0, len(view), CHUNK_BYTES))

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Create a file; when the disk is full, with as many bytes as fit."""
        self.before_operation("create", path)
        parent, name = self._get_free_parent(path)
        file = MemoryFile()
        parent.apply_change({name: file})
        for piece in (memoryview(piece).cast("B") for piece in pieces):
            self.before_operation("write", path)
            room = (
                len(piece)
                if self.capacity is None
                else max(0, self.capacity - self.measure_used_bytes())
            )
            file.data += bytes(piece[:room])
            if room < len(piece):
                raise OSError(errno.ENOSPC, "no space left on device", path)

    def sync(self, paths: Sequence[str]) -> None:
        for path in paths:
            file = self._get_file(path)
            try:
                self.before_operation("sync", path)
            except OSError:
                file.is_dropped = True
                raise
            self.sync_count += 1
            if not file.is_dropped:
                file.durable = file.data

    def sync_folder(self, path: str) -> None:
        folder = self._get_folder(path)
        try:
            self.before_operation("sync_folder", path)
        except OSError:
            folder.close_changes("dropped")
            raise
        self.sync_count += 1
        folder.close_changes("safe")

    def rename(self, path: str, to: str) -> None:
        self.before_operation("rename", path)
        (parent, old), (target, new) = self._get_parent(path), self._get_parent(to)
        assert parent is target, f"{path} and {to} are not in one folder"
        parent.apply_change({old: None, new: self._get_node(path)})

    def link(self, path: str, to: str) -> None:
        self.before_operation("link", path)
        file = self._get_file(path)
        parent, name = self._get_free_parent(to)
        parent.apply_change({name: file})

    def remove(self, path: str) -> None:
        self.before_operation("remove", path)
        if isinstance(self._find_node(path), MemoryFile):
            parent, name = self._get_parent(path)
            parent.apply_change({name: None})

    def remove_folder(self, path: str) -> None:
        """Remove the folder, file by file."""
        folder = self._find_node(path)
        if not isinstance(folder, MemoryFolder):
            return
        for name, node in list(folder.names.items()):
            remove = self.remove_folder if isinstance(node, MemoryFolder) else self.remove
            remove(os.path.join(path, name))
        self.before_operation("remove_folder", path)
        parent, name = self._get_parent(path)
        parent.apply_change({name: None})

    def is_link(self, path: str) -> bool:
        return False

    def restrict_access(self, folder: str) -> str:
        return ""

    def lock(self, path: str) -> MemoryFileLock | None:
        if path in self._locks:
            return None
        if self._find_node(path) is None:
            self.write(path, ())
        self._locks[path] = lock = MemoryFileLock(
            self._get_file(path), lambda: self._locks.pop(path, None)
        )
        return lock

    def measure_used_bytes(self) -> int:
        """Return the number of bytes in all files."""
        return sum(len(file.data) for file in set(self._root.iterate_files()))

    def kill(self) -> None:
        """End the process: the operating system, and so all data, stays."""
        self._locks.clear()

    def lose_power(self, drawn: random.Random) -> None:
        """End the operating system: data that was not durable is lost, or not, as drawn."""
        self.kill()
        self._root.lose_unsynced(drawn, set())

    def damage(self, path: str, data: bytes) -> None:
        """Replace the bytes of a file."""
        file = self._get_file(path)
        file.data = file.durable = data

    def _find_node(self, path: str) -> MemoryNode | None:
        node: MemoryNode | None = self._root
        for name in path.strip("/").split("/"):
            if name:
                node = node.names.get(name) if isinstance(node, MemoryFolder) else None
        return node

    def _get_node(self, path: str) -> MemoryNode:
        node = self._find_node(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
        return node

    def _get_file(self, path: str) -> MemoryFile:
        node = self._get_node(path)
        if isinstance(node, MemoryFolder):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return node

    def _get_folder(self, path: str) -> MemoryFolder:
        node = self._get_node(path)
        if isinstance(node, MemoryFile):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return node

    def _get_parent(self, path: str) -> tuple[MemoryFolder, str]:
        folder, name = os.path.split(path)
        return self._get_folder(folder), name

    def _get_free_parent(self, path: str) -> tuple[MemoryFolder, str]:
        """Return the parent folder and the name, which must be free."""
        folder, name = self._get_parent(path)
        if name in folder.names:
            raise FileExistsError(errno.EEXIST, "file exists", path)
        return folder, name


class MemoryFileLock:
    """Lock of a disk in memory."""

    def __init__(self, file: MemoryFile, let_go: Callable[[], object]) -> None:
        self._file = file
        self._on_release = let_go

    def read(self) -> bytes:
        return self._file.data

    def write(self, data: bytes) -> None:
        self._file.data = data

    def release(self) -> None:
        self._on_release()
