"""The blobs of a job in a bucket: put once, in the background, verified whenever they are read.

What is there is known without asking: it is listed when a run begins, and after that nobody but
this run puts or removes any. It is listed again now and then, so often that it makes one request
for each collection, to notice what somebody else has removed.

Nothing that was put but not named by a manifest is trusted when a run begins: it is put again,
which does no harm, for under a name there is never anything but bytes that have this hash.

    on its way   its upload goes on
    safe         a manifest may name it

An upload that failed is told when a manifest wants to name its blob, and forgotten.
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
"""So often it is read before it is called damaged: what is between may have done it."""


class RemoteBlobs:
    """A folder of blobs. Threads put and ask at the same time; one at a time flushes, collects."""

    def __init__(self, objects: Objects, folder: str, disk: Disk, uploads: Uploads) -> None:
        self._objects = objects
        self._folder = folder
        self._disk = disk
        self._uploads = uploads
        self._changed = threading.Condition()
        self._there: set[str] = set()
        """The names of all blobs that may be there."""
        self._safe: set[Blob] = set()
        self._coming: dict[Blob, Future[None]] = {}
        self._failed: dict[Blob, StoreError] = {}
        self._wanted: set[Blob] = set()
        """Those put or asked for since the last collect."""
        self._going: frozenset[str] = frozenset()
        """Those that are just being removed: nothing is put under these names meanwhile."""
        self._collected = 0
        self.bytes_written = 0

    def prepare(self, safe: Iterable[Blob], listed: Mapping[str, Listed]) -> None:
        """Begin: this is there, and of that these can be trusted."""
        self._see(listed)
        sizes = {name: each.bytes for name, each in listed.items()}
        self._safe = {blob for blob in safe if sizes.get(self._name(blob)) == blob.bytes}

    def put(self, data: bytes | memoryview) -> Blob:
        """Keep these bytes."""
        own = bytes(data)
        blob = _blob_of((own,))
        self._add(blob, lambda: lambda: self._objects.put(self._name(blob), own))
        return blob

    def put_file(self, path: str) -> Blob:
        """Keep a file. It is opened before it may go."""
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
        """Whether it is there, or on its way."""
        with self._changed:
            self._wanted.add(blob)
            return blob in self._safe or blob in self._coming

    def is_safe(self, blob: Blob) -> bool:
        """Whether a manifest may name it now. Raises StoreError if it could not be put."""
        with self._changed:
            failed = self._failed.pop(blob, None)
            if blob not in self._safe and failed is not None:
                raise failed
            return blob in self._safe

    def flush(self) -> None:
        """Wait for what is on its way."""
        with self._changed:
            coming = list(self._coming.values())
        wait(coming)

    def read(self, blob: Blob) -> bytes:
        """The bytes. Raises Broken."""
        return _again(lambda: b"".join(self._verified(blob)))

    def verify(self, blob: Blob) -> None:
        """Read it all. Raises Broken."""
        _again(lambda: deque(self._verified(blob), maxlen=0))

    def fetch(self, blob: Blob, path: str, *, link: bool) -> None:
        """Make a file of the bytes; there is nothing to link. Raises Broken."""

        def write() -> None:
            try:
                self._disk.write(path, self._verified(blob))
            except BaseException:
                remove_quietly(self._disk, path)
                raise

        _again(write)

    def collect(self, needed: Collection[Blob]) -> None:
        """Remove all that is not needed, and was not asked for since the last time."""
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
        """Where it is."""
        return f"{self._objects.address}/{self._name(blob)}"

    def _name(self, blob: Blob) -> str:
        return f"{self._folder}/{blob.hash}"

    def _look_again(self) -> None:
        """List what is there, when its turn has come."""
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
        """Have it put, unless it is there or on its way."""
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
        """Its upload is over."""
        with self._changed:
            self._there.add(blob.hash)  # perhaps, where it failed
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
        """What is read of a blob; if it was not that, Broken is raised behind the last piece."""
        passing = Passing(self._objects.pieces(self._name(blob), blob.bytes))
        try:
            yield from passing
        except Short as short:
            if short.bytes is None:
                raise Broken("it is gone") from None
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
