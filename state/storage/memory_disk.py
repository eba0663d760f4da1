"""A file system in memory that loses what a disk may lose, for simulations.

It keeps apart what is seen and what is safe. `lose_power` goes back to what is safe, and on the way
each unsynced change of a folder happens or not, and each unsynced file is as it was, as it is, cut
short or wrong, as drawn. `kill` is the end of a process: its locks go, and nothing else is lost.

Every operation first calls `before`, which may raise OSError, so that the operation fails; raise
anything else, as a crash in the middle does; or let virtual time pass, as a slow disk does. As with
real ones, a failed sync leaves clean what was never written: to sync again succeeds and is no help.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from headrace.state.storage.disk import PIECE
from headrace.state.storage.memory_nodes import File, Folder, Node


def _nothing(operation: str, path: str) -> None:
    """Before an operation of a disk that is quick and never fails."""


class MemoryDisk:
    """`Disk` in memory. All paths stand under "/"."""

    def __init__(self, before: Callable[[str, str], None] = _nothing) -> None:
        self.before = before
        self.capacity: int | None = None
        """How many bytes fit; None: any number."""
        self.syncs = 0
        """How often a file or a folder was synced."""
        self._root = Folder()
        self._locks: dict[str, MemoryLock] = {}

    def make_folder(self, path: str) -> None:
        """Have it."""
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
        """What is in it."""
        found = self._find(folder)
        return list(found.names) if isinstance(found, Folder) else []

    def size(self, path: str) -> int | None:
        """Its length."""
        found = self._find(path)
        return len(found.data) if isinstance(found, File) else None

    def read(self, path: str) -> bytes:
        """Its bytes."""
        self.before("read", path)
        return self._file(path).data

    def pieces(self, path: str) -> Iterator[memoryview]:
        """Its bytes."""
        view = memoryview(self.read(path))
        yield from (view[at : at + PIECE] for at in range(0, len(view), PIECE))

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Make it; when the disk is full, as much as fits."""
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
        """Make their bytes safe."""
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
        """Make its names safe."""
        folder = self._folder(path)
        try:
            self.before("sync_folder", path)
        except OSError:
            folder.close("dropped")
            raise
        self.syncs += 1
        folder.close("safe")

    def rename(self, path: str, to: str) -> None:
        """Rename it."""
        self.before("rename", path)
        (parent, old), (target, new) = self._above(path), self._above(to)
        assert parent is target, f"{path} and {to} are not in one folder"
        parent.change({old: None, new: self._there(path)})

    def link(self, path: str, to: str) -> None:
        """Link it."""
        self.before("link", path)
        file = self._file(path)
        parent, name = self._free(to)
        parent.change({name: file})

    def remove(self, path: str) -> None:
        """Remove it."""
        self.before("remove", path)
        if isinstance(self._find(path), File):
            parent, name = self._above(path)
            parent.change({name: None})

    def remove_folder(self, path: str) -> None:
        """Remove it, file by file."""
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
        """Take it."""
        if path in self._locks:
            return None
        if self._find(path) is None:
            self.write(path, ())
        self._locks[path] = lock = MemoryLock(self._file(path), lambda: self._locks.pop(path, None))
        return lock

    def used(self) -> int:
        """How many bytes all files have."""
        return sum(len(file.data) for file in set(self._root.files()))

    def kill(self) -> None:
        """The process is gone, and the system is still there."""
        self._locks.clear()

    def lose_power(self, drawn: random.Random) -> None:
        """The system is gone: what was not safe is lost, or not, as drawn."""
        self.kill()
        self._root.lose(drawn, set())

    def damage(self, path: str, data: bytes) -> None:
        """Let a file have other bytes."""
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
        """The folder in which a name is not taken."""
        folder, name = self._above(path)
        if name in folder.names:
            raise FileExistsError(errno.EEXIST, "file exists", path)
        return folder, name


class MemoryLock:
    """A lock of a disk in memory."""

    def __init__(self, file: File, let_go: Callable[[], object]) -> None:
        self._file = file
        self._let_go = let_go

    def read(self) -> bytes:
        """What it says."""
        return self._file.data

    def write(self, data: bytes) -> None:
        """Say this."""
        self._file.data = data

    def release(self) -> None:
        """Let go."""
        self._let_go()
