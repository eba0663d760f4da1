"""The home of a batch: beside that of a stream of the same name, which has nothing to do with it.

    home of a batch = home of the job "/batch"

It is a home like any other: held by whoever runs, with an id that what is written elsewhere
carries, and with notes. Among its checkpoints there is only the record of what all sinks have
prepared. When that is there the batch is decided: its output is committed, by whoever comes next if
need be; before, it is removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.core.contracts import Notes
from headrace.core.snapshots import DamagedSnapshot
from headrace.core.state import Document
from headrace.state.storage import names
from headrace.state.storage.disk import Disk, publish
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.sealing import Broken, seal, unseal
from headrace.state.storage.telling import telling

FRESH = "--fresh begins anew, and gives up what was written and not committed"


@dataclass(slots=True)
class BatchHome:
    """`core.spark.committing.Kept` on a disk, in a home that is held."""

    home: Home
    since: str
    _job: str = ""

    @property
    def job(self) -> str:
        """The batch's id; it has another one once all of it is forgotten."""
        self._job = self._job or self.home.job(self.since)
        return self._job

    @property
    def notes(self) -> Notes:
        """What sources and sinks must not forget."""
        return self.home.notes

    def record(self, document: Document) -> None:
        """Decide it: all of this is to be committed."""
        path = self._path
        with telling(f"write {path}"):
            publish(self.home.disk, path, names.temporary(path), seal(document))

    def recorded(self) -> Document | None:
        """What was decided, if that is not over."""
        disk, path = self.home.disk, self._path
        with telling(f"read {path}"):
            if disk.size(path) is None:
                return None
            try:
                return unseal(path, disk.read(path))
            except Broken as error:
                message = f"{path} is damaged: {error}"
                raise DamagedSnapshot(message, FRESH, file=path) from error

    def revoke(self) -> None:
        """Have it undecided: nothing of it was committed."""
        with telling(f"remove {self._path}"):
            self.home.disk.remove(self._path)
            self.home.disk.sync_folder(self.home.checkpoints)

    def finish(self) -> None:
        """Mark that all is committed."""
        self.home.finish({"time": self.since})

    def finished(self) -> bool:
        """Whether it was."""
        return self.home.finished() is not None

    def forget(self) -> None:
        """Have no record, and no id, all at once: the next batch is another one."""
        self.home.forget()
        self._job = ""

    def over(self) -> None:
        """All has been said."""
        self.home.clear()

    @property
    def _path(self) -> str:
        return os.path.join(self.home.checkpoints, names.OUTPUT)


@contextmanager
def batch_home(root: str, name: str, since: str, disk: Disk | None = None) -> Iterator[BatchHome]:
    """Hold the home of the batch of that name. Raises HomeHeld, SnapshotError."""
    home = Home(disk or LocalDisk(), names.home(root, name), names.BATCH)
    with home.held(since):
        yield BatchHome(home, since)
