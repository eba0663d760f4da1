"""Access to the files of homes and savepoints: their owner's only, or also a group's on purpose.

The files hold users' rows, so other users get no access, whatever the umask. A folder that its
group may write, and that has the setgid bit, is shared with the group on purpose: so Unix marks a
folder whose new files belong to the group, and so Kubernetes marks a volume with an `fsGroup`. What
is created in it is the group's as well.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
SHARED_FILE, SHARED_FOLDER = 0o660, 0o2770

_ACL_ATTRIBUTE = "system.posix_acl_default"
_OWNER_ONLY_ACL = struct.pack(
    # The version; then a tag, permissions and an id each: the owner's, the group's, all others'.
    "<I" + 3 * "HHI",
    *(2, 0x01, 7, 0xFFFFFFFF, 0x04, 0, 0xFFFFFFFF, 0x20, 0, 0xFFFFFFFF),
)


def is_shared(folder: str) -> bool:
    """Whether a folder is shared with its group on purpose."""
    mode = os.stat(folder).st_mode
    return bool(mode & stat.S_ISGID and mode & stat.S_IWGRP)


def create_file(path: str, flags: int) -> int:
    """Open a file, created if need be, with the access of its folder; returns the descriptor."""
    shared = is_shared(os.path.dirname(path) or os.curdir)
    mode = SHARED_FILE if shared else PRIVATE_FILE
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, mode)
    if shared:  # the umask may have taken the group's access
        with suppress(PermissionError):
            os.fchmod(descriptor, mode)
    return descriptor


def create_folder(path: str) -> None:
    """Create a folder with the access of the folder above it."""
    shared = is_shared(os.path.dirname(path) or os.curdir)
    os.mkdir(path, PRIVATE_FOLDER)
    if shared:
        os.chmod(path, SHARED_FOLDER)


def make_folders(path: str) -> None:
    """Create a folder and those above it, each with the access of the folder above it."""
    if not os.path.isdir(path):
        make_folders(os.path.dirname(path) or os.curdir)
        with suppress(FileExistsError):
            create_folder(path)


def restrict_file(path: str) -> None:
    """Take the access to a file from those that its folder gives none; only its owner can."""
    allowed = SHARED_FILE if is_shared(os.path.dirname(path) or os.curdir) else PRIVATE_FILE
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    if mode & ~allowed & 0o077:
        with suppress(PermissionError):
            os.chmod(path, mode & (allowed | 0o700))


def restrict_new_files(folder: str) -> None:
    """Make files that other code creates in a folder its owner's only, where the system can.

    Elsewhere the access to the folder above protects them.
    """
    with suppress(AttributeError, OSError):
        os.setxattr(folder, _ACL_ATTRIBUTE, _OWNER_ONLY_ACL)


def restrict_access(folder: str) -> str:
    """Take the access to a folder and all in it from other users; returns a line for the user if
    there was any, else "".

    A private folder protects all below it, so its files are not looked at.
    """
    try:
        found = os.stat(folder)
    except FileNotFoundError:
        return ""
    open_bits = 0o007 if is_shared(folder) else 0o077
    if not found.st_mode & open_bits:
        return ""
    for path in (*_list_below(folder), folder):
        with suppress(OSError):
            _remove_bits(path, open_bits, follow=path == folder)
    if os.stat(folder).st_mode & open_bits:
        return f"other users have access to {folder}, and that cannot be changed; {_NAME_ANOTHER}"
    return f"other users had access to {folder}; now only {_name_users(open_bits)}"


_NAME_ANOTHER = "--home names another folder"


def _name_users(open_bits: int) -> str:
    return "its group has" if open_bits == 0o007 else "its owner has"


def _list_below(folder: str) -> Iterator[str]:
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield os.path.join(above, name)


def _remove_bits(path: str, bits: int, *, follow: bool) -> None:
    """Remove permissions of a file or folder, but never of what a link points to."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        mode = os.fstat(descriptor).st_mode
        if mode & bits and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            os.fchmod(descriptor, stat.S_IMODE(mode) & ~bits)
    finally:
        os.close(descriptor)
