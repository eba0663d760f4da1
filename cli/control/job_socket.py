"""The Unix socket of a job: accessible to its owner only, and reachable at any depth of folders.

The socket is bound in a private folder, and renamed into place once it listens and has mode 0600.
So no other user can connect at any time, and no client finds a socket that does not listen. The
new name replaces that of a killed run: only the process that holds the home makes a socket.

The system limits names of sockets to about a hundred bytes. A longer one is reached through a
descriptor of its folder (`/proc/self/fd/7/control.sock`), where the system has that.

A client never follows a link at the socket's name, which could lead to another job or program. It
opens the name, checks that it is a socket, and connects to what it has opened; where the system
cannot do that, it checks first.
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

from headrace.core.api.forked_children import withhold_socket
from headrace.state.storage.names import CONTROL, CONTROL_NEW
from headrace.state.storage.regular_files import IrregularFile

MAX_NAME_BYTES = 100
"""The length of a name, in bytes, that every system accepts."""

DESCRIPTOR_FOLDER = "/proc/self/fd"
SOCKET_BACKLOG = 128
"""Connections that the system queues while the job's loop is busy."""

SOCKET_MODE = 0o600


class SocketNameTooLong(OSError):
    """The folder's name is too long for a socket on this system."""


def socket_path(folder: str) -> str:
    """Return the path of a home's socket.

    >>> socket_path(".headrace/orders")
    '.headrace/orders/control.sock'
    """
    return os.path.join(folder, CONTROL)


@contextmanager
def open_listener(folder: str) -> Iterator[socket.socket]:
    """Listen in a locked home; the socket is removed at the end. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, withhold_socket(listener):
        private = os.path.join(folder, CONTROL_NEW)
        _remove_leftovers(private)
        os.mkdir(private, 0o700)
        try:
            with _shorten_name(private) as name:
                listener.bind(name)
            made = os.path.join(private, CONTROL)
            os.chmod(made, SOCKET_MODE)
            listener.listen(SOCKET_BACKLOG)
            os.replace(made, socket_path(folder))
        finally:
            _remove_leftovers(private)
        try:
            yield listener
        finally:
            with suppress(OSError):
                os.unlink(socket_path(folder))


def connect_to_job(folder: str, timeout_s: float) -> socket.socket:
    """Connect to the job of a home.

    Raises OSError: FileNotFoundError or ConnectionRefusedError if no job runs there, IrregularFile
    if something else is at the socket's name.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        with _shorten_name(folder) as name, _open_socket_name(name) as address:
            connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def find_listener_process(connection: socket.socket) -> int | None:
    """Return the id of the process that listens at the other end, if the system reveals it."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, 12))
    return int(pid) or None


@contextmanager
def _shorten_name(folder: str) -> Iterator[str]:
    """Yield a name of the socket that is short enough, valid within the `with`."""
    name = socket_path(min(folder, os.path.relpath(folder), key=len))
    if len(os.fsencode(name)) <= MAX_NAME_BYTES:
        yield name
        return
    if not os.path.isdir(DESCRIPTOR_FOLDER):
        message = f"the name is longer than the {MAX_NAME_BYTES} bytes that a socket may have"
        raise SocketNameTooLong(errno.ENAMETOOLONG, message, name)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"{DESCRIPTOR_FOLDER}/{descriptor}/{CONTROL}"
    finally:
        os.close(descriptor)


@contextmanager
def _open_socket_name(name: str) -> Iterator[str]:
    """Yield an address of the socket itself, valid within the `with`. Raises IrregularFile."""
    if not (hasattr(os, "O_PATH") and os.path.isdir(DESCRIPTOR_FOLDER)):
        _check_mode(name, os.lstat(name).st_mode)
        yield name
        return
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_mode(name, os.fstat(descriptor).st_mode)
        yield f"{DESCRIPTOR_FOLDER}/{descriptor}"
    finally:
        os.close(descriptor)


def _check_mode(name: str, mode: int) -> None:
    if not stat.S_ISSOCK(mode):
        raise IrregularFile(name, mode, "a socket")


def _remove_leftovers(private: str) -> None:
    """Remove what a killed run left at this path, file or folder."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(private).st_mode):
            shutil.rmtree(private)
        else:
            os.unlink(private)
