"""Lock of a home: one process writes into it at a time, and a second one learns which process that
is.

The system's lock on the file decides, and it ends with its process, however that ends; the contents
of the file only name the holder. So a stale lock is recognised for certain: a file that names a
process, and is not locked, was left by a killed one. Forked children share the lock of their
parent: the home is not free while one of them lives.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import orjson

from headrace.core.snapshots import SnapshotError
from headrace.state.storage.disk import Disk, Lock
from headrace.state.storage.telling import telling


@dataclass(frozen=True, slots=True)
class Holder:
    """Process that holds a lock, or held it when it was killed."""

    pid: int
    host: str
    since: str
    """Time at which it took the lock, as 2026-01-31T08:00:00Z."""

    def document(self) -> dict[str, object]:
        """Returns the holder as the file has it."""
        return {"pid": self.pid, "host": self.host, "since": self.since}

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


class HomeHeld(SnapshotError):
    """Another process holds the home's lock; the error has its holder, if known."""

    exit_status = 3

    def __init__(self, message: str, hint: str, holder: Holder | None) -> None:
        super().__init__(message, hint)
        self.holder = holder


@contextmanager
def holding(disk: Disk, path: str, since: str) -> Iterator[Holder | None]:
    """Hold the lock. Yields the process that was killed while it held the lock, if one was.

    Raises HomeLocked.
    """
    with telling(f"lock {path}"):
        lock = disk.lock(path)
    if lock is None:
        with telling(f"lock {path}"):
            raise _held(path, _holder(disk.read(path)))
    try:
        yield _taken(lock, path, since)
    finally:
        with suppress(OSError):
            lock.write(b"")
        lock.release()


def holder(disk: Disk, path: str) -> tuple[bool, Holder | None]:
    """Return whether a process holds the lock, and which, as far as the file names it. Raises
    SnapshotError.

    If the file names no process, the lock is free, except while a process is just taking it.
    Otherwise the lock is tried, as only the system knows: a process that takes the lock of a killed
    run in that instant may be refused.
    """
    with telling(f"lock {path}"):
        said = _holder(disk.read(path)) if disk.size(path) else None
        if said is None:
            return False, None
        lock = disk.lock(path)
    if lock is None:
        return True, said
    lock.release()
    return False, said


def _taken(lock: Lock, path: str, since: str) -> Holder | None:
    with telling(f"lock {path}"):
        killed = _holder(lock.read())
        me = Holder(os.getpid(), socket.gethostname(), since)
        lock.write(orjson.dumps(me.document(), option=orjson.OPT_APPEND_NEWLINE))
    return killed


def _holder(data: bytes) -> Holder | None:
    """Return the holder that the file names; None if it names none or is just being written."""
    try:
        said = orjson.loads(data)
        return Holder(int(said["pid"]), str(said["host"]), str(said["since"]))
    except (ValueError, KeyError, TypeError):
        return None


def _held(path: str, holder: Holder | None) -> HomeHeld:
    if holder is None:
        return HomeHeld(f"{path} is held by another process", "it has only just begun", None)
    is_here = holder.host == socket.gethostname()
    hint = f"wait for it, or stop it: kill {holder.pid}{'' if is_here else f' on {holder.host}'}"
    if is_here and not _is_alive(holder.pid):
        hint = "it has ended; a process that it began has not, and holds the lock still"
    return HomeHeld(f"{path} is held by {holder}", hint, holder)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
