"""Folder of a savepoint while it is written: under another name, locked, then renamed.

A crash at any time leaves a complete savepoint or nothing that looks like one. Its leftovers are
removed when the next savepoint is written to the same location (`remove_leftovers`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from headrace.core.snapshots import Manifest, RefusedSnapshot
from headrace.state.savepoints import names
from headrace.state.savepoints.document import FORMAT
from headrace.state.savepoints.unfinished import begun, remove, remove_left
from headrace.state.storage.disk import Disk
from headrace.state.storage.sealing import seal
from headrace.state.storage.telling import telling

AT_ONCE = 1 << 26
"""Number of bytes synced at a time: a running job needs the disk as well."""


@dataclass(slots=True)
class Writing:
    """A savepoint that is being written."""

    disk: Disk
    folder: str
    """Folder of the savepoint until it is finished."""
    bytes: int = 0
    """Number of bytes written."""
    _unsynced: list[str] = field(default_factory=list)
    _synced: int = 0
    _folders: set[str] = field(default_factory=set)

    def write(self, name: str, data: memoryview) -> str:
        """Write these bytes to a new file; returns their SHA-256."""
        path = os.path.join(self.folder, name)
        above = os.path.dirname(path)
        with telling(f"write {path}"):
            if above not in self._folders:
                self.disk.make_folder(above)
                self._folders.add(above)
            self.disk.write(path, (data,))
            self._unsynced.append(path)
            self.bytes += data.nbytes
            if self.bytes - self._synced >= AT_ONCE:
                self._sync()
        return hashlib.sha256(data).hexdigest()

    def finish(self, document: Manifest) -> None:
        """Sync all files, then write the savepoint's document."""
        path = names.manifest(self.folder)
        with telling(f"write {path}"):
            self._sync()
            for folder in sorted(self._folders):
                self.disk.sync_folder(folder)
            self.disk.write(path, (seal(document, FORMAT),))
            self.disk.sync((path,))
            self.disk.sync_folder(self.folder)

    def _sync(self) -> None:
        self.disk.sync(self._unsynced)
        self._unsynced.clear()
        self._synced = self.bytes


@contextmanager
def writing(disk: Disk, folder: str) -> Iterator[Writing]:
    """Write a savepoint: it exists when the block ends, if `finish` was called; otherwise nothing
    remains.

    Raises RefusedSnapshot if the folder is not empty.
    """
    folder = os.path.abspath(folder)
    above = os.path.dirname(folder)
    with telling(f"write {folder}"):
        disk.make_folder(above)
        _check_free(disk, folder)
        remove_left(disk, above)
        lock = begun(disk, folder)
    unfinished, is_named = Writing(disk, names.unfinished(folder)), False
    try:
        yield unfinished
        with telling(f"write {folder}"):
            _check_free(disk, folder)
            disk.rename(unfinished.folder, folder)
            is_named = True
            disk.sync_folder(above)
            disk.remove(os.path.join(folder, names.LOCK))
    finally:
        if not is_named:  # otherwise another savepoint may have been begun there
            with suppress(OSError):
                remove(disk, unfinished.folder)
        lock.release()


def free(disk: Disk, folder: str) -> str:
    """Return the folder's name, or a similar one that is free."""
    found, number = folder, 1
    while _is_there(disk, found) or _is_there(disk, names.unfinished(found)):
        number += 1
        found = f"{folder}-{number}"
    return found


def _check_free(disk: Disk, folder: str) -> None:
    hint = "name a folder that does not exist: savepoints are never overwritten"
    try:
        is_free = not disk.names(folder)
    except NotADirectoryError:
        raise RefusedSnapshot(f"{folder} is a file", hint) from None
    if not is_free:
        what = "a savepoint" if disk.size(names.manifest(folder)) is not None else "something"
        raise RefusedSnapshot(f"{folder} has {what} in it", hint)


def _is_there(disk: Disk, path: str) -> bool:
    return disk.size(path) is not None or bool(disk.names(path))
