"""Home of a job: the folder of everything that the job stores from one run to the next.

A job is identified by its id, created at the first start and stored with its checkpoints. Data that
the job writes elsewhere carries that id, so the id is durable before it is used. If `job.json` is
lost, the manifests still have the id. It also says whether the job has a completion record, so that
a lost record is noticed. A job started from scratch is another job, with another id.

At the end of a bounded job `mark_finished` writes a mark, `delete_job` removes the checkpoints, and
`clear_finished` removes the mark once the end was reported. A start that finds the mark only
completes these steps.

The notes of sources and sinks (`HomeNotes`) belong to no checkpoint. A job started from scratch in
the same home finds them: if a sink has opened something elsewhere under the name of the former job,
only the new job's sink can close it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from headrace.core.api.snapshots import DamagedSnapshot, RefusedSnapshot, SnapshotError
from headrace.core.api.state import Document
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage import names
from headrace.state.storage.checksummed_json import (
    CorruptData,
    decode_checksummed,
    decode_document,
    encode_checksummed,
)
from headrace.state.storage.disk import Disk, write_atomically
from headrace.state.storage.disk_errors import translate_os_errors
from headrace.state.storage.documents import (
    CommitRecordDocument,
    CompletionRecordDocument,
    JobDocument,
)
from headrace.state.storage.home_lock import LockHolder, find_holder, hold_lock
from headrace.state.storage.local_store import LocalSnapshotStore
from headrace.state.storage.manifests import LocalManifests
from headrace.state.storage.regular_files import IrregularFile
from headrace.state.storage.store import FRESH_HINT


@dataclass(frozen=True, slots=True)
class HomeNotes:
    """`Notes` in a folder of a locked home."""

    disk: Disk
    folder: str

    def read(self, name: str) -> Document | None:
        """Return the document that was last written."""
        path = os.path.join(self.folder, names.build_note_name(name))
        with translate_os_errors(f"read {path}"):
            if self.disk.get_size(path) is None:
                return None
            try:
                return decode_checksummed(path, self.disk.read(path))
            except CorruptData as error:
                raise build_note_damage_error(path, error) from error

    def write(self, name: str, document: Document) -> None:
        """Write the document durably."""
        path = os.path.join(self.folder, names.build_note_name(name))
        with translate_os_errors(f"write {path}"):
            self.disk.make_folder(self.folder)
            self.disk.sync_folder(os.path.dirname(self.folder))
            write_atomically(
                self.disk, path, names.get_temporary_path(path), encode_checksummed(document)
            )


def build_note_damage_error(path: str, error: CorruptData) -> DamagedSnapshot:
    """Build the error for a note that cannot be read."""
    hint = "remove it: what a sink left open elsewhere then ends by its time-out"
    return DamagedSnapshot(f"{path} is damaged: {error}", hint, file=path)


RECORDED = {"recorded": True}
"""The member of `job.json` that says that the job has a completion record."""


def has_record(job: Mapping[str, object] | None) -> bool:
    """Whether a job has a completion record, by its `job.json`."""
    return job is not None and RECORDED.items() <= job.items()


@dataclass(frozen=True, slots=True)
class Home:
    """Home of the job of that name. A process that changes anything in it holds its lock."""

    disk: Disk
    root: str
    name: str

    @property
    def folder(self) -> str:
        """Folder of the home."""
        return names.get_home_folder(self.root, self.name)

    @property
    def state_folder(self) -> str:
        """Folder of live state while the job runs; removed at each start."""
        return os.path.join(self.folder, names.STATE)

    @property
    def checkpoint_folder(self) -> str:
        """Folder of the checkpoints."""
        return os.path.join(self.folder, names.CHECKPOINTS)

    @contextmanager
    def hold(self, since: str) -> Iterator[LockHolder | None]:
        """Lock the home and remove what a killed run left unfinished; yields the holder that was
        killed.

        Raises HomeLocked; RefusedSnapshot if a user's savepoint would be removed.
        """
        with translate_os_errors(f"make {self.folder}"):
            self.disk.make_folder(self.folder)
        with hold_lock(self.disk, os.path.join(self.folder, names.LOCK), since) as killed:
            with translate_os_errors(f"write into {self.folder}"):
                self._refuse_links()
                self._refuse_savepoints()
                self._prepare()
                self.clear_immediate_stop()
            yield killed

    def find_holder(self) -> tuple[bool, LockHolder | None]:
        """Return whether a process holds the lock, and the present or last holder."""
        return find_holder(self.disk, os.path.join(self.folder, names.LOCK))

    def mark_immediate_stop(self) -> None:
        """Mark that the run is to end at once: whoever watches its process does not restart it."""
        self.disk.write(os.path.join(self.folder, names.STOPPED), ())

    def was_stopped_at_once(self) -> bool:
        """Return whether the last run was to end at once."""
        return self.disk.get_size(os.path.join(self.folder, names.STOPPED)) is not None

    def clear_immediate_stop(self) -> None:
        """Remove the mark, before the next run."""
        self.disk.remove(os.path.join(self.folder, names.STOPPED))

    def ensure_job_id(self, since: str, new: Callable[[], str] = lambda: uuid.uuid4().hex) -> str:
        """Return the job's id, created if there is none yet.

        The file is written again at each start: the run that created it may have failed to sync it.
        """
        with translate_os_errors(f"write {self._job_path}"):
            document = self._read_job()
            if document is None:
                document = {"job": self._find_job_id() or new(), "name": self.name, "since": since}
            self._write_document(self._job_path, document)
        return str(document["job"])

    def open_store(self, job: str) -> LocalSnapshotStore:
        """Open the job's checkpoints for writing."""
        store = LocalSnapshotStore(self.disk, self.checkpoint_folder, job)
        store.prepare()
        return store

    def open_read_only(self) -> LocalSnapshotStore | None:
        """Open the job's checkpoints for reading, without the lock; None if there is no job."""
        path = os.path.join(self.checkpoint_folder, names.JOB)
        with translate_os_errors(f"read {path}"):
            document = self._read_document(
                path, JobDocument, "remove it: the next run writes it again"
            )
            job = self._find_job_id() if document is None else document["job"]
        return (
            None if job is None else LocalSnapshotStore(self.disk, self.checkpoint_folder, str(job))
        )

    def delete_job(self) -> None:
        """Delete the job and its checkpoints, atomically even if the process is killed."""
        with translate_os_errors(f"remove {self.checkpoint_folder}"):
            if self.disk.list_names(self.checkpoint_folder):
                self.disk.rename(self.checkpoint_folder, self._discarded_folder)
                self.disk.sync_folder(self.folder)
            self._prepare()

    @contextmanager
    def replace_job(
        self, since: str, new: Callable[[], str] = lambda: uuid.uuid4().hex
    ) -> Iterator[LocalSnapshotStore]:
        """Replace the job by another one, which has the checkpoints written in the block.

        The replacement is atomic and happens when the block ends, even if the process is killed; if
        an exception leaves the block, nothing has changed.
        """
        renewed = os.path.join(self.folder, names.RENEWED)
        with translate_os_errors(f"write {renewed}"):
            self.disk.remove_folder(renewed)
            self.disk.make_folder(renewed)
            job = new()
            document = {"job": job, "name": self.name, "since": since, **RECORDED}
            self._write_document(os.path.join(renewed, names.JOB), document)
        store = LocalSnapshotStore(self.disk, renewed, job)
        try:
            store.prepare()
            yield store
        except SnapshotError:
            with suppress(OSError):
                self.disk.remove_folder(renewed)
                self.disk.sync_folder(self.folder)
            raise
        with translate_os_errors(f"write {self.checkpoint_folder}"):
            newest = max(store.list_checkpoints(), default=0)
            path = os.path.join(renewed, names.COMPLETION_RECORD)
            self._write_document(path, {"checkpoint": newest})
            self.disk.sync_folder(self.folder)
            self.disk.rename(self.checkpoint_folder, self._discarded_folder)
            self.disk.sync_folder(self.folder)
            self._prepare()
        self.clear_finished()

    def mark_finished(self, record: Mapping[str, object]) -> None:
        """Mark the job as finished; `record` is reported of it."""
        with translate_os_errors(f"write {self._finished_path}"):
            self._write_document(self._finished_path, record)

    def read_finished(self) -> Mapping[str, object] | None:
        """Return what the finished mark says; None if there is no mark."""
        with translate_os_errors(f"read {self._finished_path}"):
            return self._read_document(
                self._finished_path, dict, "remove it, and the job starts from scratch"
            )

    def clear_finished(self) -> None:
        """Remove the finished mark."""
        with translate_os_errors(f"remove {self._finished_path}"):
            self.disk.remove(self._finished_path)
            self.disk.sync_folder(self.folder)

    @property
    def notes(self) -> HomeNotes:
        """Notes that sources and sinks must not lose, whatever happens to the job's checkpoints."""
        return HomeNotes(self.disk, os.path.join(self.folder, names.NOTES))

    def write_completion_record(self, document: Document) -> None:
        """Replace the completion record durably; then `job.json` says that there is one."""
        path = os.path.join(self.checkpoint_folder, names.COMPLETION_RECORD)
        with translate_os_errors(f"write {path}"):
            self._write_document(path, document)
            job = self._read_job()
            if job is not None and not has_record(job):
                self._write_document(self._job_path, {**job, **RECORDED})

    def read_completion_record(self) -> Document | None:
        """Return the completion record; None if the job never had one."""
        path = os.path.join(self.checkpoint_folder, names.COMPLETION_RECORD)
        with translate_os_errors(f"read {path}"):
            document = self._read_document(path, CompletionRecordDocument, "")
            if document is None and has_record(self._read_job()):
                raise DamagedSnapshot(f"{path} is missing", file=path)
            return document

    def write_commit_record(self, number: int) -> None:
        """Record durably that all output of a checkpoint is committed."""
        path = os.path.join(self.checkpoint_folder, names.COMMIT_RECORD)
        with translate_os_errors(f"write {path}"):
            self._write_document(path, {"checkpoint": number})

    def read_commit_record(self) -> int | None:
        """Return the checkpoint of the commit record; None if it is missing or cannot be read."""
        path = os.path.join(self.checkpoint_folder, names.COMMIT_RECORD)
        try:
            document = self._read_document(path, CommitRecordDocument, "")
            return None if document is None else int(str(document["checkpoint"]))
        except IrregularFile:
            with translate_os_errors(f"read {path}"):
                raise
        except (OSError, DamagedSnapshot):
            return None

    @property
    def _finished_path(self) -> str:
        return os.path.join(self.folder, names.FINISHED)

    @property
    def _discarded_folder(self) -> str:
        return os.path.join(self.folder, names.DISCARDED)

    @property
    def _job_path(self) -> str:
        return os.path.join(self.checkpoint_folder, names.JOB)

    def _read_job(self) -> dict[str, object] | None:
        return self._read_document(
            self._job_path, JobDocument, "remove it: the job's checkpoints have its id as well"
        )

    def _refuse_links(self) -> None:
        """Raise RefusedSnapshot if a folder in the home is a link: the job would write elsewhere.

        The home itself may be one, and so may the folder of all homes.
        """
        checkpoints = self.checkpoint_folder
        below = names.get_blob_folder(checkpoints), names.get_manifest_folder(checkpoints)
        own = (os.path.join(self.folder, name) for name in (*names.REMOVED_FOLDERS, names.NOTES))
        for path in (*own, *below):
            if self.disk.is_link(path):
                hint = "move it away, or what it points to here; only a home as a whole may be one"
                raise RefusedSnapshot(f"{path} is a link, wanted a folder", hint)

    def _refuse_savepoints(self) -> None:
        """Raise RefusedSnapshot if a savepoint is in a folder that is removed, now or later.

        Earlier versions accepted one there, and had the savepoints of all jobs in `savepoints`,
        which is also the home of a job of that name.
        """
        for name in names.REMOVED_FOLDERS:
            folder = os.path.join(self.folder, name)
            for each in (folder, *(os.path.join(folder, n) for n in self.disk.list_names(folder))):
                if self.disk.get_size(os.path.join(each, names.SAVEPOINT)) is not None:
                    where = f"move it away: mv {each} {os.path.dirname(self.root) or '.'}/"
                    hint = f"{where}; --from-savepoint finds it anywhere"
                    message = f"{each} is a savepoint, and this run would remove it"
                    raise RefusedSnapshot(message, hint)

    def _prepare(self) -> None:
        renewed = os.path.join(self.folder, names.RENEWED)
        there = self.disk.list_names(self.folder)
        if names.RENEWED in there and names.CHECKPOINTS not in there:
            # The killed run had already moved the old checkpoints away: the new ones are complete.
            self.disk.rename(renewed, self.checkpoint_folder)
            self.disk.sync_folder(self.folder)
        for folder in (self._discarded_folder, self.state_folder, renewed):
            self.disk.remove_folder(folder)
        self.disk.make_folder(self.checkpoint_folder)
        for folder in (self.folder, self.checkpoint_folder):
            for name in self.disk.list_names(folder):
                if names.is_temporary(name):
                    self.disk.remove(os.path.join(folder, name))
        # A killed run may have created any of these folders without syncing its parent.
        for folder in (os.path.dirname(self.root), self.root, self.folder, self.checkpoint_folder):
            self.disk.sync_folder(folder or ".")

    def _find_job_id(self) -> str | None:
        """Return the job's id from the newest readable manifest; None if there is no manifest."""
        manifests = LocalManifests(self.disk, names.get_manifest_folder(self.checkpoint_folder), "")
        numbers = manifests.list_numbers()
        for number in reversed(numbers):
            try:
                path = manifests.get_path(number)
                document = decode_document(path, self.disk.read(path), JobDocument)
                return str(document["job"])
            except (CorruptData, SnapshotError):
                continue
        if numbers:
            path = manifests.get_path(numbers[-1])
            raise DamagedSnapshot(f"{path} is damaged, and no other has the job's id", FRESH_HINT)
        return None

    def _read_document(self, path: str, form: type, hint: str) -> dict[str, object] | None:
        if self.disk.get_size(path) is None:
            return None
        try:
            return decode_document(path, self.disk.read(path), form)
        except CorruptData as error:
            raise DamagedSnapshot(f"{path} is damaged: {error}", hint, file=path) from error

    def _write_document(self, path: str, document: Mapping[str, object]) -> None:
        write_atomically(
            self.disk, path, names.get_temporary_path(path), encode_checksummed(document)
        )
