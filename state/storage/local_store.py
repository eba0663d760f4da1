"""Snapshot store of a home: blobs and manifests in two folders of a disk with durable syncs.

A writer holds the lock of the home and has called `prepare`; a reader needs neither.
"""

from __future__ import annotations

import threading

from headrace.state.storage import names
from headrace.state.storage.blobs import LocalBlobs
from headrace.state.storage.disk import Disk
from headrace.state.storage.disk_errors import translate_os_errors
from headrace.state.storage.manifests import LocalManifests
from headrace.state.storage.store import FolderSnapshotStore


class LocalSnapshotStore(FolderSnapshotStore):
    """`SnapshotStore` of a job in a folder."""

    def __init__(self, disk: Disk, folder: str, job: str) -> None:
        folders = names.get_blob_folder(folder), names.get_manifest_folder(folder)
        self.job_id = job
        blobs, manifests = LocalBlobs(disk, folders[0]), LocalManifests(disk, folders[1], job)
        super().__init__(blobs, manifests, folders, job)
        self._disk = disk
        self._local_folders = blobs, manifests

    def prepare(self) -> None:
        """Start writing: create missing folders, and remove what a killed run left unfinished."""
        with translate_os_errors(f"write into {self._folders[1]}"):
            for folder in self._folders:
                self._disk.make_folder(folder)
            blobs, manifests = self._local_folders
            manifests.prepare()
            blobs.prepare(self._find_needed_blobs(manifests.list_numbers())[0])


class WorkerSnapshotStore(LocalSnapshotStore):
    """The store of a worker in a process of its own, which puts blobs for its coordinator to
    commit.
    """

    def __init__(self, disk: Disk, folder: str, job: str) -> None:
        super().__init__(disk, folder, job)
        self._flush_lock = threading.Lock()

    def share_blobs(self) -> None:
        """Make all blobs that were put durable."""
        with self._flush_lock, translate_os_errors(f"write into {self._folders[0]}"):
            self._blobs.flush()
