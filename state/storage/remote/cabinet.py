"""Repository of a job's checkpoints in a bucket, written by the run that owns it.

A bucket cannot rename folders, so a job's objects are below its id: to delete a job is to write
another id into `job.json`. Objects below the old id are garbage from then on, which this run or the
next one removes. Late writes of a run that lost its ownership land there too, without effect.
"""

from __future__ import annotations

import os
import re
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from headrace.core.snapshots import DamagedSnapshot, SnapshotError, StoreError
from headrace.state.storage import names
from headrace.state.storage.disk import Disk
from headrace.state.storage.lock import Holder
from headrace.state.storage.remote.notes import RemoteNotes
from headrace.state.storage.remote.objects import Conflict, Found, Objects
from headrace.state.storage.remote.owning import TIMES, Owning, me
from headrace.state.storage.remote.store import RemoteStore
from headrace.state.storage.sealing import Broken, seal, unseal
from headrace.state.storage.store import FRESH

_OURS = re.compile(r"([0-9a-f]{32})/(blobs/[0-9a-f]{32}|manifests/\d+\.json|visible\.json)")


class RemoteCabinet:
    """`CheckpointRepository` of a job in a bucket."""

    def __init__(
        self, objects: Objects, name: str, disk: Disk, owner: Owning, now: Callable[[], str]
    ) -> None:
        self._objects = objects
        self._name = name
        self._disk = disk
        self._owner = owner
        self._now = now
        self._job = ""
        self._stores: list[RemoteStore] = []

    @property
    def killed(self) -> Holder | None:
        """Previous owner, if it has not reported its end."""
        return self._owner.killed

    def job(self, since: str, new: Callable[[], str] = lambda: uuid.uuid4().hex) -> str:
        """Return the job's id, created if there is none yet.

        The id is written again at each start, so that late writes of a former run are rejected.
        """
        for _ in range(TIMES):
            found = self._objects.read(names.JOB)
            document = _document(self._place(names.JOB), found, _LOST)
            if document is None:
                document = {"job": self._told() or new(), "name": self._name, "since": since}
            if self._publish_job(found, document):
                self._job = str(document["job"])
                return self._job
        raise self._busy()

    def store(self, job: str) -> RemoteStore:
        """Open the job's checkpoints for writing."""
        self._sweep(job)
        return self._store(job)

    def forget(self) -> None:
        """Delete the job and its checkpoints."""
        self._owner.look()
        for _ in range(TIMES):
            found = self._objects.read(names.JOB)
            job = uuid.uuid4().hex
            if self._publish_job(found, {"job": job, "name": self._name, "since": self._now()}):
                break
        else:
            raise self._busy()
        self._sweep(job)

    @contextmanager
    def renewed(
        self, since: str, new: Callable[[], str] = lambda: uuid.uuid4().hex
    ) -> Iterator[RemoteStore]:
        """Replace the job by another one, which has the checkpoints written in the block."""
        self._owner.look()
        found, job = self._objects.read(names.JOB), new()
        yield self._store(job)
        self._owner.look()
        document = {"job": job, "name": self._name, "since": since}
        if not self._publish_job(found, document):
            raise self._busy()
        self._sweep(job)
        self.clear()

    def looked_at(self) -> RemoteStore | None:
        """Open the job's checkpoints for reading; None if there is no job."""
        found = self._objects.read(names.JOB)
        document = _document(self._place(names.JOB), found, _LOST)
        job = self._told() if document is None else str(document["job"])
        if job is None:
            return None
        self._job = self._job or job
        return RemoteStore(self._objects, job, self._disk, None, self._now)

    def finish(self, said: Mapping[str, object]) -> None:
        """Mark the job as finished."""
        self._owner.look()
        self._objects.put(names.FINISHED, seal(said))

    def finished(self) -> Mapping[str, object] | None:
        """Return what the finished mark says; None if there is no mark."""
        place = self._place(names.FINISHED)
        return _document(
            place, self._objects.read(names.FINISHED), "remove it: the job starts from scratch"
        )

    def clear(self) -> None:
        """Remove the finished mark."""
        self._objects.remove([names.FINISHED])

    @property
    def notes(self) -> RemoteNotes:
        """Notes that sources and sinks must not lose, whatever happens to the job's checkpoints."""
        return RemoteNotes(self._objects, self._owner)

    def note(self, number: int) -> None:
        """Record that all output of a checkpoint is committed."""
        self._owner.check()
        self._objects.put(f"{self._job}/{names.VISIBLE}", seal({"checkpoint": number}))

    def noted(self) -> int | None:
        """Return the checkpoint of the commit record; None if it is missing or cannot be read."""
        try:
            document = _document("", self._objects.read(f"{self._job}/{names.VISIBLE}"), "")
            return None if document is None else int(str(document["checkpoint"]))
        except SnapshotError:
            return None

    def close(self) -> bool:
        """Stop uploading; returns whether the outcome of every manifest is known."""
        return all([store.close() for store in self._stores])

    def _store(self, job: str) -> RemoteStore:
        store = RemoteStore(self._objects, job, self._disk, self._owner, self._now)
        self._stores.append(store)
        store.prepare()
        return store

    def _publish_job(self, found: Found | None, document: Mapping[str, object]) -> bool:
        """Write the job document, unless another process wrote it since it was read."""
        data = seal({**document, "owner": self._owner.token})
        try:
            if found is None:
                self._objects.create(names.JOB, data)
            else:
                self._objects.replace(names.JOB, data, found.version)
        except Conflict:
            there = self._objects.read(names.JOB)
            return there is not None and there.data == data
        return True

    def _told(self) -> str | None:
        """Return the job's id from the folders with manifests; None if there are none."""
        ours = (_OURS.fullmatch(name) for name in self._objects.listed())
        jobs = {found[1] for found in ours if found and found[2].startswith(names.MANIFESTS)}
        if len(jobs) > 1:
            place = self._place(names.JOB)
            raise DamagedSnapshot(f"{place} is missing, and there are {len(jobs)} jobs", FRESH)
        return next(iter(jobs), None)

    def _sweep(self, job: str) -> None:
        """Remove the objects of former jobs, manifests first."""
        names_ = [name for name in self._objects.listed() if _is_of_another(name, job)]
        for part in (f"/{names.MANIFESTS}/", "/"):
            self._objects.remove([name for name in names_ if part in name])

    def _place(self, name: str) -> str:
        return f"{self._objects.address}/{name}"

    def _busy(self) -> StoreError:
        return StoreError(f"cannot write {self._place(names.JOB)}: other processes keep writing it")


_LOST = "remove it: the job's checkpoints have its id as well"


@contextmanager
def opened(
    objects: Objects,
    name: str,
    home: str,
    disk: Disk,
    now: Callable[[], str],
    *,
    take_over: bool = False,
) -> Iterator[RemoteCabinet]:
    """Own the checkpoints of the job of that name, as a run of that home, whose lock is held.

    Raises BucketHeld.
    """
    owner = Owning(objects, me(home, Holder(os.getpid(), socket.gethostname(), now())))
    owner.take(take_over=take_over)
    cabinet = RemoteCabinet(objects, name, disk, owner, now)
    try:
        yield cabinet
    finally:
        if cabinet.close():
            # Without a release, a run of the same home can still resume at once.
            with suppress(SnapshotError):
                owner.release(now())


def _is_of_another(name: str, job: str) -> bool:
    found = _OURS.fullmatch(name)
    return found is not None and found[1] != job


def _document(place: str, found: Found | None, hint: str) -> dict[str, object] | None:
    if found is None:
        return None
    try:
        return unseal(place, found.data)
    except Broken as error:
        raise DamagedSnapshot(f"{place} is damaged: {error}", hint, file=place) from error
