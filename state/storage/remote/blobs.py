"""Blobs of a job in a bucket: put once, in the background, verified whenever they are read.

Existing blobs are known without a request: they are listed when a run starts, and after that only
this run puts or removes any. They are listed again now and then, on average with one request per
collect, to notice blobs that another process has removed.

At the start of a run, a blob that no manifest names is not trusted: it is put again, which does no
harm, because the name of a blob is the hash of its bytes.

    uploading   its upload is running
    durable     a manifest may name it

A failed upload is reported when a manifest is to name its blob, and then dropped.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from typing import TypeVar

from headrace.core.snapshots import Blob, StoreError
from headrace.state.storage import names
from headrace.state.storage.disk import Disk, remove_quietly
from headrace.state.storage.remote.bucket import MANY
from headrace.state.storage.remote.objects import Listed, Objects, Short
from headrace.state.storage.remote.uploads import Uploads
from headrace.state.storage.sealing import Broken, Passing

T = TypeVar("T")

TIMES = 2
"""Number of reads before a blob is called damaged: the network may have caused the damage."""


class RemoteBlobs:
    """Folder of blobs. Several threads may put and look up at the same time; one at a time flushes
    and collects.
    """

    def __init__(self, objects: Objects, folder: str, disk: Disk, uploads: Uploads) -> None:
        self._objects = objects
        self._folder = folder
        self._disk = disk
        self._uploads = uploads
        self._changed = threading.Condition()
        self._there: set[str] = set()
        """Names of all blobs that may exist."""
        self._safe: set[Blob] = set()
        self._coming: dict[Blob, Future[None]] = {}
        self._failed: dict[Blob, StoreError] = {}
        self._wanted: set[Blob] = set()
        """Blobs that were put or looked up since the last collect."""
        self._going: frozenset[str] = frozenset()
        """Names of the blobs being removed: none of them is put meanwhile."""
        self._collected = 0
        self.bytes_written = 0

    def prepare(self, safe: Iterable[Blob], listed: Mapping[str, Listed]) -> None:
        """Start writing: these objects exist, and of them these blobs can be trusted."""
        self._see(listed)
        sizes = {name: each.bytes for name, each in listed.items()}
        self._safe = {blob for blob in safe if sizes.get(self._name(blob)) == blob.bytes}

    def put(self, data: bytes | memoryview) -> Blob:
        """Store these bytes."""
        own = bytes(data)
        blob = _blob_of((own,))
        self._add(blob, lambda: lambda: self._objects.put(self._name(blob), own))
        return blob

    def put_file(self, path: str) -> Blob:
        """Store a file. It is opened at once, so it may be removed afterwards."""
        blob = _blob_of(self._disk.pieces(path))

        def opened() -> Callable[[], None]:
            file = open(path, "rb")  # noqa: SIM115 - a thread closes it

            def upload() -> None:
                with file:
                    self._objects.put_file(self._name(blob), file)

            return upload

        self._add(blob, opened)
        return blob

    def has(self, blob: Blob) -> bool:
        """Whether the blob is stored or being stored."""
        with self._changed:
            self._wanted.add(blob)
            return blob in self._safe or blob in self._coming

    def is_safe(self, blob: Blob) -> bool:
        """Whether a manifest may name the blob now. Raises StoreError if its upload failed."""
        with self._changed:
            failed = self._failed.pop(blob, None)
            if blob not in self._safe and failed is not None:
                raise failed
            return blob in self._safe

    def flush(self) -> None:
        """Wait for running uploads."""
        with self._changed:
            coming = list(self._coming.values())
        wait(coming)

    def read(self, blob: Blob) -> bytes:
        """Return the blob's bytes. Raises CorruptData."""
        return _again(lambda: b"".join(self._verified(blob)))

    def verify(self, blob: Blob) -> None:
        """Read and verify the blob. Raises CorruptData."""
        _again(lambda: deque(self._verified(blob), maxlen=0))

    def fetch(self, blob: Blob, path: str, *, link: bool) -> None:
        """Create a file with the blob's bytes, always a copy. Raises CorruptData."""

        def write() -> None:
            try:
                self._disk.write(path, self._verified(blob))
            except BaseException:
                remove_quietly(self._disk, path)
                raise

        _again(write)

    def collect(self, needed: Collection[Blob]) -> None:
        """Remove all blobs that are neither needed nor looked up since the last collect."""
        self._look_again()
        with self._changed:
            kept = {blob.hash for blob in (*needed, *self._wanted, *self._coming)}
            self._wanted.clear()
            self._failed.clear()
            self._safe = {blob for blob in self._safe if blob.hash in kept}
            self._going = frozenset(self._there - kept)
        try:
            self._objects.remove([f"{self._folder}/{name}" for name in sorted(self._going)])
            with self._changed:
                self._there -= self._going
        finally:
            with self._changed:
                self._going = frozenset()
                self._changed.notify_all()

    def path(self, blob: Blob) -> str:
        return f"{self._objects.address}/{self._name(blob)}"

    def _name(self, blob: Blob) -> str:
        return f"{self._folder}/{blob.hash}"

    def _look_again(self) -> None:
        """List the existing blobs, if it is time to."""
        self._collected += 1
        if self._collected % (len(self._there) // MANY + 1):
            return
        with self._changed:
            before = set(self._safe)
        listed = self._objects.listed(self._folder)
        with self._changed:
            self._see(listed)
            sizes = {name: each.bytes for name, each in listed.items()}
            self._safe -= {b for b in before if sizes.get(self._name(b)) != b.bytes}

    def _see(self, listed: Mapping[str, Listed]) -> None:
        found = (name.removeprefix(f"{self._folder}/") for name in listed)
        self._there.update(name for name in found if names.is_blob(name))

    def _add(self, blob: Blob, opened: Callable[[], Callable[[], None]]) -> None:
        """Upload the blob, unless it is stored or being stored."""
        if self.has(blob):
            return
        with self._changed:
            self._changed.wait_for(lambda: blob.hash not in self._going)
            if blob in self._safe or blob in self._coming:
                return
            self._coming[blob] = done = Future[None]()
            self._failed.pop(blob, None)
            self.bytes_written += blob.bytes
        try:
            upload = opened()
            self._uploads.begin(lambda: self._upload(blob, upload, done))
        except BaseException as error:
            self._ended(blob, done, error)
            raise

    def _upload(self, blob: Blob, upload: Callable[[], None], done: Future[None]) -> None:
        try:
            upload()
        except BaseException as error:
            self._ended(blob, done, error)
        else:
            self._ended(blob, done, None)

    def _ended(self, blob: Blob, done: Future[None], error: BaseException | None) -> None:
        """Record the outcome of an upload."""
        with self._changed:
            self._there.add(blob.hash)  # a failed upload may exist, too
            del self._coming[blob]
            if error is None:
                self._safe.add(blob)
            else:
                self._failed[blob] = (
                    error
                    if isinstance(error, StoreError)
                    else StoreError(f"cannot write {self.path(blob)}: {error}")
                )
        done.set_result(None)

    def _verified(self, blob: Blob) -> Iterator[bytes]:
        """Yield the bytes read; raises CorruptData at the end if they are not the blob's."""
        passing = Passing(self._objects.pieces(self._name(blob), blob.bytes))
        try:
            yield from passing
        except Short as short:
            if short.bytes is None:
                raise Broken("it is missing") from None
            raise Broken(f"wanted {blob.bytes} bytes, got {short.bytes}") from None
        if passing.hash != blob.hash:
            raise Broken(f"its {blob.bytes} bytes are not those that were written")


def _again(read: Callable[[], T]) -> T:
    for _ in range(TIMES - 1):
        try:
            return read()
        except Broken:
            continue
    return read()


def _blob_of(pieces: Iterable[bytes | memoryview]) -> Blob:
    passing = Passing(pieces)
    deque(passing, maxlen=0)
    return Blob(passing.hash, passing.bytes)
