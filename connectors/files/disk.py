"""Crash-safe disk operations, as small as possible.

A file is durable once it and the folder that names it are synced. A part is written under a
hidden name. Giving it its final name is a link, which fails if the name is taken; the hidden name
is removed last. So a final name always leads to a whole part, and every step can be repeated.
"""

from __future__ import annotations

import errno
import filecmp
import os
from collections.abc import Iterable

from headrace.connectors.files.names import format_hidden_path
from headrace.core.api.failures import ConnectorError
from headrace.core.errors.full_disks import name_file

NO_LINK_ERRORS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS}
"""The error codes of file systems without links."""


def make_folder(path: str) -> None:
    """Create the folder and its parents, syncing each in its parent."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    if above and above != path:
        make_folder(above)
    try:
        os.mkdir(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path) from None
    sync_path(above or ".")


def sync_path(path: str) -> None:
    """Wait until a file or a folder is durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with name_file(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folders(root: str, paths: Iterable[str]) -> None:
    """Wait until the names of files, and of their folders up to the root, are durable."""
    folders: set[str] = set()
    for path in paths:
        folder = os.path.dirname(path)
        while folder not in folders and len(folder) >= len(root):
            folders.add(folder)
            folder = os.path.dirname(folder)
    for folder in folders:
        sync_path(folder)


def append_bytes(path: str, data: Iterable[bytes], *, new: bool) -> None:
    """Append to a file; with `new`, create it, which fails if it exists."""
    flags = os.O_CREAT | os.O_EXCL if new else 0
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | flags, 0o666)
    try:
        for chunk in data:
            view = memoryview(chunk)
            with name_file(path):
                while view:
                    view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def name_part(path: str, size: int) -> None:
    """Give a hidden part its final name as well; may be repeated."""
    there = format_hidden_path(path)
    if not os.path.exists(there):
        _check_named(path, size)
        return
    if os.path.getsize(there) != size:
        raise ConnectorError(f"{there} is not what was prepared: it should have {size} bytes")
    try:
        os.link(there, path)
    except FileExistsError:
        if not os.path.samefile(there, path) and not filecmp.cmp(there, path, shallow=False):
            raise ConnectorError(f"{path} already exists, and is another file") from None
    except OSError as error:
        if error.errno not in NO_LINK_ERRORS or os.path.exists(path):
            raise
        os.rename(there, path)


def check_parts_exist(paths: Iterable[str]) -> None:
    """Raise ConnectorError if a part is missing; called before the first part gets its name."""
    for path in paths:
        if not os.path.exists(format_hidden_path(path)) and not os.path.exists(path):
            message = f"{path} was written on another machine, and is not here"
            hint = "all machines of a cluster need the folder, as one that they share"
            raise ConnectorError(message, hint, final=True)


def _check_named(path: str, size: int) -> None:
    """Check that a part without a hidden file was committed before, under its final name."""
    if not os.path.exists(path):
        raise ConnectorError(
            f"{path} was prepared, and is missing",
            "if it was moved away, put it back until the job has resumed",
        )
    if os.path.getsize(path) != size:
        raise ConnectorError(f"{path} already exists, and is another file")


def remove_file(path: str) -> None:
    """Remove a file, if it exists."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def remove_with_folders(root: str, path: str) -> None:
    """Remove a file below `root`, and the folders on its path that are empty then."""
    remove_file(os.path.join(root, path))
    while path := os.path.dirname(path):
        try:
            os.rmdir(os.path.join(root, path))
        except OSError:
            return
