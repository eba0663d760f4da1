"""Interface to object storage: a few requests, each of which is done as a whole or not at all.

An answered request is done and visible to all later requests: S3, GCS and Azure guarantee that, and
so do compatible servers. An unanswered request may have been done, may be done later, or never:
`RequestOutcomeUnknown`. Every other error means that it was not done.

One assumption is made. Blobs are named by their hash, and a removal has no condition: an unanswered
removal is done soon or never, and not after the same bytes were put again, which is at least one
checkpoint later.

Two requests have a condition that the server checks atomically: `create` requires that there is no
object, `replace` that the object is the version seen. So of two processes with the same request one
gets `PreconditionFailed`, as does a process that retries because an answer was lost: it then reads
the object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import IO, Protocol

from headrace.core.api.snapshots import StoreError
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """Version of an object, as its server identifies it."""

    tag: str | None
    number: str | None = None


@dataclass(frozen=True, slots=True)
class StoredObject:
    """Contents of a small object."""

    data: bytes
    version: ObjectVersion


@dataclass(frozen=True, slots=True)
class ListedObject:
    """Size and version of a listed object."""

    bytes: int
    version: ObjectVersion


class RequestOutcomeUnknown(StoreError):
    """It is unknown whether a request was done, or will be."""


class PreconditionFailed(Exception):
    """The condition of a request did not hold."""


class SizeMismatch(Exception):
    """An object has another size than expected: `bytes`; None if it is missing."""

    def __init__(self, bytes: int | None) -> None:
        super().__init__(bytes)
        self.bytes = bytes


class ObjectStorage(Protocol):
    """Objects below an address, by name. Raises StoreError; safe for use by several threads."""

    @property
    def address(self) -> str:
        """Address, for messages."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write these bytes, replacing any object."""
        ...

    def put_file(self, name: str, file: IO[bytes]) -> None:
        """Write a file's bytes, of which only a part is in memory at any time."""
        ...

    def create(self, name: str, data: bytes) -> ObjectVersion:
        """Write these bytes if there is no object. Raises PreconditionFailed."""
        ...

    def replace(self, name: str, data: bytes, version: ObjectVersion) -> ObjectVersion:
        """Write these bytes if the object has this version. Raises PreconditionFailed."""
        ...

    def read(self, name: str) -> StoredObject | None:
        """Return an object; None if there is none."""
        ...

    def read_chunks(self, name: str, bytes: int) -> Iterator[bytes]:
        """Yield an object in chunks, if it has that size. Raises SizeMismatch."""
        ...

    def list_objects(self, folder: str = "") -> dict[str, ListedObject]:
        """Return all objects in the folder, by name."""
        ...

    def remove(self, names: Collection[str]) -> None:
        """Remove these objects; missing ones are ignored."""
        ...
