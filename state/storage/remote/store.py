"""Snapshot store in a bucket: blobs and manifests below the id of a job.

Without an owner it is read-only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from headrace.core.api.snapshots import Blob, format_now
from headrace.state.storage import names
from headrace.state.storage.disk import Disk
from headrace.state.storage.leftover_files import LeftoverFiles
from headrace.state.storage.remote.blobs import RemoteBlobs, UploadPool
from headrace.state.storage.remote.manifests import RemoteManifests
from headrace.state.storage.remote.object_storage import ObjectStorage
from headrace.state.storage.remote.ownership import BucketOwnership
from headrace.state.storage.store import FolderSnapshotStore


class RemoteSnapshotStore(FolderSnapshotStore):
    """`SnapshotStore` of a job in a bucket. The caller closes it."""

    def __init__(
        self,
        objects: ObjectStorage,
        job: str,
        disk: Disk,
        owner: BucketOwnership | None,
        now: Callable[[], str],
    ) -> None:
        folders = f"{job}/{names.BLOBS}", f"{job}/{names.MANIFESTS}"
        self._uploads = UploadPool()
        blobs = RemoteBlobs(objects, folders[0], disk, self._uploads)
        manifests = RemoteManifests(objects, folders[1], job, owner, now)
        places = f"{objects.address}/{folders[0]}", f"{objects.address}/{folders[1]}"
        super().__init__(blobs, manifests, places, job)
        self._remote_folders = blobs, manifests
        self._objects, self._owner = objects, owner

    def prepare(self) -> None:
        """Start writing: list what exists, and settle what a former run may have sent."""
        blobs, manifests = self._remote_folders
        listed = self._objects.list_objects(self.job_id)
        manifests.prepare(listed)
        blobs.prepare(self._find_needed_blobs(manifests.list_numbers())[0], listed)

    def list_checkpoints(self) -> list[int]:
        """Return the numbers of the checkpoints with manifests, listed from the bucket."""
        self._manifests.settle()
        self._remote_folders[1].refresh()
        return super().list_checkpoints()

    def discard(self, number: int) -> None:
        """Remove a manifest. Raises OwnershipLost."""
        self._verify_ownership()
        super().discard(number)

    def collect(self, keep: Collection[int]) -> None:
        """Remove other manifests and unneeded blobs. Raises OwnershipLost."""
        self._verify_ownership()
        super().collect(keep)

    def close(self) -> bool:
        """Stop uploading; returns whether the outcome of every manifest is known."""
        self._uploads.close()
        return self._remote_folders[1].is_settled

    def _verify_ownership(self) -> None:
        assert self._owner is not None
        self._owner.verify()


class RemoteWorkerStore(RemoteSnapshotStore):
    """The store of a worker in a process of its own, which puts blobs for its coordinator to
    commit.

    The coordinator may remove any blob that the worker knows, so the existing ones are listed
    before the first blob of a snapshot is put or named again.
    """

    def __init__(
        self, objects: ObjectStorage, job: str, disk: Disk, leftovers: LeftoverFiles
    ) -> None:
        super().__init__(objects, job, disk, None, format_now)
        self._leftovers = leftovers
        self._list_lock = threading.Lock()
        self._is_listed = False

    def put(self, data: bytes | memoryview) -> Blob:
        """Store these bytes."""
        self._list_blobs()
        return super().put(data)

    def put_file(self, path: str) -> Blob:
        """Store a file."""
        self._list_blobs()
        return super().put_file(path)

    def has(self, blob: Blob) -> bool:
        """Whether a manifest may name the blob."""
        self._list_blobs()
        return super().has(blob)

    def fetch(self, blob: Blob, path: str, *, link: bool = False) -> None:
        """Create a file with the blob's bytes, which may be on this machine already."""
        if not (link and self._leftovers.fetch(blob, path)):
            super().fetch(blob, path, link=link)

    def share_blobs(self) -> None:
        """Wait until all blobs that were put are in the bucket. Raises StoreError."""
        blobs = self._remote_folders[0]
        blobs.flush()
        with self._list_lock:
            self._is_listed = False
        blobs.raise_upload_errors()

    def _list_blobs(self) -> None:
        with self._list_lock:
            if not self._is_listed:
                self._remote_folders[0].relist()
                self._is_listed = True
