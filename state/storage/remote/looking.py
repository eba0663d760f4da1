"""Read-only access to the checkpoints of a job in a bucket: takes no ownership, writes nothing."""

from __future__ import annotations

import os
import socket

from headrace.state.storage.cabinet import Cabinet
from headrace.state.storage.elsewhere import place_of
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.lock import Holder
from headrace.state.storage.remote.bucket import bucket
from headrace.state.storage.remote.cabinet import RemoteCabinet
from headrace.state.storage.remote.owning import Owning, me
from headrace.state.storage.remote.reading import place


def looking(dir: str, name: str) -> Cabinet:
    """Open the checkpoints of the job of that name, below an address. Raises SnapshotError."""
    objects = bucket(place(dir).below(name))
    nobody = Owning(objects, me("", Holder(os.getpid(), socket.gethostname(), "")))
    return RemoteCabinet(objects, name, LocalDisk(), nobody, str)


def cabinet_of(home: Home) -> Cabinet:
    """Open a home's checkpoints where the home records them. Raises SnapshotError."""
    place = place_of(home)
    return home if place is None else looking(place, home.name)
