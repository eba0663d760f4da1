"""Notes of sources and sinks, in the bucket with the job's checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.state import Document
from headrace.state.storage import names
from headrace.state.storage.notes import build_note_damage_error
from headrace.state.storage.remote.objects import ObjectStorage
from headrace.state.storage.remote.owning import BucketOwnership
from headrace.state.storage.sealing import CorruptData, decode_checksummed, encode_checksummed


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
