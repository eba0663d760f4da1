"""Snapshot store in a bucket: blobs and manifests below the id of a job.

Without an owner it is read-only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from headrace.state.storage import names
from headrace.state.storage.disk import Disk
from headrace.state.storage.remote.blobs import RemoteBlobs
from headrace.state.storage.remote.manifests import RemoteManifests
from headrace.state.storage.remote.objects import Objects
from headrace.state.storage.remote.owning import Owning
from headrace.state.storage.remote.uploads import Uploads
from headrace.state.storage.store import Store


class RemoteStore(Store):
    """`SnapshotStore` of a job in a bucket. The caller closes it."""

    def __init__(
        self, objects: Objects, job: str, disk: Disk, owner: Owning | None, now: Callable[[], str]
    ) -> None:
        folders = f"{job}/{names.BLOBS}", f"{job}/{names.MANIFESTS}"
        self._uploads = Uploads()
        blobs = RemoteBlobs(objects, folders[0], disk, self._uploads)
        manifests = RemoteManifests(objects, folders[1], job, owner, now)
        places = f"{objects.address}/{folders[0]}", f"{objects.address}/{folders[1]}"
        super().__init__(blobs, manifests, places, job)
        self._remote = blobs, manifests
        self._objects, self._owner = objects, owner

    def prepare(self) -> None:
        """Start writing: list what exists, and settle what a former run may have sent."""
        blobs, manifests = self._remote
        listed = self._objects.listed(self.job)
        manifests.prepare(listed)
        blobs.prepare(self._named(manifests.numbers())[0], listed)

    def manifests(self) -> list[int]:
        """Return the numbers of the checkpoints with manifests, listed from the bucket."""
        self._manifests.settle()
        self._remote[1].look()
        return super().manifests()

    def discard(self, number: int) -> None:
        """Remove a manifest. Raises OwnershipLost."""
        self._look()
        super().discard(number)

    def collect(self, keep: Collection[int]) -> None:
        """Remove other manifests and unneeded blobs. Raises OwnershipLost."""
        self._look()
        super().collect(keep)

    def close(self) -> bool:
        """Stop uploading; returns whether the outcome of every manifest is known."""
        self._uploads.close()
        return self._remote[1].is_settled

    def _look(self) -> None:
        assert self._owner is not None
        self._owner.look()
