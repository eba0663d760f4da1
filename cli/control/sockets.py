"""The Unix socket of a job: made for its owner alone, and found at any depth of folders.

It is bound in a folder that only its owner may enter and gets its name when it listens and its mode
is 0600. So nobody else can connect at any moment, and no client finds one that does not answer. The
name replaces that of a killed run: whoever makes a socket holds the home.

The system takes names of about a hundred bytes. A longer one is reached through a descriptor of its
folder (`/proc/self/fd/7/control.sock`), where there is such a thing.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from headrace.state.storage.names import CONTROL, CONTROL_NEW

LONGEST = 100
"""Bytes of a name that every system takes."""

DESCRIPTORS = "/proc/self/fd"
WAITING = 128
"""Connections that the system holds while the job's loop is busy."""

MODE = 0o600


class TooLong(OSError):
    """The folder's name is longer than this system takes for a socket."""


def path(folder: str) -> str:
    """Where the socket of a home is.

    >>> path(".headrace/orders")
    '.headrace/orders/control.sock'
    """
    return os.path.join(folder, CONTROL)


@contextmanager
def listening(folder: str) -> Iterator[socket.socket]:
    """Listen in a home that is held; the name is gone at the end. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        private = os.path.join(folder, CONTROL_NEW)
        _remove(private)
        os.mkdir(private, 0o700)
        try:
            with _name(private) as name:
                listener.bind(name)
            made = os.path.join(private, CONTROL)
            os.chmod(made, MODE)
            listener.listen(WAITING)
            os.replace(made, path(folder))
        finally:
            _remove(private)
        try:
            yield listener
        finally:
            with suppress(OSError):
                os.unlink(path(folder))


def connect(folder: str, timeout_s: float) -> socket.socket:
    """A connection to the job of a home. Raises OSError: FileNotFoundError or
    ConnectionRefusedError where none runs.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        with _name(folder) as name:
            connection.connect(name)
    except BaseException:
        connection.close()
        raise
    return connection


def listener_of(connection: socket.socket) -> int | None:
    """The process that listens on the other side, if the system tells and we can see it."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, 12))
    return int(pid) or None


@contextmanager
def _name(folder: str) -> Iterator[str]:
    """A name of the socket in a folder that is short enough, for as long as it is needed."""
    name = path(folder)
    if len(os.fsencode(name)) <= LONGEST:
        yield name
        return
    if not os.path.isdir(DESCRIPTORS):
        message = f"the name is longer than the {LONGEST} bytes that a socket may have"
        raise TooLong(errno.ENAMETOOLONG, message, name)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"{DESCRIPTORS}/{descriptor}/{CONTROL}"
    finally:
        os.close(descriptor)


def _remove(private: str) -> None:
    """What a killed run left, whatever it is."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(private).st_mode):
            shutil.rmtree(private)
        else:
            os.unlink(private)
