"""What sources and sinks note of a job in its home: safe at once, whatever becomes of the job.

It is no part of a checkpoint. A job that is begun anew in the same home finds it: a sink that has
opened something elsewhere under the name of the job before is the only one who can close it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from headrace.core.snapshots import DamagedSnapshot
from headrace.core.state import Document
from headrace.state.storage import names
from headrace.state.storage.disk import Disk, publish
from headrace.state.storage.sealing import Broken, seal, unseal
from headrace.state.storage.telling import telling


@dataclass(frozen=True, slots=True)
class HomeNotes:
    """`Notes` in a folder of a home that is held."""

    disk: Disk
    folder: str

    def read(self, name: str) -> Document | None:
        """What was written last."""
        path = os.path.join(self.folder, names.note(name))
        with telling(f"read {path}"):
            if self.disk.size(path) is None:
                return None
            try:
                return unseal(path, self.disk.read(path))
            except Broken as error:
                raise damaged(path, error) from error

    def write(self, name: str, document: Document) -> None:
        """Have it there, safe."""
        path = os.path.join(self.folder, names.note(name))
        with telling(f"write {path}"):
            self.disk.make_folder(self.folder)
            self.disk.sync_folder(os.path.dirname(self.folder))
            publish(self.disk, path, names.temporary(path), seal(document))


def damaged(path: str, error: Broken) -> DamagedSnapshot:
    """Nobody knows what the note said."""
    hint = "remove it: what was open elsewhere is then closed when its time is over"
    return DamagedSnapshot(f"{path} is damaged: {error}", hint, file=path)
