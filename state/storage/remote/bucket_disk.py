"""A folder of a bucket as a read-only `Disk`, for readers of files by path.

Its paths are addresses. The objects are listed once and assumed not to change, as those of a
savepoint.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

from headrace.core.api.snapshots import RefusedSnapshot
from headrace.core.api.storage_url import (
    URL_FORMS,
    InvalidStorageUrl,
    StorageUrl,
    is_url,
    parse_storage_url,
)
from headrace.state.storage.disk import Disk, FileLock
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.remote.bucket import open_bucket
from headrace.state.storage.remote.object_storage import ListedObject, ObjectStorage, SizeMismatch


class NotAStorageUrl(RefusedSnapshot):
    """The user named an address that is none."""

    exit_status = 2


def open_disk(path: str) -> Disk:
    """Return the disk of a path: a bucket, if the path is an address. Raises SnapshotError."""
    return BucketDisk(open_bucket(resolve_storage_url(path))) if is_url(path) else LocalDisk()


def resolve_storage_url(path: str) -> StorageUrl:
    """Parse an address that the user named. Raises NotAStorageUrl."""
    try:
        return parse_storage_url(path)
    except InvalidStorageUrl as error:
        got = "an address with credentials in it" if error.is_secret else path
        raise NotAStorageUrl(f"wanted {URL_FORMS}, got {got}", error.hint) from None


class BucketDisk:
    """`Disk` of the objects below an address."""

    def __init__(self, objects: ObjectStorage) -> None:
        self._objects = objects
        self._listing: dict[str, ListedObject] | None = None

    def list_names(self, folder: str) -> list[str]:
        prefix = f"{self._get_name(folder)}/".lstrip("/")
        below = (name[len(prefix) :] for name in self._list_all() if name.startswith(prefix))
        return sorted({name.partition("/")[0] for name in below})

    def get_size(self, path: str) -> int | None:
        listed = self._list_all().get(self._get_name(path))
        return None if listed is None else listed.bytes

    def read(self, path: str) -> bytes:
        return b"".join(self.read_chunks(path))

    def read_chunks(self, path: str) -> Iterator[memoryview]:
        try:
            for piece in self._objects.read_chunks(self._get_name(path), self.get_size(path) or 0):
                yield memoryview(piece)
        except SizeMismatch:
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

    def is_link(self, path: str) -> bool:
        return False

    def restrict_access(self, folder: str) -> str:
        return ""

    def lock(self, path: str) -> FileLock | None:
        _refuse(path)

    def _list_all(self) -> dict[str, ListedObject]:
        if self._listing is None:
            self._listing = self._objects.list_objects()
        return self._listing

    def _get_name(self, path: str) -> str:
        return path.rstrip("/").removeprefix(self._objects.address).lstrip("/")


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
