"""Snapshot store of a home: blobs and manifests in two folders of a disk with durable syncs.

A writer holds the lock of the home and has called `prepare`; a reader needs neither.
"""

from __future__ import annotations

from headrace.state.storage import names
from headrace.state.storage.blobs import Blobs
from headrace.state.storage.disk import Disk
from headrace.state.storage.manifests import Manifests
from headrace.state.storage.store import Store
from headrace.state.storage.telling import telling


class LocalStore(Store):
    """`SnapshotStore` of a job in a folder."""

    def __init__(self, disk: Disk, folder: str, job: str) -> None:
        folders = names.blobs(folder), names.manifests(folder)
        self.job = job
        blobs, manifests = Blobs(disk, folders[0]), Manifests(disk, folders[1], job)
        super().__init__(blobs, manifests, folders, job)
        self._disk = disk
        self._local = blobs, manifests

    def prepare(self) -> None:
        """Start writing: create missing folders, and remove what a killed run left unfinished."""
        with telling(f"write into {self._folders[1]}"):
            for folder in self._folders:
                self._disk.make_folder(folder)
            blobs, manifests = self._local
            manifests.prepare()
            blobs.prepare(self._named(manifests.numbers())[0])
