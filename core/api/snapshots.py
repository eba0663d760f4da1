"""The contract of a snapshot store, which stores the parts of checkpoints, whole or not at all.

A store holds two kinds of things. A *blob* is bytes, named by their hash, and never changes. A
*manifest* is a document that describes a checkpoint, and names blobs; a checkpoint exists when its
manifest does, and not before. Blobs are put by several threads, each for a subtask; manifests are
committed by one, the coordinator's. Nothing here is asynchronous: a store waits for disks, so it is
called on the KernelExecutor.

Any document inside of a manifest names a blob by `Blob.to_document`, at any depth. So the store
finds all blobs of a manifest by itself, and none can be forgotten in a list.

    put, put_file          a blob is durable when a `commit` that names it has returned
    has                    to be called before a blob of an earlier checkpoint is named again: one
                           that was put for a failed checkpoint may have been removed
    commit                 returns: the checkpoint exists, for ever. StoreError: it does not.
                           UnknownOutcome: it may exist, and nothing may be decided
    collect                called after each checkpoint, also a failed one: retains the blobs of the
                           retained manifests, and those put or asked for since the last collect
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Protocol, TypeAlias

from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

Manifest: TypeAlias = "Mapping[str, object]"
"""The description of a checkpoint: plain data, as JSON has it."""

_HASH = compile_pattern(r"[0-9a-f]{32}")
_SCALARS = frozenset((str, int, float, bool, type(None)))


def format_now() -> str:
    """Return the current time as manifests write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True, order=True)
class Blob:
    """Bytes in a store: the first 32 digits of their SHA-256, and their number."""

    hash: str
    bytes: int

    def to_document(self) -> dict[str, object]:
        """Return the reference to the blob for a document.

        >>> Blob("0123456789abcdef0123456789abcdef", 5).to_document()
        {'blob': '0123456789abcdef0123456789abcdef', 'bytes': 5}
        """
        return {"blob": self.hash, "bytes": self.bytes}

    @classmethod
    def from_document(cls, document: object) -> Blob:
        """Return the blob that a document names. Raises DamagedSnapshot if it names none."""
        for blob in _match_blob(document):
            return blob
        raise DamagedSnapshot(f"wanted a blob's hash and size, got {str(document)[:80]!r}")


def find_blobs(document: object) -> Iterator[Blob]:
    """Yield all blobs that a document names, at any depth, some perhaps twice."""
    found: list[Blob] = []
    _add_blobs(document, found)
    yield from found


def _add_blobs(document: object, found: list[Blob]) -> None:
    """Add all blobs that a document names; most of what is in documents are scalars."""
    inside: Iterable[object] = ()
    if isinstance(document, (list, tuple)):
        inside = document
    elif type(document) is dict or isinstance(document, Mapping):
        if "blob" in document and (blobs := [*_match_blob(document)]):
            found.extend(blobs)
            return
        inside = document.values()
    for item in inside:
        if type(item) not in _SCALARS:
            _add_blobs(item, found)


def _match_blob(document: object) -> Iterator[Blob]:
    match document:
        case {"blob": str(hash), "bytes": int(bytes), **rest} if not rest and _HASH.fullmatch(hash):
            yield Blob(hash, bytes)


class SnapshotStore(Protocol):
    """The checkpoints of one job. Raises only SnapshotError."""

    @property
    def bytes_written(self) -> int:
        """The number of bytes of new blobs since the store was opened."""
        ...

    def put(self, data: bytes | memoryview) -> Blob:
        """Store these bytes; a blob that exists with that size is not written again."""
        ...

    def put_file(self, path: str) -> Blob:
        """Store a file's bytes. The file may be removed, but never changed in place: it is linked.

        The whole file is read to compute its hash: where the blob of a file is known, call `has`
        instead.
        """
        ...

    def has(self, blob: Blob) -> bool:
        """Whether a manifest may name this blob without putting it again."""
        ...

    def read(self, blob: Blob) -> bytes:
        """Return the bytes, verified. Raises DamagedSnapshot."""
        ...

    def fetch(self, blob: Blob, path: str, *, link: bool = False) -> None:
        """Write the bytes to a new file, verified but not synced. Raises DamagedSnapshot.

        `link`: where the disk can, the file is a link to the store's own, and must not be changed
        in place.
        """
        ...

    def share_blobs(self) -> None:
        """Make all blobs that were put known to the other processes of the job, if it has any."""
        ...

    def adopt(self, blobs: Iterable[Blob]) -> None:
        """Take over blobs that another process of the job has shared: a manifest may name them."""
        ...

    def commit(self, number: int, manifest: Manifest) -> None:
        """Commit a checkpoint: afterwards its manifest and all blobs that it names are durable.

        Raises StoreError if the checkpoint does not exist (the number is taken, a blob is missing,
        the disk is full), UnknownOutcome if that is not known.
        """
        ...

    def list_checkpoints(self) -> list[int]:
        """Return the numbers of the existing checkpoints, ascending. Settles an unknown outcome."""
        ...

    def read_manifest(self, number: int) -> Manifest:
        """Return a checkpoint's manifest, verified. Raises DamagedSnapshot."""
        ...

    def discard(self, number: int) -> None:
        """Remove a manifest, and so the checkpoint. A missing one is not an error."""
        ...

    def collect(self, keep: Collection[int]) -> None:
        """Remove all other manifests, then the blobs that are no longer referenced."""
        ...


class SnapshotError(Exception):
    """An error of the snapshot store: what was expected, what came, and a hint."""

    exit_status = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class StoreError(SnapshotError):
    """The store has not done it: the checkpoint fails, and the job continues."""


class UnknownOutcome(SnapshotError):
    """A manifest that may exist after a crash or may not.

    Until the store has settled the outcome (any later call of `list_checkpoints` or `commit` tries
    to), nothing may be committed, aborted or undone.
    """


class RefusedSnapshot(SnapshotError):
    """Stored data that cannot be used as it is; it was not changed."""

    exit_status = 3


class DamagedSnapshot(RefusedSnapshot):
    """A damaged file: which, in which checkpoints, and from which checkpoint to start instead."""

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
        """The newest undamaged checkpoint to start from."""
