"""Common part of the snapshot stores: blobs and manifests of one job in two folders.

Damaged files are left as they are. While one of the retained manifests cannot be read, no blobs are
removed, because it is unknown which ones that manifest names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from headrace.core.snapshots import (
    Blob,
    DamagedSnapshot,
    Manifest,
    SnapshotError,
    StoreError,
    blobs_in,
)
from headrace.state.storage.sealing import Broken
from headrace.state.storage.telling import telling

FRESH = "--fresh starts from the beginning, and repeats all output"


class BlobFolder(Protocol):
    """Folder of blobs. Several threads may put and look up at the same time; one at a time flushes
    and collects.
    """

    bytes_written: int

    def put(self, data: bytes | memoryview) -> Blob:
        """Store these bytes."""
        ...

    def put_file(self, path: str) -> Blob:
        """Store a file."""
        ...

    def has(self, blob: Blob) -> bool:
        """Whether the blob is stored or being stored."""
        ...

    def is_safe(self, blob: Blob) -> bool:
        """Whether a manifest may name the blob now."""
        ...

    def flush(self) -> None:
        """Make all blobs durable that were put."""
        ...

    def read(self, blob: Blob) -> bytes:
        """Return the blob's bytes. Raises CorruptData."""
        ...

    def verify(self, blob: Blob) -> None:
        """Read and verify the blob. Raises CorruptData."""
        ...

    def fetch(self, blob: Blob, path: str, *, link: bool) -> None:
        """Create a file with the blob's bytes. Raises CorruptData."""
        ...

    def collect(self, needed: Collection[Blob]) -> None:
        """Remove all blobs that are neither needed nor looked up since the last collect."""
        ...

    def path(self, blob: Blob) -> str:
        """Return the path or address of a blob."""
        ...


class ManifestFolder(Protocol):
    """Folder of manifests; for one thread at a time."""

    def numbers(self) -> list[int]:
        """Return the numbers of the checkpoints with manifests, ascending."""
        ...

    def path(self, number: int) -> str:
        """Return the path or address of a manifest."""
        ...

    def read(self, number: int) -> dict[str, object]:
        """Return a manifest. Raises CorruptData, or RefusedSnapshot for another job or format."""
        ...

    def named(self, number: int) -> frozenset[Blob]:
        """Return the blobs that a manifest names. Raises as `read` does."""
        ...

    def commit(self, number: int, manifest: Manifest, named: frozenset[Blob]) -> None:
        """Publish a manifest that names these blobs."""
        ...

    def settle(self) -> None:
        """Find out the outcome of a commit, if it is unknown."""
        ...

    def remove(self, numbers: Collection[int]) -> None:
        """Remove these manifests."""
        ...


class Store:
    """`SnapshotStore` of two folders; `places` are their locations, for messages."""

    def __init__(
        self, blobs: BlobFolder, manifests: ManifestFolder, places: tuple[str, str], job: str
    ) -> None:
        self.job = job
        self._blobs = blobs
        self._manifests = manifests
        self._folders = places

    @property
    def bytes_written(self) -> int:
        """Number of bytes of new blobs that were put."""
        return self._blobs.bytes_written

    def put(self, data: bytes | memoryview) -> Blob:
        """Store these bytes."""
        with telling(f"write into {self._folders[0]}"):
            return self._blobs.put(data)

    def put_file(self, path: str) -> Blob:
        """Store a file."""
        with telling(f"store {path}"):
            return self._blobs.put_file(path)

    def has(self, blob: Blob) -> bool:
        """Whether a manifest may name the blob."""
        with telling(f"read {self._blobs.path(blob)}"):
            return self._blobs.has(blob)

    def read(self, blob: Blob) -> bytes:
        """Return the blob's bytes."""
        with self._reading(blob, f"read {self._blobs.path(blob)}"):
            return self._blobs.read(blob)

    def fetch(self, blob: Blob, path: str, *, link: bool = False) -> None:
        """Create a file with the blob's bytes."""
        with self._reading(blob, f"copy {self._blobs.path(blob)} to {path}"):
            self._blobs.fetch(blob, path, link=link)

    def commit(self, number: int, manifest: Manifest) -> None:
        """Commit a checkpoint."""
        self._manifests.settle()
        with telling(f"write checkpoint {number}"):
            if number in self._manifests.numbers():
                raise StoreError(f"checkpoint {number} is there already")
            self._blobs.flush()
            needed = frozenset(blobs_in(manifest))
            for blob in needed:
                if not self._blobs.is_safe(blob):
                    gone = f"checkpoint {number} needs {self._blobs.path(blob)}, which is not there"
                    raise StoreError(gone)
            self._manifests.commit(number, manifest, needed)

    def manifests(self) -> list[int]:
        """Return the numbers of the checkpoints with manifests."""
        self._manifests.settle()
        with telling(f"read {self._folders[1]}"):
            return self._manifests.numbers()

    def manifest(self, number: int) -> Mapping[str, object]:
        path = self._manifests.path(number)
        try:
            with telling(f"read {path}"):
                return self._manifests.read(number)
        except Broken as error:
            raise self._damaged(path, error, (number,)) from error

    def discard(self, number: int) -> None:
        """Remove a manifest."""
        self._manifests.settle()
        with telling(f"remove checkpoint {number}"):
            self._manifests.remove([number])

    def collect(self, keep: Collection[int]) -> None:
        """Remove all other manifests, and the blobs that no manifest needs."""
        self._manifests.settle()
        with telling("remove old checkpoints"):
            numbers = self._manifests.numbers()
            self._manifests.remove([number for number in numbers if number not in keep])
            needed, unread = self._named(number for number in numbers if number in keep)
            if not unread:
                self._blobs.collect(needed)

    def verify(self, number: int) -> None:
        """Read and verify all of a checkpoint. Raises DamagedSnapshot."""
        for blob in blobs_in(self.manifest(number)):
            with self._reading(blob, f"read {self._blobs.path(blob)}"):
                self._blobs.verify(blob)

    def is_whole(self, number: int) -> bool:
        """Whether a job could be restored from the checkpoint: reads all of it."""
        try:
            for blob in blobs_in(self._manifests.read(number)):
                self._blobs.verify(blob)
        except (Broken, OSError, SnapshotError):
            return False
        return True

    def _named(self, numbers: Iterable[int]) -> tuple[set[Blob], list[int]]:
        """Return the blobs that manifests name, and the manifests that cannot be read."""
        blobs: set[Blob] = set()
        unread = []
        for number in numbers:
            try:
                blobs |= self._manifests.named(number)
            except (Broken, SnapshotError):
                unread.append(number)
        return blobs, unread

    @contextmanager
    def _reading(self, blob: Blob, doing: str) -> Iterator[None]:
        try:
            with telling(doing):
                yield
        except Broken as error:
            numbers = self._manifests.numbers()
            users = [n for n in numbers if blob in self._named([n])[0]]
            raise self._damaged(self._blobs.path(blob), error, tuple(users)) from error

    def _damaged(self, path: str, error: Broken, users: tuple[int, ...]) -> DamagedSnapshot:
        """Build the error: the damaged file, the checkpoints that need it, and an intact one."""
        others = (n for n in reversed(self._manifests.numbers()) if n not in users)
        whole = next((number for number in others if self.is_whole(number)), None)
        return DamagedSnapshot(
            f"{path} is damaged: {error}{_needed_by(users)}",
            f"no other checkpoint is whole: {FRESH}"
            if whole is None
            else f"checkpoint {whole} is whole: --from-checkpoint {whole} starts from there",
            file=path,
            checkpoints=users,
            whole=whole,
        )


def _needed_by(users: tuple[int, ...]) -> str:
    """Return the checkpoints that need a file, as a clause of a message.

    >>> _needed_by((7,)), _needed_by((5, 6, 7))
    ('; checkpoint 7 needs it', '; checkpoints 5, 6 and 7 need it')
    """
    if len(users) < 2:
        return f"; checkpoint {users[0]} needs it" if users else ""
    return f"; checkpoints {', '.join(map(str, users[:-1]))} and {users[-1]} need it"
