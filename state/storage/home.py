"""Home of a job: the folder of everything that the job stores from one run to the next.

A job is identified by its id, created at the first start and stored with its checkpoints. Data that
the job writes elsewhere carries that id, so the id is durable before it is used. If `job.json` is
lost, the manifests still have the id. A job started from scratch is another job, with another id.

At the end of a bounded job `mark_finished` writes a mark, `delete_job` removes the checkpoints, and
`clear_finished` removes the mark once the end was reported. A start that finds the mark only
completes these steps.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from headrace.core.snapshots import DamagedSnapshot, SnapshotError
from headrace.state.storage import names
from headrace.state.storage.disk import Disk, publish
from headrace.state.storage.local import LocalStore
from headrace.state.storage.lock import Holder, holder, holding
from headrace.state.storage.manifests import Manifests
from headrace.state.storage.notes import HomeNotes
from headrace.state.storage.sealing import Broken, seal, unseal
from headrace.state.storage.store import FRESH
from headrace.state.storage.telling import telling


@dataclass(frozen=True, slots=True)
class Home:
    """Home of the job of that name. A process that changes anything in it holds its lock."""

    disk: Disk
    root: str
    name: str

    @property
    def folder(self) -> str:
        """Folder of the home."""
        return names.home(self.root, self.name)

    @property
    def state(self) -> str:
        """Folder of live state while the job runs; removed at each start."""
        return os.path.join(self.folder, names.STATE)

    @property
    def checkpoints(self) -> str:
        """Folder of the checkpoints."""
        return os.path.join(self.folder, names.CHECKPOINTS)

    @contextmanager
    def held(self, since: str) -> Iterator[Holder | None]:
        """Lock the home and remove what a killed run left unfinished; yields the holder that was
        killed.

        Raises HomeLocked.
        """
        with telling(f"make {self.folder}"):
            self.disk.make_folder(self.folder)
        with holding(self.disk, os.path.join(self.folder, names.LOCK), since) as killed:
            with telling(f"write into {self.folder}"):
                self._prepare()
            yield killed

    def holder(self) -> tuple[bool, Holder | None]:
        """Return whether a process holds the lock, and the present or last holder."""
        return holder(self.disk, os.path.join(self.folder, names.LOCK))

    def job(self, since: str, new: Callable[[], str] = lambda: uuid.uuid4().hex) -> str:
        """Return the job's id, created if there is none yet.

        The file is written again at each start: the run that created it may have failed to sync it.
        """
        path = os.path.join(self.checkpoints, names.JOB)
        with telling(f"write {path}"):
            document = self._sealed(path, "remove it: the job's checkpoints have its id as well")
            if document is None:
                document = {"job": self._told() or new(), "name": self.name, "since": since}
            self._publish(path, document)
        return str(document["job"])

    def store(self, job: str) -> LocalStore:
        """Open the job's checkpoints for writing."""
        store = LocalStore(self.disk, self.checkpoints, job)
        store.prepare()
        return store

    def looked_at(self) -> LocalStore | None:
        """Open the job's checkpoints for reading, without the lock; None if there is no job."""
        path = os.path.join(self.checkpoints, names.JOB)
        with telling(f"read {path}"):
            document = self._sealed(path, "remove it: the next run writes it again")
            job = self._told() if document is None else document["job"]
        return None if job is None else LocalStore(self.disk, self.checkpoints, str(job))

    def forget(self) -> None:
        """Delete the job and its checkpoints, atomically even if the process is killed."""
        with telling(f"remove {self.checkpoints}"):
            if self.disk.names(self.checkpoints):
                self.disk.rename(self.checkpoints, self._discarded)
                self.disk.sync_folder(self.folder)
            self._prepare()

    @contextmanager
    def renewed(
        self, since: str, new: Callable[[], str] = lambda: uuid.uuid4().hex
    ) -> Iterator[LocalStore]:
        """Replace the job by another one, which has the checkpoints written in the block.

        The replacement is atomic and happens when the block ends, even if the process is killed; if
        an exception leaves the block, nothing has changed.
        """
        renewed = os.path.join(self.folder, names.RENEWED)
        with telling(f"write {renewed}"):
            self.disk.remove_folder(renewed)
            self.disk.make_folder(renewed)
            document = {"job": new(), "name": self.name, "since": since}
            self._publish(os.path.join(renewed, names.JOB), document)
        store = LocalStore(self.disk, renewed, document["job"])
        try:
            store.prepare()
            yield store
        except SnapshotError:
            with suppress(OSError):
                self.disk.remove_folder(renewed)
                self.disk.sync_folder(self.folder)
            raise
        with telling(f"write {self.checkpoints}"):
            self.disk.sync_folder(self.folder)
            self.disk.rename(self.checkpoints, self._discarded)
            self.disk.sync_folder(self.folder)
            self._prepare()
        self.clear()

    def finish(self, said: Mapping[str, object]) -> None:
        """Mark the job as finished; `said` is what to report of it."""
        with telling(f"write {self._mark}"):
            self._publish(self._mark, said)

    def finished(self) -> Mapping[str, object] | None:
        """Return what the finished mark says; None if there is no mark."""
        with telling(f"read {self._mark}"):
            return self._sealed(self._mark, "remove it, and the job starts from scratch")

    def clear(self) -> None:
        """Remove the finished mark."""
        with telling(f"remove {self._mark}"):
            self.disk.remove(self._mark)
            self.disk.sync_folder(self.folder)

    @property
    def notes(self) -> HomeNotes:
        """Notes that sources and sinks must not lose, whatever happens to the job's checkpoints."""
        return HomeNotes(self.disk, os.path.join(self.folder, names.NOTES))

    def note(self, number: int) -> None:
        """Record durably that all output of a checkpoint is committed."""
        path = os.path.join(self.checkpoints, names.VISIBLE)
        with telling(f"write {path}"):
            self._publish(path, {"checkpoint": number})

    def noted(self) -> int | None:
        """Return the checkpoint of the commit record; None if it is missing or cannot be read."""
        path = os.path.join(self.checkpoints, names.VISIBLE)
        try:
            if self.disk.size(path) is None:
                return None
            return int(str(unseal(path, self.disk.read(path))["checkpoint"]))
        except (OSError, Broken):
            return None

    @property
    def _mark(self) -> str:
        return os.path.join(self.folder, names.FINISHED)

    @property
    def _discarded(self) -> str:
        return os.path.join(self.folder, names.DISCARDED)

    def _prepare(self) -> None:
        renewed = os.path.join(self.folder, names.RENEWED)
        there = self.disk.names(self.folder)
        if names.RENEWED in there and names.CHECKPOINTS not in there:
            # The killed run had already moved the old checkpoints away: the new ones are complete.
            self.disk.rename(renewed, self.checkpoints)
            self.disk.sync_folder(self.folder)
        for folder in (self._discarded, self.state, renewed):
            self.disk.remove_folder(folder)
        self.disk.make_folder(self.checkpoints)
        for folder in (self.folder, self.checkpoints):
            for name in self.disk.names(folder):
                if names.is_temporary(name):
                    self.disk.remove(os.path.join(folder, name))
        # A killed run may have created any of these folders without syncing its parent.
        for folder in (os.path.dirname(self.root), self.root, self.folder, self.checkpoints):
            self.disk.sync_folder(folder or ".")

    def _told(self) -> str | None:
        """Return the job's id from the newest readable manifest; None if there is no manifest."""
        manifests = Manifests(self.disk, names.manifests(self.checkpoints), "")
        numbers = manifests.numbers()
        for number in reversed(numbers):
            try:
                path = manifests.path(number)
                return str(unseal(path, self.disk.read(path))["job"])
            except (Broken, SnapshotError):
                continue
        if numbers:
            path = manifests.path(numbers[-1])
            raise DamagedSnapshot(f"{path} is damaged, and no other has the job's id", FRESH)
        return None

    def _sealed(self, path: str, hint: str) -> dict[str, object] | None:
        if self.disk.size(path) is None:
            return None
        try:
            return unseal(path, self.disk.read(path))
        except Broken as error:
            raise DamagedSnapshot(f"{path} is damaged: {error}", hint, file=path) from error

    def _publish(self, path: str, document: Mapping[str, object]) -> None:
        publish(self.disk, path, names.temporary(path), seal(document))
