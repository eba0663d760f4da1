"""The contract of a snapshot store: where what checkpoints need is kept, whole or not at all.

A store holds two kinds of things. A *blob* is bytes, named by their hash, and never changes. A
*manifest* is a document that says what a checkpoint is made of, and names blobs; a checkpoint is
there when its manifest is, and not before. Blobs are put by several threads, each for a subtask;
manifests are committed by one, the coordinator's. Nothing here is asynchronous: it waits for disks,
and so it is called on the bench.

Any document inside of a manifest names a blob by `Blob.document`, at whatever depth: so the store
finds all that a manifest needs by itself, and nobody can forget to list one.

    put, put_file          what is put is safe when a `commit` that names it has returned
    has                    asked before a blob of an earlier checkpoint is named again: what was put
                           for one that failed may be gone
    commit                 returned: the checkpoint is there, for ever. StoreError: it is not.
                           UnknownOutcome: nobody can tell, and nothing may be decided
    collect                after each checkpoint, also a failed one: keeps the blobs of the kept
                           manifests, and those put or asked for since the collect before
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

Manifest: TypeAlias = "Mapping[str, object]"
"""What a checkpoint is made of: plain data, as JSON has it."""

_HASH = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, order=True)
class Blob:
    """Bytes in a store: the first 32 digits of their SHA-256, and how many they are."""

    hash: str
    bytes: int

    def document(self) -> dict[str, object]:
        """How a document names it.

        >>> Blob("0123456789abcdef0123456789abcdef", 5).document()
        {'blob': '0123456789abcdef0123456789abcdef', 'bytes': 5}
        """
        return {"blob": self.hash, "bytes": self.bytes}

    @classmethod
    def of(cls, document: object) -> Blob:
        """The blob that a document names; DamagedSnapshot if it names none."""
        for blob in _named_by(document):
            return blob
        raise DamagedSnapshot(f"wanted a blob's hash and size, got {str(document)[:80]!r}")


def blobs_in(document: object) -> Iterator[Blob]:
    """All blobs that a document names, at any depth, perhaps some of them twice."""
    found = list(_named_by(document))
    inside: Collection[object] = ()
    if isinstance(document, Mapping):
        inside = document.values()
    elif isinstance(document, list | tuple):
        inside = document
    for item in () if found else inside:
        found.extend(blobs_in(item))
    yield from found


def _named_by(document: object) -> Iterator[Blob]:
    match document:
        case {"blob": str(hash), "bytes": int(bytes), **rest} if not rest and _HASH.fullmatch(hash):
            yield Blob(hash, bytes)


class SnapshotStore(Protocol):
    """The checkpoints of one job. Raises nothing but SnapshotError."""

    @property
    def bytes_written(self) -> int:
        """How many bytes of new blobs were put since it was opened."""
        ...

    def put(self, data: bytes | memoryview) -> Blob:
        """Keep these bytes; what is there already, of that size, is not written again."""
        ...

    def put_file(self, path: str) -> Blob:
        """Keep a file's bytes. The file may go, but must never be changed in place: it is linked.

        All of it is read, for its hash: who knows the blob of a file asks `has` instead.
        """
        ...

    def has(self, blob: Blob) -> bool:
        """Whether a manifest may name this blob without putting it again."""
        ...

    def read(self, blob: Blob) -> bytes:
        """The bytes, verified. Raises DamagedSnapshot."""
        ...

    def fetch(self, blob: Blob, path: str, *, link: bool = False) -> None:
        """Make a new file of the bytes, verified; it is not synced. Raises DamagedSnapshot.

        `link`: where the disk can, it is the store's own file, which must not be changed in place.
        """
        ...

    def commit(self, number: int, manifest: Manifest) -> None:
        """Make a checkpoint: afterwards its manifest is there, and all blobs that it names.

        Raises StoreError if it is not there (the number is taken, a blob is missing, the disk is
        full), UnknownOutcome if that is not known.
        """
        ...

    def manifests(self) -> list[int]:
        """The numbers of the checkpoints that are there, rising. Settles an unknown outcome."""
        ...

    def manifest(self, number: int) -> Manifest:
        """A checkpoint's manifest, verified. Raises DamagedSnapshot."""
        ...

    def discard(self, number: int) -> None:
        """Remove a manifest: afterwards the checkpoint is gone. One that is gone is no mistake."""
        ...

    def collect(self, keep: Collection[int]) -> None:
        """Remove all other manifests, then the blobs that nobody needs."""
        ...


class SnapshotError(Exception):
    """What was wanted and what came, and what to do."""

    exit_status = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class StoreError(SnapshotError):
    """The store could not do it, and has not: a checkpoint fails, and the job goes on."""


class UnknownOutcome(SnapshotError):
    """A manifest may be there after a crash or may not. Until the store has settled it (any later
    call of `manifests` or `commit` tries), nothing may be committed, aborted or taken back."""


class RefusedSnapshot(SnapshotError):
    """What is kept cannot be used as it is; it was not touched."""

    exit_status = 3


class DamagedSnapshot(RefusedSnapshot):
    """A file is not what was written: which, of which checkpoints, and where else to start from."""

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        file: str = "",
        checkpoints: tuple[int, ...] = (),
        whole: int | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.file = file
        self.checkpoints = checkpoints
        self.whole = whole
        """The newest checkpoint that can be started from instead."""
