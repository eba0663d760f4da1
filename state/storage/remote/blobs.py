"""Blobs of a job in a bucket: put once, in the background, verified whenever they are read.

Existing blobs are known without a request: they are listed when a run starts, and after that only
this run puts or removes any. They are listed again now and then, on average with one request per
collect, to notice blobs that another process has removed.

Worker processes put blobs too, which their coordinator adopts: it lists the existing blobs before
a manifest names adopted ones, because a collect may have removed one that a worker has reused.

At the start of a run, a blob that no manifest names is not trusted: it is put again, which does no
harm, because the name of a blob is the hash of its bytes.

    uploading   its upload is running
    durable     a manifest may name it

A failed upload is reported when a manifest is to name its blob, and then dropped.

A round trip to a bucket takes tens of milliseconds, so small blobs are uploaded in parallel, by a
few threads. A caller with one more than the limit waits for a slot, so that the data in flight fits
into memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

from headrace.core.api.snapshots import Blob, StoreError
from headrace.state.storage import names
from headrace.state.storage.checksummed_json import CorruptData, HashingIterator, compute_blob
from headrace.state.storage.disk import Disk, remove_quietly
from headrace.state.storage.remote.bucket import NAMES_PER_LIST
from headrace.state.storage.remote.object_storage import ListedObject, ObjectStorage, SizeMismatch

MAX_CONCURRENT_UPLOADS = 8


class UploadPool:
    """Thread pool with as many slots as threads."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(
            MAX_CONCURRENT_UPLOADS, thread_name_prefix="headrace-upload"
        )
        self._slots = threading.BoundedSemaphore(MAX_CONCURRENT_UPLOADS)

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Start the upload as soon as a slot is free."""
        self._slots.acquire()
        try:
            begun = self._threads.submit(work)
        except BaseException:
            self._slots.release()
            raise
        begun.add_done_callback(lambda _: self._slots.release())
        return begun

    def close(self) -> None:
        """Start no more uploads; running ones end by their own time-outs."""
        self._threads.shutdown(wait=False, cancel_futures=True)


T = TypeVar("T")


MAX_READS = 2
"""Number of reads before a blob is called damaged: the network may have caused the damage."""


class RemoteBlobs:
    """Folder of blobs. Several threads may put and look up at the same time; one at a time flushes
    and collects.
    """

    def __init__(
        self, objects: ObjectStorage, folder: str, disk: Disk, uploads: UploadPool
    ) -> None:
        self._objects = objects
        self._folder = folder
        self._disk = disk
        self._uploads = uploads
        self._changed = threading.Condition()
        self._existing_names: set[str] = set()
        """Names of all blobs that may exist."""
        self._durable_blobs: set[Blob] = set()
        self._uploading: dict[Blob, Future[None]] = {}
        self._upload_errors: dict[Blob, StoreError] = {}
        self._adopted_blobs: set[Blob] = set()
        """Blobs of other processes that have not been listed yet."""
        self._recent_blobs: set[Blob] = set()
        """Blobs that were put or looked up since the last collect."""
        self._names_being_removed: frozenset[str] = frozenset()
        """Names of the blobs being removed: none of them is put meanwhile."""
        self._collect_count = 0
        self.bytes_written = 0

    def prepare(self, safe: Iterable[Blob], listed: Mapping[str, ListedObject]) -> None:
        """Start writing: these objects exist, and of them these blobs can be trusted."""
        self._record_listed(listed)
        sizes = {name: each.bytes for name, each in listed.items()}
        self._durable_blobs = {
            blob for blob in safe if sizes.get(self._get_name(blob)) == blob.bytes
        }

    def adopt(self, blobs: Collection[Blob]) -> None:
        """Trust these blobs, which another process has uploaded, if they are listed."""
        with self._changed:
            new = [blob for blob in blobs if blob not in self._durable_blobs | self._adopted_blobs]
            self._adopted_blobs.update(new)
            self._recent_blobs.update(blobs)
            self._existing_names.update(blob.hash for blob in new)
            self.bytes_written += sum(blob.bytes for blob in new)

    def put(self, data: bytes | memoryview) -> Blob:
        """Store these bytes."""
        own = bytes(data)
        blob = compute_blob((own,))
        self._start_upload(blob, lambda: lambda: self._objects.put(self._get_name(blob), own))
        return blob

    def put_file(self, path: str) -> Blob:
        """Store a file. It is opened at once, so it may be removed afterwards."""
        blob = compute_blob(self._disk.read_chunks(path))

        def open_upload() -> Callable[[], None]:
            file = open(path, "rb")  # noqa: SIM115 - a thread closes it

            def upload() -> None:
                with file:
                    self._objects.put_file(self._get_name(blob), file)

            return upload

        self._start_upload(blob, open_upload)
        return blob

    def has(self, blob: Blob) -> bool:
        """Whether the blob is stored or being stored."""
        with self._changed:
            self._recent_blobs.add(blob)
            return blob in self._durable_blobs or blob in self._uploading

    def is_durable(self, blob: Blob) -> bool:
        """Whether a manifest may name the blob now. Raises StoreError if its upload failed."""
        with self._changed:
            failed = self._upload_errors.pop(blob, None)
            if blob not in self._durable_blobs and failed is not None:
                raise failed
            return blob in self._durable_blobs

    def flush(self) -> None:
        """Wait for running uploads, and look for adopted blobs."""
        with self._changed:
            coming = list(self._uploading.values())
            is_listing_due = bool(self._adopted_blobs)
        wait(coming)
        if is_listing_due:
            self.relist()

    def raise_upload_errors(self) -> None:
        """Raise an error of the uploads since the last collect or call, if there is one."""
        with self._changed:
            errors = [*self._upload_errors.values()]
            self._upload_errors.clear()
        for error in errors:
            raise error

    def read(self, blob: Blob) -> bytes:
        """Return the blob's bytes. Raises CorruptData."""
        return _retry_read(lambda: b"".join(self._read_verified(blob)))

    def verify(self, blob: Blob) -> None:
        """Read and verify the blob. Raises CorruptData."""
        _retry_read(lambda: deque(self._read_verified(blob), maxlen=0))

    def fetch(self, blob: Blob, path: str, *, link: bool) -> None:
        """Create a file with the blob's bytes, always a copy. Raises CorruptData."""

        def write() -> None:
            try:
                self._disk.write(path, self._read_verified(blob))
            except BaseException:
                remove_quietly(self._disk, path)
                raise

        _retry_read(write)

    def collect(self, needed: Collection[Blob]) -> None:
        """Remove all blobs that are neither needed nor looked up since the last collect."""
        self._relist_if_due()
        with self._changed:
            retained_hashes = {
                blob.hash for blob in (*needed, *self._recent_blobs, *self._uploading)
            }
            self._recent_blobs.clear()
            self._upload_errors.clear()
            self._durable_blobs = {
                blob for blob in self._durable_blobs if blob.hash in retained_hashes
            }
            self._names_being_removed = frozenset(self._existing_names - retained_hashes)
        try:
            self._objects.remove(
                [f"{self._folder}/{name}" for name in sorted(self._names_being_removed)]
            )
            with self._changed:
                self._existing_names -= self._names_being_removed
        finally:
            with self._changed:
                self._names_being_removed = frozenset()
                self._changed.notify_all()

    def get_path(self, blob: Blob) -> str:
        return f"{self._objects.address}/{self._get_name(blob)}"

    def _get_name(self, blob: Blob) -> str:
        return f"{self._folder}/{blob.hash}"

    def _relist_if_due(self) -> None:
        """List the existing blobs, if it is time to."""
        self._collect_count += 1
        if not self._collect_count % (len(self._existing_names) // NAMES_PER_LIST + 1):
            self.relist()

    def relist(self) -> None:
        """List the existing blobs: forget removed ones, trust adopted ones."""
        with self._changed:
            before, adopted = set(self._durable_blobs), set(self._adopted_blobs)
        listed = self._objects.list_objects(self._folder)
        with self._changed:
            self._record_listed(listed)
            sizes = {name: each.bytes for name, each in listed.items()}
            missing = {b for b in before | adopted if sizes.get(self._get_name(b)) != b.bytes}
            self._adopted_blobs -= adopted
            self._durable_blobs = (self._durable_blobs | adopted) - missing

    def _record_listed(self, listed: Mapping[str, ListedObject]) -> None:
        found = (name.removeprefix(f"{self._folder}/") for name in listed)
        self._existing_names.update(name for name in found if names.is_blob(name))

    def _start_upload(self, blob: Blob, opened: Callable[[], Callable[[], None]]) -> None:
        """Upload the blob, unless it is stored or being stored."""
        if self.has(blob):
            return
        with self._changed:
            self._changed.wait_for(lambda: blob.hash not in self._names_being_removed)
            if blob in self._durable_blobs or blob in self._uploading:
                return
            self._uploading[blob] = done = Future[None]()
            self._upload_errors.pop(blob, None)
            self.bytes_written += blob.bytes
        try:
            upload = opened()
            self._uploads.submit(lambda: self._upload(blob, upload, done))
        except BaseException as error:
            self._finish_upload(blob, done, error)
            raise

    def _upload(self, blob: Blob, upload: Callable[[], None], done: Future[None]) -> None:
        try:
            upload()
        except BaseException as error:
            self._finish_upload(blob, done, error)
        else:
            self._finish_upload(blob, done, None)

    def _finish_upload(self, blob: Blob, done: Future[None], error: BaseException | None) -> None:
        """Record the outcome of an upload."""
        with self._changed:
            self._existing_names.add(blob.hash)  # a failed upload may exist, too
            del self._uploading[blob]
            if error is None:
                self._durable_blobs.add(blob)
            else:
                self._upload_errors[blob] = (
                    error
                    if isinstance(error, StoreError)
                    else StoreError(f"cannot write {self.get_path(blob)}: {error}")
                )
        done.set_result(None)

    def _read_verified(self, blob: Blob) -> Iterator[bytes]:
        """Yield the bytes read; raises CorruptData at the end if they are not the blob's."""
        passing = HashingIterator(self._objects.read_chunks(self._get_name(blob), blob.bytes))
        try:
            yield from passing
        except SizeMismatch as short:
            if short.bytes is None:
                raise CorruptData("it is missing") from None
            raise CorruptData(f"wanted {blob.bytes} bytes, got {short.bytes}") from None
        if passing.hash != blob.hash:
            raise CorruptData(f"its {blob.bytes} bytes are not those that were written")


def _retry_read(read: Callable[[], T]) -> T:
    for _ in range(MAX_READS - 1):
        try:
            return read()
        except CorruptData:
            continue
    return read()
