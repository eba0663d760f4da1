"""Lock of a home: one process writes into it at a time, and a second one learns which one.

The system's lock on the file decides, and it ends with its process, however that ends; the contents
of the file only name the holder. So a stale lock is recognised for certain: a file that names a
process, and is not locked, was left by a killed one. Forked children do not share the lock of their
parent (core/api/forked_children).
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import orjson

from headrace.core.api.snapshots import SnapshotError
from headrace.core.api.stored_documents import MalformedDocument, convert_document
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage.disk import Disk, FileLock
from headrace.state.storage.disk_errors import translate_os_errors
from headrace.state.storage.documents import LockDocument

TRIES, TRY_INTERVAL_S = 10, 0.02
"""The attempts at the lock of a process that has ended."""


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Process that holds a lock, or held it when it was killed."""

    pid: int
    host: str
    since: str
    """Time at which it took the lock, as 2026-01-31T08:00:00Z."""

    def document(self) -> dict[str, object]:
        """Returns the holder as the file has it."""
        return {"pid": self.pid, "host": self.host, "since": self.since}

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, started {self.since}"


class HomeLocked(SnapshotError):
    """Another process holds the home's lock; the error has its holder, if known."""

    exit_status = 3

    def __init__(self, message: str, hint: str, holder: LockHolder | None) -> None:
        super().__init__(message, hint)
        self.holder = holder


@contextmanager
def hold_lock(disk: Disk, path: str, since: str) -> Iterator[LockHolder | None]:
    """Hold the lock. Yields the process that was killed while it held the lock, if one was.

    Raises HomeLocked.
    """
    with translate_os_errors(f"lock {path}"):
        lock = disk.lock(path) or _lock_after_end(disk, path)
    if lock is None:
        with translate_os_errors(f"lock {path}"):
            raise _build_locked_error(path, _parse_holder(disk.read(path)))
    try:
        yield _write_holder(lock, path, since)
    finally:
        with suppress(OSError):
            lock.write(b"")
        lock.release()


def _lock_after_end(disk: Disk, path: str) -> FileLock | None:
    """Take the lock of a process that has ended, which `find_holder` may be trying just now."""
    for _ in range(TRIES):
        holder = _parse_holder(disk.read(path))
        if holder is None or holder.host != socket.gethostname() or _is_alive(holder.pid):
            return None
        time.sleep(TRY_INTERVAL_S)
        lock = disk.lock(path)
        if lock is not None:
            return lock
    return None


def find_holder(disk: Disk, path: str) -> tuple[bool, LockHolder | None]:
    """Return whether a process holds the lock, and which, as far as the file names it. Raises
    SnapshotError.

    If the file names no process, the lock is free, except while a process is just taking it.
    Otherwise the lock is tried, as only the system knows: a process that takes the lock of a killed
    run in that instant tries again.
    """
    with translate_os_errors(f"lock {path}"):
        holder = _parse_holder(disk.read(path)) if disk.get_size(path) else None
        if holder is None:
            return False, None
        lock = disk.lock(path)
    if lock is None:
        return True, holder
    lock.release()
    return False, holder


def _write_holder(lock: FileLock, path: str, since: str) -> LockHolder | None:
    with translate_os_errors(f"lock {path}"):
        killed = _parse_holder(lock.read())
        holder = LockHolder(os.getpid(), socket.gethostname(), since)
        lock.write(orjson.dumps(holder.document(), option=orjson.OPT_APPEND_NEWLINE))
    return killed


def _parse_holder(data: bytes) -> LockHolder | None:
    """Return the holder that the file names; None if it names none or is just being written."""
    try:
        holder = convert_document(orjson.loads(data), LockDocument)
    except (orjson.JSONDecodeError, MalformedDocument):
        return None
    return LockHolder(holder.pid, holder.host, holder.since)


def _build_locked_error(path: str, holder: LockHolder | None) -> HomeLocked:
    if holder is None:
        return HomeLocked(f"{path} is held by another process", "it has only just begun", None)
    is_here = holder.host == socket.gethostname()
    hint = f"wait for it, or stop it: kill {holder.pid}{'' if is_here else f' on {holder.host}'}"
    if is_here and not _is_alive(holder.pid):
        hint = "it is just ending: try again"
    return HomeLocked(f"{path} is held by {holder}", hint, holder)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
