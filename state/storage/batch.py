"""Home of a batch run: inside the home of the job of that name, and independent of it.

    home of a batch = home of the job "/batch"

It is a home like any other: locked by the process that runs, with an id that data written elsewhere
carries, and with notes. Instead of checkpoints it has only the record of the output that all sinks
have prepared. Once that record exists the batch is decided and its output is committed, by a later
run if need be; before, prepared output is removed.
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

FRESH = "--fresh starts from scratch, and discards output that was not committed"


@dataclass(slots=True)
class BatchHome:
    """`core.spark.committing.BatchCommitLog` on a disk, in a locked home."""

    home: Home
    since: str
    _job: str = ""

    @property
    def job(self) -> str:
        """Id of the batch; `forget` gives the next batch another one."""
        self._job = self._job or self.home.job(self.since)
        return self._job

    @property
    def notes(self) -> Notes:
        """Notes that sources and sinks must not lose."""
        return self.home.notes

    def record(self, document: Document) -> None:
        """Decide the batch: all of this output must be committed."""
        path = self._path
        with telling(f"write {path}"):
            publish(self.home.disk, path, names.temporary(path), seal(document))

    def recorded(self) -> Document | None:
        """Return the record of a batch that is decided and not finished."""
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
        """Remove the record: nothing of it was committed."""
        with telling(f"remove {self._path}"):
            self.home.disk.remove(self._path)
            self.home.disk.sync_folder(self.home.checkpoints)

    def finish(self) -> None:
        """Mark that all output is committed."""
        self.home.finish({"time": self.since})

    def finished(self) -> bool:
        """Whether all output was marked as committed."""
        return self.home.finished() is not None

    def forget(self) -> None:
        """Remove the record and the id atomically: the next batch is another one."""
        self.home.forget()
        self._job = ""

    def over(self) -> None:
        """Remove the mark: the end of the batch was reported."""
        self.home.clear()

    @property
    def _path(self) -> str:
        return os.path.join(self.home.checkpoints, names.OUTPUT)


@contextmanager
def batch_home(root: str, name: str, since: str, disk: Disk | None = None) -> Iterator[BatchHome]:
    """Lock the home of the batch of that name. Raises HomeLocked, SnapshotError."""
    home = Home(disk or LocalDisk(), names.home(root, name), names.BATCH)
    with home.held(since):
        yield BatchHome(home, since)
