"""The manifests of a job: a checkpoint is there when its manifest is.

A manifest whose name was given, and whose folder could not be synced, may be gone after a crash, or
not. Then it is read back: if it cannot be seen, it was never named; if it can, it is written once
more, from the beginning, because a new rename is a new chance to be synced, and syncing again after
a failure is none. If that fails too, the outcome is unknown, and remains to be settled.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Mapping
from contextlib import suppress

from headrace.core.snapshots import (
    Blob,
    Manifest,
    RefusedSnapshot,
    UnknownOutcome,
    blobs_in,
)
from headrace.state.storage import names
from headrace.state.storage.disk import Disk, publish
from headrace.state.storage.sealing import Broken, seal, unseal
from headrace.state.storage.telling import telling, why


class Manifests:
    """A folder of manifests; one thread at a time."""

    def __init__(self, disk: Disk, folder: str, job: str) -> None:
        self._disk = disk
        self._folder = folder
        self._job = job
        self._unknown: tuple[int, bytes] | None = None
        self._named: dict[int, frozenset[Blob]] = {}

    def prepare(self) -> None:
        """Begin: what was left behind goes, and what is seen will be seen after a crash.

        The newest manifest may be one whose outcome is unknown, of a process that has ended since.
        """
        for name in self._disk.names(self._folder):
            if names.is_temporary(name):
                self._disk.remove(os.path.join(self._folder, name))
        for number in self.numbers()[-1:]:
            with suppress(Broken, RefusedSnapshot):
                self.read(number)
                self._publish(number, self._disk.read(self.path(number)))

    def numbers(self) -> list[int]:
        """Of which checkpoints there are some, rising."""
        found = (names.number(name) for name in self._disk.names(self._folder))
        return sorted(number for number in found if number is not None)

    def path(self, number: int) -> str:
        """Where a manifest is."""
        return names.manifest(self._folder, number)

    def read(self, number: int) -> dict[str, object]:
        """A manifest. Raises Broken, or RefusedSnapshot if it is not one of this job and format."""
        path = self.path(number)
        try:
            document = unseal(path, self._disk.read(path))
        except FileNotFoundError:
            raise Broken("it is gone") from None
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise Broken("the disk cannot read it") from error
        return owned(path, document, self._job, number)

    def named(self, number: int) -> frozenset[Blob]:
        """The blobs that a manifest names. Raises as `read` does."""
        if number not in self._named:
            self._named[number] = frozenset(blobs_in(self.read(number)))
        return self._named[number]

    def commit(self, number: int, manifest: Manifest, named: frozenset[Blob]) -> None:
        """Publish it; it names these blobs."""
        own: Mapping[str, object] = {"job": self._job, "number": number}
        document = {**own, **manifest, **own}
        self._unknown = (number, seal(document))
        try:
            self._publish(number, self._unknown[1])
        except OSError as error:
            self.settle(error)
        self._unknown = None
        self._named[number] = named

    def settle(self, cause: OSError | None = None) -> None:
        """Find out what became of a commit, if that is not known; raises if it is not there."""
        if self._unknown is None:
            return
        number, data = self._unknown
        try:
            is_seen = number in self.numbers()
            if is_seen:
                self._publish(number, data)
        except OSError as error:
            raise UnknownOutcome(
                f"cannot write the manifest of checkpoint {number}, nor tell whether it is there: "
                f"{why(error)}",
                "the disk may be failing: see dmesg",
            ) from error
        self._unknown = None
        if cause is not None and not is_seen:
            with telling(f"write the manifest of checkpoint {number}"):
                raise cause

    def remove(self, numbers: Collection[int]) -> None:
        """Remove them; afterwards no crash brings them back."""
        for number in numbers:
            self._disk.remove(self.path(number))
            self._named.pop(number, None)
        if numbers:
            self._disk.sync_folder(self._folder)

    def _publish(self, number: int, data: bytes) -> None:
        path = self.path(number)
        publish(self._disk, path, names.temporary(path), data)


def owned(path: str, document: dict[str, object], job: str, number: int) -> dict[str, object]:
    """The document of a manifest, if it is of this job and number. Raises RefusedSnapshot."""
    for name, wanted in (("job", job), ("number", number)):
        if document.get(name) != wanted:
            got = document.get(name)
            raise RefusedSnapshot(
                f"{path}: wanted {name} {wanted}, got {got}", "it was copied here from elsewhere"
            )
    return document
