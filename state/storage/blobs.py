"""Blobs of a job in a folder: written once, verified whenever they are read.

A new blob passes through three states; a failure in one drops the blobs in that state:

    unsynced   it has a temporary name, and its bytes are not durable
    renamed    its bytes are durable, its name is not
    durable    a manifest may name it

`put` does the first step, the commit does the others for all blobs at once: syncing many small
files together is several times faster than one by one, and the folder is synced once. Large blobs
are synced as they are put, where several subtasks wait in parallel, and not all at the end.

After a failed sync the synced bytes are not trusted, however often they are synced again: the
caller must put the blob again, and from then on files are copied, because a link would refer to the
same bytes.
"""

from __future__ import annotations

import errno
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar

from headrace.core.api.snapshots import Blob
from headrace.state.storage import names
from headrace.state.storage.checksummed_json import CorruptData, HashingIterator, compute_blob
from headrace.state.storage.disk import Disk, remove_quietly

T = TypeVar("T", bound=bytes | memoryview)

LARGE_BYTES = 1 << 20
"""From this many bytes on, a sync waits for the disk's throughput, alone or together with others.
"""


class LocalBlobs:
    """Folder of blobs. Several threads may put and look up at the same time; one at a time flushes
    and collects.
    """

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._lock = threading.Lock()
        self._unsynced_paths: dict[Blob, str] = {}
        self._renamed_blobs: set[Blob] = set()
        self._durable_blobs: set[Blob] = set()
        self._recent_blobs: set[Blob] = set()
        """Blobs that were put or looked up since the last collect."""
        self._temporary_count = 0
        self._may_link = True
        self.bytes_written = 0

    def prepare(self, safe: Iterable[Blob]) -> None:
        """Start writing: remove leftovers, and trust these of the existing blobs."""
        for name in self._disk.list_names(self._folder):
            if names.is_temporary(name):
                self._disk.remove(names.get_blob_path(self._folder, name))
        self._disk.sync_folder(self._folder)
        self._durable_blobs.update(safe)

    def adopt(self, blobs: Iterable[Blob]) -> None:
        """Trust these blobs, which another process has made durable."""
        with self._lock:
            new = [blob for blob in blobs if blob not in self._durable_blobs]
            self._durable_blobs.update(new)
            self._recent_blobs.update(new)
            self.bytes_written += sum(blob.bytes for blob in new)

    def put(self, data: bytes | memoryview) -> Blob:
        """Store these bytes."""
        blob = compute_blob((data,))
        if not self.has(blob):
            self._add(blob, lambda to: self._disk.write(to, (data,)))
        return blob

    def put_file(self, path: str) -> Blob:
        """Store a file."""
        blob = compute_blob(self._disk.read_chunks(path))
        if not self.has(blob):
            self._add(blob, lambda to: self._link_or_copy(path, to))
        return blob

    def has(self, blob: Blob) -> bool:
        """Whether the blob is stored or being stored."""
        with self._lock:
            self._recent_blobs.add(blob)
            if blob in self._unsynced_paths:
                return True
            is_known = blob in self._durable_blobs or blob in self._renamed_blobs
        return is_known and self._exists(blob)

    def is_durable(self, blob: Blob) -> bool:
        """Whether a manifest may name the blob now."""
        return blob in self._durable_blobs and self._exists(blob)

    def flush(self) -> None:
        """Make all blobs durable that were put."""
        with self._lock:
            waiting = list(self._unsynced_paths.items())
        self._sync_and_rename(waiting)
        with self._lock:
            named = frozenset(self._renamed_blobs)
        try:
            if named:
                self._disk.sync_folder(self._folder)
        except OSError:
            with self._lock:
                self._renamed_blobs -= named
            raise
        with self._lock:
            self._renamed_blobs -= named
            self._durable_blobs |= named

    def read(self, blob: Blob) -> bytes:
        """Return the blob's bytes. Raises CorruptData."""
        path = self.get_path(blob)
        return b"".join(self._read_verified(blob, (self._disk.read(each) for each in (path,))))

    def verify(self, blob: Blob) -> None:
        """Read and verify the blob. Raises CorruptData."""
        deque(self._read_verified(blob, self._disk.read_chunks(self.get_path(blob))), maxlen=0)

    def fetch(self, blob: Blob, path: str, *, link: bool) -> None:
        """Create a file with the blob's bytes. Raises CorruptData."""
        try:
            if link and self._try_link(self.get_path(blob), path):
                self.verify(blob)
            else:
                pieces = self._disk.read_chunks(self.get_path(blob))
                self._disk.write(path, self._read_verified(blob, pieces))
        except BaseException:
            remove_quietly(self._disk, path)
            raise

    def collect(self, needed: Collection[Blob]) -> None:
        """Remove all blobs that are neither needed nor looked up since the last collect."""
        with self._lock:
            retained_hashes = {blob.hash for blob in (*needed, *self._recent_blobs)}
            self._recent_blobs.clear()
            self._durable_blobs = {
                blob for blob in self._durable_blobs if blob.hash in retained_hashes
            }
        for name in self._disk.list_names(self._folder):
            if names.is_blob(name) and name not in retained_hashes:
                self._disk.remove(names.get_blob_path(self._folder, name))

    def get_path(self, blob: Blob) -> str:
        return names.get_blob_path(self._folder, blob.hash)

    def _exists(self, blob: Blob) -> bool:
        return self._disk.get_size(self.get_path(blob)) == blob.bytes

    def _add(self, blob: Blob, write: Callable[[str], None]) -> None:
        """Write the blob under a temporary name; a small one waits for the flush."""
        with self._lock:
            self._temporary_count += 1
            temporary = names.get_temporary_blob_path(self.get_path(blob), self._temporary_count)
        try:
            write(temporary)
        except BaseException:
            remove_quietly(self._disk, temporary)
            raise
        with self._lock:
            self.bytes_written += blob.bytes
            is_alone = blob.bytes >= LARGE_BYTES
            waits = temporary if is_alone else self._unsynced_paths.setdefault(blob, temporary)
        if is_alone:
            self._sync_and_rename([(blob, temporary)])
        elif waits != temporary:
            remove_quietly(self._disk, temporary)

    def _sync_and_rename(self, waiting: list[tuple[Blob, str]]) -> None:
        """Sync these files and rename them; if that fails, none of them counts as put."""
        try:
            self._disk.sync([temporary for _, temporary in waiting])
            for blob, temporary in waiting:
                self._disk.rename(temporary, self.get_path(blob))
        except BaseException:
            self._may_link = False
            with self._lock:
                for blob, _ in waiting:
                    self._unsynced_paths.pop(blob, None)
            for _, temporary in waiting:
                remove_quietly(self._disk, temporary)
            raise
        with self._lock:
            for blob, _ in waiting:
                self._renamed_blobs.add(blob)
                self._unsynced_paths.pop(blob, None)

    def _link_or_copy(self, path: str, to: str) -> None:
        if not (self._may_link and self._try_link(path, to)):
            self._disk.write(to, self._disk.read_chunks(path))

    def _try_link(self, path: str, to: str) -> bool:
        """Create a link; False if the disk has no links or the file is on another disk."""
        try:
            self._disk.link(path, to)
        except OSError:
            return False
        return True

    def _read_verified(self, blob: Blob, pieces: Iterable[T]) -> Iterator[T]:
        """Yield the bytes read; raises CorruptData at the end if they are not the blob's."""
        size = self._disk.get_size(self.get_path(blob))
        if size is None:
            raise CorruptData("it is missing")
        if size != blob.bytes:
            raise CorruptData(f"wanted {blob.bytes} bytes, got {size}")
        passing = HashingIterator(pieces)
        try:
            yield from passing
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise CorruptData("the disk cannot read it") from error
        if passing.hash != blob.hash:
            raise CorruptData(f"its {size} bytes are not those that were written")
