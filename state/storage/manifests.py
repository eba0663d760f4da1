"""Manifests of a job in a folder: a checkpoint exists when its manifest does.

A manifest that was renamed, and whose folder could not be synced, may or may not survive a crash.
In that case it is read back: if it is not visible, it was never renamed; if it is, it is written
again under a temporary name, because a new rename can be synced and a repeated sync after a
failure proves nothing. If that fails too, the outcome is unknown and remains to be settled.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Mapping
from contextlib import suppress

from headrace.core.api.snapshots import Blob, Manifest, RefusedSnapshot, UnknownOutcome, find_blobs
from headrace.state.storage import names
from headrace.state.storage.checksummed_json import (
    CorruptData,
    decode_checksummed,
    encode_checksummed,
)
from headrace.state.storage.disk import Disk, write_atomically
from headrace.state.storage.disk_errors import describe_os_error, translate_os_errors
from headrace.state.storage.manifest_check import check_checkpoint


class LocalManifests:
    """Folder of manifests; for one thread at a time."""

    def __init__(self, disk: Disk, folder: str, job: str) -> None:
        self._disk = disk
        self._folder = folder
        self._job = job
        self._unsettled: tuple[int, bytes] | None = None
        self._blobs_by_number: dict[int, frozenset[Blob]] = {}

    def prepare(self) -> None:
        """Start writing: remove leftovers, and make the visible manifests durable.

        The newest manifest may be one whose outcome is unknown, of a process that has ended since.
        """
        for name in self._disk.list_names(self._folder):
            if names.is_temporary(name):
                self._disk.remove(os.path.join(self._folder, name))
        for number in self.list_numbers()[-1:]:
            with suppress(CorruptData, RefusedSnapshot):
                self.read(number)
                self._publish(number, self._disk.read(self.get_path(number)))

    def list_numbers(self) -> list[int]:
        """Return the numbers of the checkpoints with manifests, ascending."""
        found = (names.parse_number(name) for name in self._disk.list_names(self._folder))
        return sorted(number for number in found if number is not None)

    def get_path(self, number: int) -> str:
        return names.get_manifest_path(self._folder, number)

    def read(self, number: int) -> dict[str, object]:
        """Return a manifest. Raises CorruptData, or RefusedSnapshot for another job or format."""
        path = self.get_path(number)
        try:
            document = decode_checksummed(path, self._disk.read(path))
        except FileNotFoundError:
            raise CorruptData("it is missing") from None
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise CorruptData("the disk cannot read it") from error
        return check_owner(path, document, self._job, number)

    def list_blobs(self, number: int) -> frozenset[Blob]:
        """Return the blobs that a manifest names. Raises as `read` does."""
        if number not in self._blobs_by_number:
            self._blobs_by_number[number] = frozenset(find_blobs(self.read(number)))
        return self._blobs_by_number[number]

    def commit(self, number: int, manifest: Manifest, named: frozenset[Blob]) -> None:
        """Publish a manifest that names these blobs."""
        own: Mapping[str, object] = {"job": self._job, "number": number}
        document = {**own, **manifest, **own}
        self._unsettled = (number, encode_checksummed(document))
        try:
            self._publish(number, self._unsettled[1])
        except OSError as error:
            self.settle(error)
        self._unsettled = None
        self._blobs_by_number[number] = named

    def settle(self, cause: OSError | None = None) -> None:
        """Find out the outcome of a commit, if it is unknown; raises if the manifest does not
        exist.
        """
        if self._unsettled is None:
            return
        number, data = self._unsettled
        try:
            is_seen = number in self.list_numbers()
            if is_seen:
                self._publish(number, data)
        except OSError as error:
            raise UnknownOutcome(
                f"cannot write the manifest of checkpoint {number}, nor find out whether it is "
                f"there: {describe_os_error(error)}",
                "the disk may be failing: see dmesg",
            ) from error
        self._unsettled = None
        if cause is not None and not is_seen:
            with translate_os_errors(f"write the manifest of checkpoint {number}"):
                raise cause

    def remove(self, numbers: Collection[int]) -> None:
        """Remove manifests; no crash afterwards brings them back."""
        for number in numbers:
            self._disk.remove(self.get_path(number))
            self._blobs_by_number.pop(number, None)
        if numbers:
            self._disk.sync_folder(self._folder)

    def _publish(self, number: int, data: bytes) -> None:
        path = self.get_path(number)
        write_atomically(self._disk, path, names.get_temporary_path(path), data)


def check_owner(path: str, document: dict[str, object], job: str, number: int) -> dict[str, object]:
    """Return the manifest, checked to be of this job and number, and to have the form of one.

    Raises RefusedSnapshot, CorruptData.
    """
    for name, wanted in (("job", job), ("number", number)):
        got = document.get(name)
        if type(got) is not type(wanted):
            raise CorruptData(f"wanted {name} {wanted}, got {'none' if got is None else got}")
        if got != wanted:
            raise RefusedSnapshot(
                f"{path}: wanted {name} {wanted}, got {got}", "it was copied here from elsewhere"
            )
    check_checkpoint(document)
    return document
