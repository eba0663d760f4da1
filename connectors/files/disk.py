"""Steps on a disk that survive a crash, as small as they come.

A file is safe when it is synced and so is the folder that names it. A part is written under a
hidden name; naming it is a link, which fails where the name is taken, and the hidden name goes
last. So a final name always leads to a whole part or to nothing, and every step can be repeated.
"""

from __future__ import annotations

import errno
import filecmp
import os
from collections.abc import Iterable

from headrace.connectors.files.names import hidden
from headrace.core.contracts import ConnectorError

NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS}
"""What file systems say that have no links."""


def make_folder(path: str) -> None:
    """The folder and those above it, each safe in the one that holds it."""
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
    sync(above or ".")


def sync(path: str) -> None:
    """Wait until a file or a folder is safe."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folders(root: str, paths: Iterable[str]) -> None:
    """Wait until the names of files are safe, and those of the folders they are in."""
    folders: set[str] = set()
    for path in paths:
        folder = os.path.dirname(path)
        while folder not in folders and len(folder) >= len(root):
            folders.add(folder)
            folder = os.path.dirname(folder)
    for folder in folders:
        sync(folder)


def append(path: str, data: Iterable[bytes], *, new: bool) -> None:
    """Write at the end of a file, which is there or is not, as the caller knows."""
    flags = os.O_CREAT | os.O_EXCL if new else 0
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | flags, 0o666)
    try:
        for piece in data:
            view = memoryview(piece)
            while view:
                view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def name_part(path: str, size: int) -> None:
    """Give a hidden part its name; it keeps the hidden one. May be done twice."""
    there = hidden(path)
    if not os.path.exists(there):
        _named_before(path, size)
        return
    if os.path.getsize(there) != size:
        raise ConnectorError(f"{there} is not what was prepared: it should have {size} bytes")
    try:
        os.link(there, path)
    except FileExistsError:
        if not os.path.samefile(there, path) and not filecmp.cmp(there, path, shallow=False):
            raise ConnectorError(f"{path} is there already, and is another file") from None
    except OSError as error:
        if error.errno not in NO_LINKS or os.path.exists(path):
            raise
        os.rename(there, path)


def are_there(paths: Iterable[str]) -> None:
    """Nothing is missing of what others have written: asked before the first part has its name."""
    for path in paths:
        if not os.path.exists(hidden(path)) and not os.path.exists(path):
            message = f"{path} was written on another machine, and is not here"
            hint = "all machines of a cluster need the folder, as one that they share"
            raise ConnectorError(message, hint, final=True)


def _named_before(path: str, size: int) -> None:
    """A part without its hidden name has been committed before."""
    if not os.path.exists(path):
        raise ConnectorError(
            f"{path} was prepared, and is gone",
            "if somebody has taken it away, put it back until the job has gone on",
        )
    if os.path.getsize(path) != size:
        raise ConnectorError(f"{path} is there already, and is another file")


def remove(path: str) -> None:
    """Remove a file, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def discard(root: str, path: str) -> None:
    """Remove a file of a folder, and the folders made for it that are empty then."""
    remove(os.path.join(root, path))
    while path := os.path.dirname(path):
        try:
            os.rmdir(os.path.join(root, path))
        except OSError:
            return
