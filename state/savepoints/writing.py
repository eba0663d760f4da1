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
from headrace.state.savepoints.unfinished import claim_folder, remove_leftovers, remove_unfinished
from headrace.state.storage.disk import Disk
from headrace.state.storage.sealing import encode_checksummed
from headrace.state.storage.telling import translate_os_errors

SYNC_BYTES = 1 << 26
"""Number of bytes synced at a time: a running job needs the disk as well."""


@dataclass(slots=True)
class SavepointWriter:
    """A savepoint that is being written."""

    disk: Disk
    folder: str
    """Folder of the savepoint until it is finished."""
    bytes_written: int = 0
    """Number of bytes written."""
    _unsynced_paths: list[str] = field(default_factory=list)
    _synced_bytes: int = 0
    _folders: set[str] = field(default_factory=set)

    def write(self, name: str, data: memoryview) -> str:
        """Write these bytes to a new file; returns their SHA-256."""
        path = os.path.join(self.folder, name)
        above = os.path.dirname(path)
        with translate_os_errors(f"write {path}"):
            if above not in self._folders:
                self.disk.make_folder(above)
                self._folders.add(above)
            self.disk.write(path, (data,))
            self._unsynced_paths.append(path)
            self.bytes_written += data.nbytes
            if self.bytes_written - self._synced_bytes >= SYNC_BYTES:
                self._sync()
        return hashlib.sha256(data).hexdigest()

    def finish(self, document: Manifest) -> None:
        """Sync all files, then write the savepoint's document."""
        path = names.get_document_path(self.folder)
        with translate_os_errors(f"write {path}"):
            self._sync()
            for folder in sorted(self._folders):
                self.disk.sync_folder(folder)
            self.disk.write(path, (encode_checksummed(document, FORMAT),))
            self.disk.sync((path,))
            self.disk.sync_folder(self.folder)

    def _sync(self) -> None:
        self.disk.sync(self._unsynced_paths)
        self._unsynced_paths.clear()
        self._synced_bytes = self.bytes_written


@contextmanager
def write_savepoint(disk: Disk, folder: str) -> Iterator[SavepointWriter]:
    """Write a savepoint: it exists when the block ends, if `finish` was called; otherwise nothing
    remains.

    Raises RefusedSnapshot if the folder is not empty.
    """
    folder = os.path.abspath(folder)
    above = os.path.dirname(folder)
    with translate_os_errors(f"write {folder}"):
        disk.make_folder(above)
        _check_free(disk, folder)
        remove_leftovers(disk, above)
        lock = claim_folder(disk, folder)
    unfinished, is_named = SavepointWriter(disk, names.get_unfinished_folder(folder)), False
    try:
        yield unfinished
        with translate_os_errors(f"write {folder}"):
            _check_free(disk, folder)
            disk.rename(unfinished.folder, folder)
            is_named = True
            disk.sync_folder(above)
            disk.remove(os.path.join(folder, names.LOCK))
    finally:
        if not is_named:  # otherwise another savepoint may have been begun there
            with suppress(OSError):
                remove_unfinished(disk, unfinished.folder)
        lock.release()


def find_free_name(disk: Disk, folder: str) -> str:
    """Return the folder's name, or a similar one that is free."""
    found, number = folder, 1
    while _exists(disk, found) or _exists(disk, names.get_unfinished_folder(found)):
        number += 1
        found = f"{folder}-{number}"
    return found


def _check_free(disk: Disk, folder: str) -> None:
    hint = "name a folder that does not exist: savepoints are never overwritten"
    try:
        is_free = not disk.list_names(folder)
    except NotADirectoryError:
        raise RefusedSnapshot(f"{folder} is a file", hint) from None
    if not is_free:
        what = (
            "a savepoint"
            if disk.get_size(names.get_document_path(folder)) is not None
            else "something"
        )
        raise RefusedSnapshot(f"{folder} has {what} in it", hint)


def _exists(disk: Disk, path: str) -> bool:
    return disk.get_size(path) is not None or bool(disk.list_names(path))
