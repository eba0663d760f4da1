"""Read-only access to the checkpoints of a job in a bucket: takes no ownership, writes nothing."""

from __future__ import annotations

import os
import socket

from headrace.state.storage.cabinet import CheckpointRepository
from headrace.state.storage.elsewhere import read_location
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.lock import LockHolder
from headrace.state.storage.remote.bucket import open_bucket
from headrace.state.storage.remote.cabinet import RemoteCheckpointRepository
from headrace.state.storage.remote.owning import BucketOwnership, build_own_record
from headrace.state.storage.remote.reading import resolve_storage_url


def open_bucket_read_only(dir: str, name: str) -> CheckpointRepository:
    """Open the checkpoints of the job of that name, below an address. Raises SnapshotError."""
    objects = open_bucket(resolve_storage_url(dir).child(name))
    nobody = BucketOwnership(
        objects, build_own_record("", LockHolder(os.getpid(), socket.gethostname(), ""))
    )
    return RemoteCheckpointRepository(objects, name, LocalDisk(), nobody, str)


def open_repository(home: Home) -> CheckpointRepository:
    """Open a home's checkpoints where the home records them. Raises SnapshotError."""
    place = read_location(home)
    return home if place is None else open_bucket_read_only(place, home.name)
