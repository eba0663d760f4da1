"""Repository of a job's checkpoints in a bucket, written by the run that owns it.

A bucket cannot rename folders, so a job's objects are below its id: to delete a job is to write
another id into `job.json`. Objects below the old id are garbage from then on, which this run or the
next one removes. Late writes of a run that lost its ownership land there too, without effect.

Notes of sources and sinks are beside them, and belong to no checkpoint. Read-only access takes no
ownership and writes nothing.
"""

from __future__ import annotations

import os
import re
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from headrace.core.api.snapshots import DamagedSnapshot, SnapshotError, StoreError
from headrace.core.api.state import Document
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage import names
from headrace.state.storage.checkpoint_location import read_location
from headrace.state.storage.checkpoint_repository import CheckpointRepository
from headrace.state.storage.checksummed_json import (
    CorruptData,
    decode_checksummed,
    decode_document,
    encode_checksummed,
)
from headrace.state.storage.disk import Disk
from headrace.state.storage.documents import (
    CommitRecordDocument,
    CompletionRecordDocument,
    JobDocument,
)
from headrace.state.storage.home import RECORDED, Home, build_note_damage_error, has_record
from headrace.state.storage.home_lock import LockHolder
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.remote.bucket import open_bucket
from headrace.state.storage.remote.bucket_disk import resolve_storage_url
from headrace.state.storage.remote.object_storage import (
    ObjectStorage,
    PreconditionFailed,
    StoredObject,
)
from headrace.state.storage.remote.ownership import MAX_ATTEMPTS, BucketOwnership, build_own_record
from headrace.state.storage.remote.store import RemoteSnapshotStore
from headrace.state.storage.store import FRESH_HINT


@dataclass(frozen=True, slots=True)
class RemoteNotes:
    """`Notes` of the run that owns the bucket."""

    objects: ObjectStorage
    owner: BucketOwnership

    def read(self, name: str) -> Document | None:
        """Return the document that was last written."""
        path = f"{names.NOTES}/{names.build_note_name(name)}"
        found = self.objects.read(path)
        if found is None:
            return None
        try:
            return decode_checksummed(path, found.data)
        except CorruptData as error:
            raise build_note_damage_error(f"{self.objects.address}/{path}", error) from error

    def write(self, name: str, document: Document) -> None:
        self.owner.check_known_loss()
        self.objects.put(
            f"{names.NOTES}/{names.build_note_name(name)}", encode_checksummed(document)
        )


_OWN_NAME_PATTERN = re.compile(
    r"([0-9a-f]{32})/(blobs/[0-9a-f]{32}|manifests/\d+\.json|(visible|complete)\.json)"
)


class RemoteCheckpointRepository:
    """`CheckpointRepository` of a job in a bucket."""

    def __init__(
        self,
        objects: ObjectStorage,
        name: str,
        disk: Disk,
        owner: BucketOwnership,
        now: Callable[[], str],
    ) -> None:
        self._objects = objects
        self._name = name
        self._disk = disk
        self._owner = owner
        self._format_now = now
        self._job = ""
        self._has_record = False
        self._stores: list[RemoteSnapshotStore] = []

    @property
    def previous_owner(self) -> LockHolder | None:
        """Previous owner, if it has not reported its end."""
        return self._owner.previous_owner

    def ensure_job_id(self, since: str, new: Callable[[], str] = lambda: uuid.uuid4().hex) -> str:
        """Return the job's id, created if there is none yet.

        The id is written again at each start, so that late writes of a former run are rejected.
        """
        for _ in range(MAX_ATTEMPTS):
            found, document = self._read_job()
            if document is None:
                document = {"job": self._find_job_id() or new(), "name": self._name, "since": since}
            if self._publish_job(found, document):
                self._job = str(document["job"])
                return self._job
        raise self._build_contention_error()

    def open_store(self, job: str) -> RemoteSnapshotStore:
        """Open the job's checkpoints for writing."""
        self._sweep(job)
        return self._open_store(job)

    def delete_job(self) -> None:
        """Delete the job and its checkpoints."""
        self._owner.verify()
        for _ in range(MAX_ATTEMPTS):
            found = self._objects.read(names.JOB)
            job = uuid.uuid4().hex
            if self._publish_job(
                found, {"job": job, "name": self._name, "since": self._format_now()}
            ):
                break
        else:
            raise self._build_contention_error()
        self._sweep(job)

    @contextmanager
    def replace_job(
        self, since: str, new: Callable[[], str] = lambda: uuid.uuid4().hex
    ) -> Iterator[RemoteSnapshotStore]:
        """Replace the job by another one, which has the checkpoints written in the block."""
        self._owner.verify()
        job_object, job = self._objects.read(names.JOB), new()
        store = self._open_store(job)
        yield store
        self._owner.verify()
        newest = max(store.list_checkpoints(), default=0)
        self._objects.put(
            f"{job}/{names.COMPLETION_RECORD}", encode_checksummed({"checkpoint": newest})
        )
        document = {"job": job, "name": self._name, "since": since, **RECORDED}
        if not self._publish_job(job_object, document):
            raise self._build_contention_error()
        self._sweep(job)
        self.clear_finished()

    def open_read_only(self) -> RemoteSnapshotStore | None:
        """Open the job's checkpoints for reading; None if there is no job."""
        document = self._read_job()[1]
        job = self._find_job_id() if document is None else str(document["job"])
        if job is None:
            return None
        self._job = self._job or job
        return RemoteSnapshotStore(self._objects, job, self._disk, None, self._format_now)

    def mark_finished(self, record: Mapping[str, object]) -> None:
        """Mark the job as finished."""
        self._owner.verify()
        self._objects.put(names.FINISHED, encode_checksummed(record))

    def read_finished(self) -> Mapping[str, object] | None:
        """Return what the finished mark says; None if there is no mark."""
        place = self._get_address(names.FINISHED)
        return _decode_document(
            place,
            self._objects.read(names.FINISHED),
            dict,
            "remove it: the job starts from scratch",
        )

    def clear_finished(self) -> None:
        """Remove the finished mark."""
        self._objects.remove([names.FINISHED])

    @property
    def notes(self) -> RemoteNotes:
        """Notes that sources and sinks must not lose, whatever happens to the job's checkpoints."""
        return RemoteNotes(self._objects, self._owner)

    def write_completion_record(self, document: Document) -> None:
        """Replace the completion record, unless another run has taken over.

        Its version is seen before the ownership is verified. So the record of a run that takes over
        later is never replaced by this one.
        """
        name = f"{self._job}/{names.COMPLETION_RECORD}"
        data = encode_checksummed({**document, "owner": self._owner.token})
        for _ in range(MAX_ATTEMPTS):
            found = self._objects.read(name)
            self._owner.verify()
            try:
                if found is None:
                    self._objects.create(name, data)
                elif found.data != data:
                    self._objects.replace(name, data, found.version)
            except PreconditionFailed:
                continue
            self._mark_recorded()
            return
        raise self._build_contention_error(name)

    def read_completion_record(self) -> Document | None:
        """Return the completion record; None if the job never had one."""
        name = f"{self._job}/{names.COMPLETION_RECORD}"
        place = self._get_address(name)
        document = _decode_document(place, self._objects.read(name), CompletionRecordDocument, "")
        if document is None and has_record(self._read_job()[1]):
            raise DamagedSnapshot(f"{place} is missing", file=place)
        return document

    def write_commit_record(self, number: int) -> None:
        """Record that all output of a checkpoint is committed."""
        self._owner.check_known_loss()
        self._objects.put(
            f"{self._job}/{names.COMMIT_RECORD}", encode_checksummed({"checkpoint": number})
        )

    def read_commit_record(self) -> int | None:
        """Return the checkpoint of the commit record; None if it is missing or cannot be read."""
        try:
            found = self._objects.read(f"{self._job}/{names.COMMIT_RECORD}")
            document = _decode_document("", found, CommitRecordDocument, "")
            return None if document is None else int(str(document["checkpoint"]))
        except SnapshotError:
            return None

    def close(self) -> bool:
        """Stop uploading; returns whether the outcome of every manifest is known."""
        return all([store.close() for store in self._stores])

    def _read_job(self) -> tuple[StoredObject | None, dict[str, object] | None]:
        found = self._objects.read(names.JOB)
        place = self._get_address(names.JOB)
        return found, _decode_document(place, found, JobDocument, _MISSING_JOB_HINT)

    def _mark_recorded(self) -> None:
        """Make the job document say that there is a completion record."""
        for _ in range(MAX_ATTEMPTS):
            if self._has_record:
                return
            found, document = self._read_job()
            self._has_record = (
                document is None
                or has_record(document)
                or self._publish_job(found, {**document, **RECORDED})
            )

    def _open_store(self, job: str) -> RemoteSnapshotStore:
        store = RemoteSnapshotStore(self._objects, job, self._disk, self._owner, self._format_now)
        self._stores.append(store)
        store.prepare()
        return store

    def _publish_job(self, found: StoredObject | None, document: Mapping[str, object]) -> bool:
        """Write the job document, unless another process wrote it since it was read."""
        data = encode_checksummed({**document, "owner": self._owner.token})
        try:
            if found is None:
                self._objects.create(names.JOB, data)
            else:
                self._objects.replace(names.JOB, data, found.version)
        except PreconditionFailed:
            there = self._objects.read(names.JOB)
            return there is not None and there.data == data
        return True

    def _find_job_id(self) -> str | None:
        """Return the job's id from the folders with manifests; None if there are none."""
        ours = (_OWN_NAME_PATTERN.fullmatch(name) for name in self._objects.list_objects())
        jobs = {found[1] for found in ours if found and found[2].startswith(names.MANIFESTS)}
        if len(jobs) > 1:
            place = self._get_address(names.JOB)
            raise DamagedSnapshot(f"{place} is missing, and there are {len(jobs)} jobs", FRESH_HINT)
        return next(iter(jobs), None)

    def _sweep(self, job: str) -> None:
        """Remove the objects of former jobs, manifests first."""
        names_ = [name for name in self._objects.list_objects() if _is_of_another(name, job)]
        for part in (f"/{names.MANIFESTS}/", "/"):
            self._objects.remove([name for name in names_ if part in name])

    def _get_address(self, name: str) -> str:
        return f"{self._objects.address}/{name}"

    def _build_contention_error(self, name: str = names.JOB) -> StoreError:
        return StoreError(
            f"cannot write {self._get_address(name)}: other processes keep writing it"
        )


_MISSING_JOB_HINT = "remove it: the job's checkpoints have its id as well"


@contextmanager
def own_checkpoints(
    objects: ObjectStorage,
    name: str,
    home: str,
    disk: Disk,
    now: Callable[[], str],
    *,
    take_over: bool = False,
) -> Iterator[RemoteCheckpointRepository]:
    """Own the checkpoints of the job of that name, as a run of that home, whose lock is held.

    Raises BucketHeld.
    """
    owner = BucketOwnership(
        objects, build_own_record(home, LockHolder(os.getpid(), socket.gethostname(), now()))
    )
    owner.acquire(take_over=take_over)
    repository = RemoteCheckpointRepository(objects, name, disk, owner, now)
    try:
        yield repository
    finally:
        if repository.close():
            # Without a release, a run of the same home can still resume at once.
            with suppress(SnapshotError):
                owner.release(now())


def _is_of_another(name: str, job: str) -> bool:
    found = _OWN_NAME_PATTERN.fullmatch(name)
    return found is not None and found[1] != job


def _decode_document(
    place: str, found: StoredObject | None, form: type, hint: str
) -> dict[str, object] | None:
    if found is None:
        return None
    try:
        return decode_document(place, found.data, form)
    except CorruptData as error:
        raise DamagedSnapshot(f"{place} is damaged: {error}", hint, file=place) from error


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
