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

from headrace.state.storage.disk import PIECE
from headrace.state.storage.memory_nodes import File, Folder, Node


def _nothing(operation: str, path: str) -> None:
    """Do nothing before an operation: a disk that is fast and never fails."""


class MemoryDisk:
    """`Disk` in memory. All paths are below "/"."""

    def __init__(self, before: Callable[[str, str], None] = _nothing) -> None:
        self.before = before
        self.capacity: int | None = None
        """Capacity in bytes; None: unlimited."""
        self.syncs = 0
        """Number of syncs of files and folders."""
        self._root = Folder()
        self._locks: dict[str, MemoryLock] = {}

    def make_folder(self, path: str) -> None:
        above, name = os.path.split(path)
        if not name or isinstance(self._find(path), Folder):
            return
        self.make_folder(above)
        self.before("make_folder", path)
        parent = self._folder(above)
        if name in parent.names:
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        parent.change({name: Folder()})
        self.sync_folder(above)

    def names(self, folder: str) -> list[str]:
        found = self._find(folder)
        return list(found.names) if isinstance(found, Folder) else []

    def size(self, path: str) -> int | None:
        found = self._find(path)
        return len(found.data) if isinstance(found, File) else None

    def read(self, path: str) -> bytes:
        self.before("read", path)
        return self._file(path).data

    def pieces(self, path: str) -> Iterator[memoryview]:
        view = memoryview(self.read(path))
        yield from (view[at : at + PIECE] for at in range(0, len(view), PIECE))

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Create a file; when the disk is full, with as many bytes as fit."""
        self.before("create", path)
        parent, name = self._free(path)
        file = File()
        parent.change({name: file})
        for piece in (memoryview(piece).cast("B") for piece in pieces):
            self.before("write", path)
            room = len(piece) if self.capacity is None else max(0, self.capacity - self.used())
            file.data += bytes(piece[:room])
            if room < len(piece):
                raise OSError(errno.ENOSPC, "no space left on device", path)

    def sync(self, paths: Sequence[str]) -> None:
        for path in paths:
            file = self._file(path)
            try:
                self.before("sync", path)
            except OSError:
                file.is_dropped = True
                raise
            self.syncs += 1
            if not file.is_dropped:
                file.safe = file.data

    def sync_folder(self, path: str) -> None:
        folder = self._folder(path)
        try:
            self.before("sync_folder", path)
        except OSError:
            folder.close("dropped")
            raise
        self.syncs += 1
        folder.close("safe")

    def rename(self, path: str, to: str) -> None:
        self.before("rename", path)
        (parent, old), (target, new) = self._above(path), self._above(to)
        assert parent is target, f"{path} and {to} are not in one folder"
        parent.change({old: None, new: self._there(path)})

    def link(self, path: str, to: str) -> None:
        self.before("link", path)
        file = self._file(path)
        parent, name = self._free(to)
        parent.change({name: file})

    def remove(self, path: str) -> None:
        self.before("remove", path)
        if isinstance(self._find(path), File):
            parent, name = self._above(path)
            parent.change({name: None})

    def remove_folder(self, path: str) -> None:
        """Remove the folder, file by file."""
        folder = self._find(path)
        if not isinstance(folder, Folder):
            return
        for name, node in list(folder.names.items()):
            remove = self.remove_folder if isinstance(node, Folder) else self.remove
            remove(os.path.join(path, name))
        self.before("remove_folder", path)
        parent, name = self._above(path)
        parent.change({name: None})

    def lock(self, path: str) -> MemoryLock | None:
        if path in self._locks:
            return None
        if self._find(path) is None:
            self.write(path, ())
        self._locks[path] = lock = MemoryLock(self._file(path), lambda: self._locks.pop(path, None))
        return lock

    def used(self) -> int:
        """Return the number of bytes in all files."""
        return sum(len(file.data) for file in set(self._root.files()))

    def kill(self) -> None:
        """End the process: the operating system, and so all data, stays."""
        self._locks.clear()

    def lose_power(self, drawn: random.Random) -> None:
        """End the operating system: data that was not durable is lost, or not, as drawn."""
        self.kill()
        self._root.lose(drawn, set())

    def damage(self, path: str, data: bytes) -> None:
        """Replace the bytes of a file."""
        file = self._file(path)
        file.data = file.safe = data

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._root
        for name in path.strip("/").split("/"):
            if name:
                node = node.names.get(name) if isinstance(node, Folder) else None
        return node

    def _there(self, path: str) -> Node:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
        return node

    def _file(self, path: str) -> File:
        node = self._there(path)
        if isinstance(node, Folder):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return node

    def _folder(self, path: str) -> Folder:
        node = self._there(path)
        if isinstance(node, File):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return node

    def _above(self, path: str) -> tuple[Folder, str]:
        folder, name = os.path.split(path)
        return self._folder(folder), name

    def _free(self, path: str) -> tuple[Folder, str]:
        """Return the parent folder and the name, which must be free."""
        folder, name = self._above(path)
        if name in folder.names:
            raise FileExistsError(errno.EEXIST, "file exists", path)
        return folder, name


class MemoryLock:
    """Lock of a disk in memory."""

    def __init__(self, file: File, let_go: Callable[[], object]) -> None:
        self._file = file
        self._let_go = let_go

    def read(self) -> bytes:
        return self._file.data

    def write(self, data: bytes) -> None:
        self._file.data = data

    def release(self) -> None:
        self._let_go()
