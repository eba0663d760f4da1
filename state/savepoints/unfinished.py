"""The folder of a savepoint that is being written, and what is left of those that never were whole.

It is known by its lock, never by its name alone: the lock file says whose it is, before anything
else is in the folder. So what is not ours is never removed, and nothing is ever locked in it.

    empty, or a lock file alone    begun by somebody: whoever gets the lock has it
    with a lock that says so       ours: held, it is being written; else it was left, and goes
    anything else                  not ours
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress

from headrace.core.snapshots import RefusedSnapshot
from headrace.state.savepoints import names
from headrace.state.storage.disk import Disk, Lock

_MARK = b"headrace savepoint, unfinished "
_LENGTH = len(_MARK) + 32


def begun(disk: Disk, folder: str) -> Lock:
    """Have a savepoint's unfinished folder, with nothing in it but a lock that says whose it is.

    Raises RefusedSnapshot.
    """
    unfinished = names.unfinished(folder)
    path = os.path.join(unfinished, names.LOCK)
    _check_nobodys(disk, unfinished, folder)
    disk.make_folder(unfinished)
    try:
        lock = disk.lock(path)
    except FileNotFoundError:  # whoever was there has just been finished
        raise _busy(folder) from None
    if lock is None:
        raise _busy(folder)
    try:
        _check_nobodys(disk, unfinished, folder)
        mark = _MARK + uuid.uuid4().hex.encode()
        lock.write(mark)
        if _said(disk, path) != mark:
            raise _busy(folder)  # it was finished, or removed, when its lock was let go
        disk.sync((path,))
        disk.sync_folder(unfinished)
    except BaseException:
        lock.release()
        raise
    return lock


def remove_left(disk: Disk, above: str) -> None:
    """Remove what was left in a folder by those that were killed."""
    for name in disk.names(above):
        if names.is_unfinished(name):
            with suppress(OSError):
                _remove_if_left(disk, os.path.join(above, name))


def remove(disk: Disk, unfinished: str) -> None:
    """Remove one whose lock is held: the lock last, as without it nobody knows whose it is."""
    for name in (names.SCRATCH, names.STATES):
        disk.remove_folder(os.path.join(unfinished, name))
    disk.remove(names.manifest(unfinished))
    disk.sync_folder(unfinished)
    disk.remove_folder(unfinished)


def _remove_if_left(disk: Disk, unfinished: str) -> None:
    path = os.path.join(unfinished, names.LOCK)
    mark = _said(disk, path)
    if len(mark) != _LENGTH or not mark.startswith(_MARK):
        return
    lock = disk.lock(path)
    if lock is None:
        return
    try:
        # No two marks are alike: so it is still the same folder, and stays that.
        if lock.read() == mark == _said(disk, path):
            remove(disk, unfinished)
    finally:
        lock.release()


def _check_nobodys(disk: Disk, unfinished: str, folder: str) -> None:
    """Nothing is in it, but for a lock file of somebody who came no further."""
    there = disk.names(unfinished)
    if not there:
        return
    said = _said(disk, os.path.join(unfinished, names.LOCK))
    if said.startswith(_MARK) and len(said) == _LENGTH:
        raise _busy(folder)
    # A crash may leave any part of a mark, and zeros for the rest.
    if there != [names.LOCK] or not _MARK.startswith(said.rstrip(b"\0")[: len(_MARK)]):
        hint = "move it away, or name another folder"
        raise RefusedSnapshot(f"{unfinished} is in the way, and no savepoint", hint)


def _said(disk: Disk, path: str) -> bytes:
    """What a lock file says; nothing if there is none, or one that we would not write."""
    with suppress(FileNotFoundError, NotADirectoryError):
        if (disk.size(path) or 0) <= _LENGTH:
            return disk.read(path)
        return b"something else"
    return b""


def _busy(folder: str) -> RefusedSnapshot:
    return RefusedSnapshot(f"another savepoint is being written to {folder}", "wait for it")
