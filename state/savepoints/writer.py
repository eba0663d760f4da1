"""Folder of a savepoint while it is written: under another name, locked, then renamed.

A crash at any time leaves a complete savepoint or nothing that looks like one. Its leftovers are
removed when the next savepoint is written to the same location.

The folder is recognised by its lock file, never by its name alone: the lock file marks the folder
as ours before it has any other content. So foreign content is never removed and never locked.

    empty, or a lock file alone    just created: the process that gets the lock owns it
    with a lock file marked ours   locked: being written; not locked: a leftover, to be removed
    anything else                  not ours
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import field

from headrace.core.api.snapshots import Manifest, RefusedSnapshot
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.savepoints import names
from headrace.state.savepoints.document import FORMAT
from headrace.state.storage.checksummed_json import encode_checksummed
from headrace.state.storage.disk import Disk, FileLock
from headrace.state.storage.disk_errors import translate_os_errors

_MARK_PREFIX = b"headrace savepoint, unfinished "


_MARK_LENGTH = len(_MARK_PREFIX) + 32


def claim_folder(disk: Disk, folder: str) -> FileLock:
    """Take the unfinished folder of a savepoint, with nothing in it but a lock file marked as ours.

    Raises RefusedSnapshot.
    """
    unfinished = names.get_unfinished_folder(folder)
    path = os.path.join(unfinished, names.LOCK)
    _check_unclaimed(disk, unfinished, folder)
    disk.make_folder(unfinished)
    try:
        lock = disk.lock(path)
    except FileNotFoundError:  # the savepoint there was finished just now
        raise _build_busy_error(folder) from None
    if lock is None:
        raise _build_busy_error(folder)
    try:
        _check_unclaimed(disk, unfinished, folder)
        mark = _MARK_PREFIX + uuid.uuid4().hex.encode()
        lock.write(mark)
        if _read_mark(disk, path) != mark:
            raise _build_busy_error(folder)  # it was finished or removed as its lock was released
        disk.sync((path,))
        disk.sync_folder(unfinished)
    except BaseException:
        lock.release()
        raise
    return lock


def remove_leftovers(disk: Disk, above: str) -> None:
    """Remove the leftovers of killed processes from a folder."""
    for name in disk.list_names(above):
        if names.is_unfinished(name):
            with suppress(OSError):
                _remove_if_leftover(disk, os.path.join(above, name))


def remove_unfinished(disk: Disk, unfinished: str) -> None:
    """Remove a folder whose lock is held: the lock file last, as it marks the folder as ours."""
    for name in (names.SCRATCH, names.STATES):
        disk.remove_folder(os.path.join(unfinished, name))
    disk.remove(names.get_document_path(unfinished))
    disk.sync_folder(unfinished)
    disk.remove_folder(unfinished)


def _remove_if_leftover(disk: Disk, unfinished: str) -> None:
    path = os.path.join(unfinished, names.LOCK)
    mark = _read_mark(disk, path)
    if len(mark) != _MARK_LENGTH or not mark.startswith(_MARK_PREFIX):
        return
    lock = disk.lock(path)
    if lock is None:
        return
    try:
        # Marks are unique, so it is still the same folder, and stays so.
        if lock.read() == mark == _read_mark(disk, path):
            remove_unfinished(disk, unfinished)
    finally:
        lock.release()


def _check_unclaimed(disk: Disk, unfinished: str, folder: str) -> None:
    """Check that the folder is empty but for the lock file of a process that got no further."""
    there = disk.list_names(unfinished)
    if not there:
        return
    holder = _read_mark(disk, os.path.join(unfinished, names.LOCK))
    if holder.startswith(_MARK_PREFIX) and len(holder) == _MARK_LENGTH:
        raise _build_busy_error(folder)
    # A crash may leave any part of a mark, and zeros for the rest.
    if there != [names.LOCK] or not _MARK_PREFIX.startswith(
        holder.rstrip(b"\0")[: len(_MARK_PREFIX)]
    ):
        hint = "move it away, or name another folder"
        raise RefusedSnapshot(f"{unfinished} exists and is not an unfinished savepoint", hint)


def _read_mark(disk: Disk, path: str) -> bytes:
    """Return the contents of a lock file: empty if it is missing, other text if it is longer than
    ours.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        if (disk.get_size(path) or 0) <= _MARK_LENGTH:
            return disk.read(path)
        return b"something else"
    return b""


def _build_busy_error(folder: str) -> RefusedSnapshot:
    return RefusedSnapshot(f"another savepoint is being written to {folder}", "wait for it")


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
        is_savepoint = disk.get_size(names.get_document_path(folder)) is not None
        what = "is a savepoint" if is_savepoint else "is not empty"
        raise RefusedSnapshot(f"{folder} {what}", hint)


def _exists(disk: Disk, path: str) -> bool:
    return disk.get_size(path) is not None or bool(disk.list_names(path))
