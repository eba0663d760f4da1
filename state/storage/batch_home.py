"""Home of a batch run: inside the home of the job of that name, and independent of it.

    home of a batch = home of the job "/batch"

It is a home like any other: locked by the process that runs, with an id that data written elsewhere
carries, and with notes. Instead of checkpoints it has only the record of the output that all sinks
have prepared. Once that record exists the batch is decided and its output is committed, by a later
run if need be; before, prepared output is removed. The rounds of loops that were stored before that
are in a folder of their own, and another record says which ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from headrace.core.api.run_context import JobNotes
from headrace.core.api.snapshots import DamagedSnapshot
from headrace.core.api.state import Document
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage import names
from headrace.state.storage.checksummed_json import (
    CorruptData,
    decode_document,
    encode_checksummed,
)
from headrace.state.storage.disk import Disk, write_atomically
from headrace.state.storage.disk_errors import translate_os_errors
from headrace.state.storage.documents import BatchOutputDocument, StoredRoundsDocument
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk

Report: TypeAlias = Callable[[str], None]

FRESH_HINT = "--fresh starts from scratch, and discards output that was not committed"


@dataclass(slots=True)
class BatchHome:
    """`core.spark.committing.BatchCommitLog` on a disk, in a locked home."""

    home: Home
    started_at: str
    _job: str = ""

    @property
    def job(self) -> str:
        """Id of the batch; `forget` gives the next batch another one."""
        self._job = self._job or self.home.ensure_job_id(self.started_at)
        return self._job

    @property
    def notes(self) -> JobNotes:
        """Notes that sources and sinks must not lose."""
        return self.home.notes

    def record(self, document: Document) -> None:
        """Decide the batch: all of this output must be committed."""
        self._write(self.record_path, document)

    def read_record(self) -> Document | None:
        """Return the record of a batch that is decided and not finished."""
        return self._read(self.record_path, BatchOutputDocument)

    def revoke(self) -> None:
        """Remove the record: nothing of it was committed."""
        self._remove(self.record_path)

    def finish(self) -> None:
        """Mark that all output is committed."""
        self.home.mark_finished({"time": self.started_at})

    def is_finished(self) -> bool:
        """Whether all output was marked as committed."""
        return self.home.read_finished() is not None

    def forget(self) -> None:
        """Remove the record and the id atomically: the next batch is another one."""
        self.home.delete_job()
        self._job = ""

    def clear_finished(self) -> None:
        """Remove the mark: the end of the batch was reported."""
        self.home.clear_finished()

    @property
    def record_path(self) -> str:
        """File of the record."""
        return os.path.join(self.home.checkpoint_folder, names.OUTPUT)

    @property
    def rounds_folder(self) -> str:
        """Folder for the rounds of loops."""
        return os.path.abspath(os.path.join(self.home.checkpoint_folder, names.ROUNDS))

    def record_rounds(self, document: Document) -> None:
        """Record the rounds of loops that are stored."""
        self._write(self._rounds_path, document)

    def read_rounds(self) -> Document | None:
        """Return the record of the stored rounds."""
        return self._read(self._rounds_path, StoredRoundsDocument)

    def discard_rounds(self) -> None:
        """Remove the record of the stored rounds: loops begin with the first one."""
        self._remove(self._rounds_path)

    @property
    def _rounds_path(self) -> str:
        return os.path.join(self.home.checkpoint_folder, names.ROUNDS_RECORD)

    def _write(self, path: str, document: Document) -> None:
        with translate_os_errors(f"write {path}"):
            write_atomically(
                self.home.disk, path, names.get_temporary_path(path), encode_checksummed(document)
            )

    def _remove(self, path: str) -> None:
        with translate_os_errors(f"remove {path}"):
            self.home.disk.remove(path)
            self.home.disk.sync_folder(self.home.checkpoint_folder)

    def _read(self, path: str, form: type) -> Document | None:
        disk = self.home.disk
        with translate_os_errors(f"read {path}"):
            if disk.get_size(path) is None:
                return None
            try:
                return decode_document(path, disk.read(path), form)
            except CorruptData as error:
                message = f"{path} is damaged: {error}"
                raise DamagedSnapshot(message, FRESH_HINT, file=path) from error


@contextmanager
def hold_batch_home(
    root: str, name: str, since: str, disk: Disk | None = None, report: Report = lambda line: None
) -> Iterator[BatchHome]:
    """Lock the home of the batch of that name, whose files only its owner may access.

    `report` gets a line if others had access. Raises HomeLocked, SnapshotError.
    """
    home = Home(disk or LocalDisk(), names.get_home_folder(root, name), names.BATCH_FOLDER)
    with home.hold(since):
        if line := home.disk.restrict_access(home.root):
            report(line)
        yield BatchHome(home, since)
