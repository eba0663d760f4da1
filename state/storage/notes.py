"""Notes of sources and sinks in a home: durable at once, whatever happens to the job.

They belong to no checkpoint. A job started from scratch in the same home finds them: if a sink has
opened something elsewhere under the name of the former job, only the new job's sink can close it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from headrace.core.snapshots import DamagedSnapshot
from headrace.core.state import Document
from headrace.state.storage import names
from headrace.state.storage.disk import Disk, write_atomically
from headrace.state.storage.sealing import CorruptData, decode_checksummed, encode_checksummed
from headrace.state.storage.telling import translate_os_errors


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
