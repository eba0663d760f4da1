"""The home of a job: the folder of all that it keeps from one run to the next.

A job is its id, made at the first start and kept with its checkpoints: what it writes elsewhere
carries that id, so it is safe on the disk before anybody hears of it. Should `job.json` be lost,
the manifests still have the id. A job that is started afresh is another one, with another id.

The end of a bounded job: `finish` leaves a mark, `forget` removes its checkpoints, and `clear` the
mark, when everything has been said. A start that finds the mark has nothing to do but the rest.
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
    """The home of the job of that name. Whoever changes something in it holds it."""

    disk: Disk
    root: str
    name: str

    @property
    def folder(self) -> str:
        """All of it."""
        return names.home(self.root, self.name)

    @property
    def state(self) -> str:
        """Where live state is while it runs; a start removes it."""
        return os.path.join(self.folder, names.STATE)

    @property
    def checkpoints(self) -> str:
        """What it resumes from."""
        return os.path.join(self.folder, names.CHECKPOINTS)

    @contextmanager
    def held(self, since: str) -> Iterator[Holder | None]:
        """Hold it, free of what a killed run left half done; gives who was killed.

        Raises HomeHeld.
        """
        with telling(f"make {self.folder}"):
            self.disk.make_folder(self.folder)
        with holding(self.disk, os.path.join(self.folder, names.LOCK), since) as killed:
            with telling(f"write into {self.folder}"):
                self._prepare()
            yield killed

    def holder(self) -> tuple[bool, Holder | None]:
        """Whether a process holds it, and which that is or was."""
        return holder(self.disk, os.path.join(self.folder, names.LOCK))

    def job(self, since: str, new: Callable[[], str] = lambda: uuid.uuid4().hex) -> str:
        """The job's id, made if there is none yet.

        It is written again at each start: who wrote it first may not have been able to sync it.
        """
        path = os.path.join(self.checkpoints, names.JOB)
        with telling(f"write {path}"):
            document = self._sealed(path, "remove it: the job's checkpoints know its id as well")
            if document is None:
                document = {"job": self._told() or new(), "name": self.name, "since": since}
            self._publish(path, document)
        return str(document["job"])

    def store(self, job: str) -> LocalStore:
        """The job's checkpoints, to be written."""
        store = LocalStore(self.disk, self.checkpoints, job)
        store.prepare()
        return store

    def looked_at(self) -> LocalStore | None:
        """The job's checkpoints, to be read without holding it; None if there is no job."""
        path = os.path.join(self.checkpoints, names.JOB)
        with telling(f"read {path}"):
            document = self._sealed(path, "the next run writes it again if it is removed")
            job = self._told() if document is None else document["job"]
        return None if job is None else LocalStore(self.disk, self.checkpoints, str(job))

    def forget(self) -> None:
        """Have no checkpoints, and no job: all at once, also if it is killed meanwhile."""
        with telling(f"remove {self.checkpoints}"):
            if self.disk.names(self.checkpoints):
                self.disk.rename(self.checkpoints, self._discarded)
                self.disk.sync_folder(self.folder)
            self._prepare()

    @contextmanager
    def renewed(
        self, since: str, new: Callable[[], str] = lambda: uuid.uuid4().hex
    ) -> Iterator[LocalStore]:
        """Another job in the place of the one that is here, with the checkpoints it is given.

        It is there behind this, all at once, also if it is killed meanwhile; if this is left by an
        exception, nothing has changed.
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
        """Mark the job as finished, with what is to be said of it."""
        with telling(f"write {self._mark}"):
            self._publish(self._mark, said)

    def finished(self) -> Mapping[str, object] | None:
        """The mark; None if there is none."""
        with telling(f"read {self._mark}"):
            return self._sealed(self._mark, "remove it, and the job begins anew")

    def clear(self) -> None:
        """Remove the mark."""
        with telling(f"remove {self._mark}"):
            self.disk.remove(self._mark)
            self.disk.sync_folder(self.folder)

    @property
    def notes(self) -> HomeNotes:
        """What sources and sinks must not forget, whatever becomes of the job's checkpoints."""
        return HomeNotes(self.disk, os.path.join(self.folder, names.NOTES))

    def note(self, number: int) -> None:
        """All output of a checkpoint is visible; that is safe on the disk then."""
        path = os.path.join(self.checkpoints, names.VISIBLE)
        with telling(f"write {path}"):
            self._publish(path, {"checkpoint": number})

    def noted(self) -> int | None:
        """The last checkpoint that was noted; None if nobody can tell."""
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
            # Whoever was to rename it has removed the other one: it is whole.
            self.disk.rename(renewed, self.checkpoints)
            self.disk.sync_folder(self.folder)
        for folder in (self._discarded, self.state, renewed):
            self.disk.remove_folder(folder)
        self.disk.make_folder(self.checkpoints)
        for folder in (self.folder, self.checkpoints):
            for name in self.disk.names(folder):
                if names.is_temporary(name):
                    self.disk.remove(os.path.join(folder, name))
        # A killed run may have made any of these folders, and not have synced the one it is in.
        for folder in (os.path.dirname(self.root), self.root, self.folder, self.checkpoints):
            self.disk.sync_folder(folder or ".")

    def _told(self) -> str | None:
        """The id that the newest readable manifest tells; None if there is no manifest."""
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
            raise DamagedSnapshot(f"{path} is damaged, and no other tells whose it is", FRESH)
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
