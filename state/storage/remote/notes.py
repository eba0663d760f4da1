"""Notes of sources and sinks, in the bucket with the job's checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.state import Document
from headrace.state.storage import names
from headrace.state.storage.notes import damaged
from headrace.state.storage.remote.objects import Objects
from headrace.state.storage.remote.owning import Owning
from headrace.state.storage.sealing import Broken, seal, unseal


@dataclass(frozen=True, slots=True)
class RemoteNotes:
    """`Notes` of the run that owns the bucket."""

    objects: Objects
    owner: Owning

    def read(self, name: str) -> Document | None:
        """Return the document that was last written."""
        path = f"{names.NOTES}/{names.note(name)}"
        found = self.objects.read(path)
        if found is None:
            return None
        try:
            return unseal(path, found.data)
        except Broken as error:
            raise damaged(f"{self.objects.address}/{path}", error) from error

    def write(self, name: str, document: Document) -> None:
        self.owner.check()
        self.objects.put(f"{names.NOTES}/{names.note(name)}", seal(document))
