"""Folder of a savepoint that is being written, and leftovers of savepoints never finished.

The folder is recognised by its lock file, never by its name alone: the lock file marks the folder
as ours before it has any other content. So foreign content is never removed and never locked.

    empty, or a lock file alone    just created: the process that gets the lock owns it
    with a lock file marked ours   locked: being written; not locked: a leftover, to be removed
    anything else                  not ours
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress

from headrace.core.snapshots import RefusedSnapshot
from headrace.state.savepoints import names
from headrace.state.storage.disk import Disk, FileLock

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
    said = _read_mark(disk, os.path.join(unfinished, names.LOCK))
    if said.startswith(_MARK_PREFIX) and len(said) == _MARK_LENGTH:
        raise _build_busy_error(folder)
    # A crash may leave any part of a mark, and zeros for the rest.
    if there != [names.LOCK] or not _MARK_PREFIX.startswith(
        said.rstrip(b"\0")[: len(_MARK_PREFIX)]
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
