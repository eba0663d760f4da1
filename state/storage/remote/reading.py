"""A folder of a bucket as a read-only `Disk`, for readers of files by path.

Its paths are addresses. The objects are listed once and assumed not to change, as those of a
savepoint.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

from headrace.core.addresses import WANTED, Address, NoAddress, address, is_url
from headrace.core.snapshots import RefusedSnapshot
from headrace.state.storage.disk import Disk, Lock
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.remote.bucket import bucket
from headrace.state.storage.remote.objects import Listed, Objects, Short


class NotAnAddress(RefusedSnapshot):
    """The user named an address that is none."""

    exit_status = 2


def disk_of(path: str) -> Disk:
    """Return the disk of a path: a bucket, if the path is an address. Raises SnapshotError."""
    return BucketDisk(bucket(place(path))) if is_url(path) else LocalDisk()


def place(path: str) -> Address:
    """Parse an address that the user named. Raises NotAStorageUrl."""
    try:
        return address(path)
    except NoAddress as error:
        got = "an address with credentials in it" if error.is_secret else path
        raise NotAnAddress(f"wanted {WANTED}, got {got}", error.hint) from None


class BucketDisk:
    """`Disk` of the objects below an address."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._listed: dict[str, Listed] | None = None

    def names(self, folder: str) -> list[str]:
        prefix = f"{self._name(folder)}/".lstrip("/")
        below = (name[len(prefix) :] for name in self._all() if name.startswith(prefix))
        return sorted({name.partition("/")[0] for name in below})

    def size(self, path: str) -> int | None:
        listed = self._all().get(self._name(path))
        return None if listed is None else listed.bytes

    def read(self, path: str) -> bytes:
        return b"".join(self.pieces(path))

    def pieces(self, path: str) -> Iterator[memoryview]:
        try:
            for piece in self._objects.pieces(self._name(path), self.size(path) or 0):
                yield memoryview(piece)
        except Short:
            raise FileNotFoundError(errno.ENOENT, "it was changed meanwhile", path) from None

    def make_folder(self, path: str) -> None:
        _refuse(path)

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        _refuse(path)

    def sync(self, paths: Sequence[str]) -> None:
        """Do nothing: nothing was written."""

    def sync_folder(self, path: str) -> None:
        """Do nothing: nothing was written."""

    def rename(self, path: str, to: str) -> None:
        _refuse(path)

    def link(self, path: str, to: str) -> None:
        _refuse(path)

    def remove(self, path: str) -> None:
        _refuse(path)

    def remove_folder(self, path: str) -> None:
        _refuse(path)

    def lock(self, path: str) -> Lock | None:
        _refuse(path)

    def _all(self) -> dict[str, Listed]:
        if self._listed is None:
            self._listed = self._objects.listed()
        return self._listed

    def _name(self, path: str) -> str:
        return path.rstrip("/").removeprefix(self._objects.address).lstrip("/")


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
