"""A folder of a bucket as a `Disk` of which is only read, for whoever reads files by their paths.

Its paths are addresses. What is there is listed once, and taken to stay: it is meant for
savepoints, which nobody changes.
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
    """What somebody named as one is none."""

    exit_status = 2


def disk_of(path: str) -> Disk:
    """The disk that a path is on: a bucket, if it is an address. Raises SnapshotError."""
    return BucketDisk(bucket(place(path))) if is_url(path) else LocalDisk()


def place(path: str) -> Address:
    """The address that somebody named. Raises NotAnAddress."""
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
        """What is in a folder."""
        prefix = f"{self._name(folder)}/".lstrip("/")
        below = (name[len(prefix) :] for name in self._all() if name.startswith(prefix))
        return sorted({name.partition("/")[0] for name in below})

    def size(self, path: str) -> int | None:
        """Its length."""
        listed = self._all().get(self._name(path))
        return None if listed is None else listed.bytes

    def read(self, path: str) -> bytes:
        """Its bytes."""
        return b"".join(self.pieces(path))

    def pieces(self, path: str) -> Iterator[memoryview]:
        """Piece by piece."""
        try:
            for piece in self._objects.pieces(self._name(path), self.size(path) or 0):
                yield memoryview(piece)
        except Short:
            raise FileNotFoundError(errno.ENOENT, "it was changed meanwhile", path) from None

    def make_folder(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Refused."""
        _refuse(path)

    def sync(self, paths: Sequence[str]) -> None:
        """Nothing was written."""

    def sync_folder(self, path: str) -> None:
        """Nothing was written."""

    def rename(self, path: str, to: str) -> None:
        """Refused."""
        _refuse(path)

    def link(self, path: str, to: str) -> None:
        """Refused."""
        _refuse(path)

    def remove(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def remove_folder(self, path: str) -> None:
        """Refused."""
        _refuse(path)

    def lock(self, path: str) -> Lock | None:
        """Refused."""
        _refuse(path)

    def _all(self) -> dict[str, Listed]:
        if self._listed is None:
            self._listed = self._objects.listed()
        return self._listed

    def _name(self, path: str) -> str:
        return path.rstrip("/").removeprefix(self._objects.address).lstrip("/")


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
