"""Savepoints that exist: their contents, and their import as a checkpoint of a home.

Opening a savepoint verifies all that can be verified without reading rows. An import stores each
step's state as the memory backend does, and every backend can resume from that. The checkpoint
exists once its manifest does, so a process killed before has changed nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.core.api.snapshots import Manifest, RefusedSnapshot, SnapshotError, SnapshotStore
from headrace.core.api.state import Document
from headrace.core.api.stored_documents import MalformedDocument, convert_document
from headrace.core.checkpoint.manifest_document import check_manifest
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.memory.frame_blobs import FrameBlobs
from headrace.state.memory.step_snapshot import FrameStepSnapshot
from headrace.state.savepoints import names
from headrace.state.savepoints.document import (
    FORMAT,
    SAVEPOINT_KIND,
    FileDocument,
    SavepointDocument,
    StepStateDocument,
)
from headrace.state.savepoints.savepoint_rows import SavepointState, build_damage_error
from headrace.state.storage.checksummed_json import CorruptData, decode_checksummed
from headrace.state.storage.disk import Disk
from headrace.state.storage.disk_errors import translate_os_errors
from headrace.state.storage.remote.bucket_disk import open_disk


class NoSuchSnapshot(SnapshotError):
    """There is no snapshot where the user names one."""

    exit_status = 2


@dataclass(frozen=True, slots=True)
class Savepoint:
    """Contents of a savepoint's folder. File sizes were verified; hashes are verified by reads."""

    disk: Disk
    folder: str
    document: Manifest
    """Contents of `savepoint.json`: as in core/checkpoint/manifest, except for the states."""
    step_documents: Mapping[str, Sequence[Sequence[StepStateDocument]]]
    """State documents of each step, by subtask."""

    @property
    def title(self) -> str:
        """Title for messages."""
        return f"savepoint {self.folder}"

    @property
    def path(self) -> str:
        """Path of the document."""
        return names.get_document_path(self.folder)

    @property
    def job(self) -> str:
        """Id of the job of which the savepoint was taken."""
        return str(self.document["job"])

    @property
    def number(self) -> int:
        """Number of the checkpoint from which the savepoint was made."""
        return int(str(self.document["number"]))

    @property
    def steps(self) -> tuple[str, ...]:
        """Steps that have state."""
        return tuple(self.step_documents)

    def thaw_step(self, step: str) -> tuple[FrameStepSnapshot, ...]:
        """Return the state of a step."""
        every = (part for subtask in self.step_documents[step] for part in subtask)
        return tuple(self.open_state(part) for part in every)

    def open_state(self, part: StepStateDocument) -> FrameStepSnapshot:
        """Return the readable state of a document."""
        return FrameStepSnapshot(*part.snapshot_fields, self._open_rows(part), FrameBlobs())

    def verify(self) -> None:
        """Read and verify all files. Raises DamagedSnapshot."""
        for part in _list_parts(self):
            for state in self._open_rows(part).values():
                state.verify()

    def _open_rows(self, part: StepStateDocument) -> dict[str, SavepointState]:
        return {
            name: SavepointState(self.disk, self.folder, state)
            for name, state in part.states.items()
        }


def open_savepoint(folder: str, disk: Disk | None = None) -> Savepoint:
    """Open the savepoint in a folder. Raises NoSuchSnapshot, RefusedSnapshot, DamagedSnapshot."""
    disk = disk or open_disk(folder)
    path = names.get_document_path(folder)
    with translate_os_errors(f"read {path}"):
        if disk.get_size(path) is None:
            raise _build_missing_error(folder, disk)
        data = disk.read(path)
    try:
        document = decode_checksummed(path, data, FORMAT)
        if document.get("kind") != SAVEPOINT_KIND:
            raise RefusedSnapshot(f"{path}: wanted a {SAVEPOINT_KIND}, got {document.get('kind')}")
        check_manifest(document)
        content = convert_document(document, SavepointDocument)
    except (CorruptData, MalformedDocument) as error:
        raise build_damage_error(path, str(error)) from error
    savepoint = Savepoint(disk, folder, document, content.states)
    _check_sizes(savepoint)
    return savepoint


def is_savepoint(folder: str, disk: Disk | None = None) -> bool:
    """Whether a folder looks like a savepoint."""
    return (disk or open_disk(folder)).get_size(names.get_document_path(folder)) is not None


def _build_missing_error(folder: str, disk: Disk) -> SnapshotError:
    if disk.get_size(folder) is not None and not os.path.isdir(folder):
        above = os.path.dirname(folder) or os.curdir
        hint = f"it is in the savepoint {above}" if is_savepoint(above, disk) else ""
        return NoSuchSnapshot(f"{folder}: wanted the folder of a savepoint, got a file", hint)
    if not disk.list_names(folder) and not os.path.isdir(folder):
        hint = "--from-savepoint takes the folder or URL of a savepoint"
        return NoSuchSnapshot(f"there is no savepoint {folder}", hint)
    if names.is_unfinished(os.path.basename(os.path.normpath(folder))):
        hint = "the process that wrote it was killed: it may be removed"
        return RefusedSnapshot(f"{folder} is a savepoint that was not finished", hint)
    hint = f"a savepoint is the folder that contains {names.MANIFEST}"
    return RefusedSnapshot(f"{folder} is no savepoint: it has no {names.MANIFEST}", hint)


def _check_sizes(savepoint: Savepoint) -> None:
    for file in _list_files(savepoint):
        path = os.path.join(savepoint.folder, file.file)
        if not names.is_inside(file.file):
            raise RefusedSnapshot(f"{names.get_document_path(savepoint.folder)} names {file.file}")
        with translate_os_errors(f"read {path}"):
            got = savepoint.disk.get_size(path)
        if got is None:
            raise build_damage_error(path, "it is missing")
        if got != file.bytes:
            raise build_damage_error(path, f"wanted {file.bytes} bytes, got {got}")


def _list_files(savepoint: Savepoint) -> Iterator[FileDocument]:
    for part in _list_parts(savepoint):
        for state in part.states.values():
            yield from state.files


def _list_parts(savepoint: Savepoint) -> Iterator[StepStateDocument]:
    for subtasks in savepoint.step_documents.values():
        for subtask in subtasks:
            yield from subtask


SAVEPOINT_ONLY_KEYS = ("checksum", "kind", "taken", "taken_by")
"""Keys of a savepoint's document that a checkpoint's manifest does not have."""


def commit_as_checkpoint(savepoint: Savepoint, store: SnapshotStore, number: int) -> Manifest:
    """Commit the savepoint as that checkpoint of a store, after verifying all of it. Raises
    SnapshotError.
    """
    states: dict[str, list[list[Document]]] = {
        step: [
            [savepoint.open_state(part).persist(store) for part in subtask] for subtask in subtasks
        ]
        for step, subtasks in savepoint.step_documents.items()
    }
    checkpoint: dict[str, Any] = {
        name: value for name, value in savepoint.document.items() if name not in SAVEPOINT_ONLY_KEYS
    }
    origin = {"job": savepoint.job, "number": savepoint.number}
    document = {**checkpoint, SAVEPOINT_KIND: origin, "states": states}
    store.commit(number, document)
    return document
