"""What is the same of all snapshot stores: blobs and manifests in two folders, of one job.

What is damaged stays as it is, and so do the blobs of all others while one of the kept manifests
cannot be read, because nobody knows then what it names.
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
    """Blobs. Threads put and ask at the same time; one at a time flushes, collects."""

    bytes_written: int

    def put(self, data: bytes | memoryview) -> Blob:
        """Keep these bytes."""
        ...

    def put_file(self, path: str) -> Blob:
        """Keep a file."""
        ...

    def has(self, blob: Blob) -> bool:
        """Whether it is there, or on its way."""
        ...

    def is_safe(self, blob: Blob) -> bool:
        """Whether a manifest may name it now."""
        ...

    def flush(self) -> None:
        """Make all safe that was put."""
        ...

    def read(self, blob: Blob) -> bytes:
        """The bytes. Raises Broken."""
        ...

    def verify(self, blob: Blob) -> None:
        """Read it all. Raises Broken."""
        ...

    def fetch(self, blob: Blob, path: str, *, link: bool) -> None:
        """Make a file of the bytes. Raises Broken."""
        ...

    def collect(self, needed: Collection[Blob]) -> None:
        """Remove all that is not needed, and was not asked for since the last time."""
        ...

    def path(self, blob: Blob) -> str:
        """Where it is."""
        ...


class ManifestFolder(Protocol):
    """Manifests; one thread at a time."""

    def numbers(self) -> list[int]:
        """Of which checkpoints there are some, rising."""
        ...

    def path(self, number: int) -> str:
        """Where a manifest is."""
        ...

    def read(self, number: int) -> dict[str, object]:
        """A manifest. Raises Broken, or RefusedSnapshot if it is not one of this job and format."""
        ...

    def named(self, number: int) -> frozenset[Blob]:
        """The blobs that a manifest names. Raises as `read` does."""
        ...

    def commit(self, number: int, manifest: Manifest, named: frozenset[Blob]) -> None:
        """Publish it; it names these blobs."""
        ...

    def settle(self) -> None:
        """Find out what became of a commit, if that is not known."""
        ...

    def remove(self, numbers: Collection[int]) -> None:
        """Remove them."""
        ...


class Store:
    """`SnapshotStore` of two folders, which are at these places."""

    def __init__(
        self, blobs: BlobFolder, manifests: ManifestFolder, places: tuple[str, str], job: str
    ) -> None:
        self.job = job
        self._blobs = blobs
        self._manifests = manifests
        self._folders = places

    @property
    def bytes_written(self) -> int:
        """How many bytes of new blobs were put."""
        return self._blobs.bytes_written

    def put(self, data: bytes | memoryview) -> Blob:
        """Keep these bytes."""
        with telling(f"write into {self._folders[0]}"):
            return self._blobs.put(data)

    def put_file(self, path: str) -> Blob:
        """Keep a file."""
        with telling(f"keep {path}"):
            return self._blobs.put_file(path)

    def has(self, blob: Blob) -> bool:
        """Whether it may be named."""
        with telling(f"read {self._blobs.path(blob)}"):
            return self._blobs.has(blob)

    def read(self, blob: Blob) -> bytes:
        """The bytes."""
        with self._reading(blob, f"read {self._blobs.path(blob)}"):
            return self._blobs.read(blob)

    def fetch(self, blob: Blob, path: str, *, link: bool = False) -> None:
        """A file of the bytes."""
        with self._reading(blob, f"copy {self._blobs.path(blob)} to {path}"):
            self._blobs.fetch(blob, path, link=link)

    def commit(self, number: int, manifest: Manifest) -> None:
        """Make a checkpoint."""
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
        """Of which checkpoints there are manifests."""
        self._manifests.settle()
        with telling(f"read {self._folders[1]}"):
            return self._manifests.numbers()

    def manifest(self, number: int) -> Mapping[str, object]:
        """One of them."""
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
        """Remove the others, and what nobody needs."""
        self._manifests.settle()
        with telling("remove old checkpoints"):
            numbers = self._manifests.numbers()
            self._manifests.remove([number for number in numbers if number not in keep])
            needed, unread = self._named(number for number in numbers if number in keep)
            if not unread:
                self._blobs.collect(needed)

    def verify(self, number: int) -> None:
        """Read all of a checkpoint. Raises DamagedSnapshot."""
        for blob in blobs_in(self.manifest(number)):
            with self._reading(blob, f"read {self._blobs.path(blob)}"):
                self._blobs.verify(blob)

    def is_whole(self, number: int) -> bool:
        """Whether a checkpoint could be started from: all of it is read."""
        try:
            for blob in blobs_in(self._manifests.read(number)):
                self._blobs.verify(blob)
        except (Broken, OSError, SnapshotError):
            return False
        return True

    def _named(self, numbers: Iterable[int]) -> tuple[set[Blob], list[int]]:
        """The blobs that manifests name, and those manifests that cannot be read."""
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
        """What is damaged, who needs it, and what there is instead."""
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
    """Who needs a file, in words.

    >>> _needed_by((7,)), _needed_by((5, 6, 7))
    ('; checkpoint 7 needs it', '; checkpoints 5, 6 and 7 need it')
    """
    if len(users) < 2:
        return f"; checkpoint {users[0]} needs it" if users else ""
    return f"; checkpoints {', '.join(map(str, users[:-1]))} and {users[-1]} need it"
