"""Common part of the snapshot stores: blobs and manifests of one job in two folders.

Damaged files are left as they are. While one of the retained manifests cannot be read, no blobs are
removed, because it is unknown which ones that manifest names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from headrace.core.api.snapshots import (
    Blob,
    DamagedSnapshot,
    Manifest,
    SnapshotError,
    StoreError,
    find_blobs,
)
from headrace.state.storage.checksummed_json import CorruptData
from headrace.state.storage.disk_errors import translate_os_errors

FRESH_HINT = "--fresh starts from scratch, and repeats all output"


class BlobFolder(Protocol):
    """Folder of blobs. Several threads may put and look up at the same time; one at a time flushes
    and collects.
    """

    bytes_written: int

    def adopt(self, blobs: Collection[Blob]) -> None:
        """Trust these blobs, which another process has made durable."""
        ...

    def put(self, data: bytes | memoryview) -> Blob:
        """Store these bytes."""
        ...

    def put_file(self, path: str) -> Blob:
        """Store a file."""
        ...

    def has(self, blob: Blob) -> bool:
        """Whether the blob is stored or being stored."""
        ...

    def is_durable(self, blob: Blob) -> bool:
        """Whether a manifest may name the blob now."""
        ...

    def flush(self) -> None:
        """Make all blobs durable that were put."""
        ...

    def read(self, blob: Blob) -> bytes:
        """Return the blob's bytes. Raises CorruptData."""
        ...

    def verify(self, blob: Blob) -> None:
        """Read and verify the blob. Raises CorruptData."""
        ...

    def fetch(self, blob: Blob, path: str, *, link: bool) -> None:
        """Create a file with the blob's bytes. Raises CorruptData."""
        ...

    def collect(self, needed: Collection[Blob]) -> None:
        """Remove all blobs that are neither needed nor looked up since the last collect."""
        ...

    def get_path(self, blob: Blob) -> str:
        """Return the path or address of a blob."""
        ...


class ManifestFolder(Protocol):
    """Folder of manifests; for one thread at a time."""

    def list_numbers(self) -> list[int]:
        """Return the numbers of the checkpoints with manifests, ascending."""
        ...

    def get_path(self, number: int) -> str:
        """Return the path or address of a manifest."""
        ...

    def read(self, number: int) -> dict[str, object]:
        """Return a manifest. Raises CorruptData, or RefusedSnapshot for another job or format."""
        ...

    def list_blobs(self, number: int) -> frozenset[Blob]:
        """Return the blobs that a manifest names. Raises as `read` does."""
        ...

    def commit(self, number: int, manifest: Manifest, named: frozenset[Blob]) -> None:
        """Publish a manifest that names these blobs."""
        ...

    def settle(self) -> None:
        """Find out the outcome of a commit, if it is unknown."""
        ...

    def remove(self, numbers: Collection[int]) -> None:
        """Remove these manifests."""
        ...


class FolderSnapshotStore:
    """`SnapshotStore` of two folders; `places` are their locations, for messages."""

    def __init__(
        self, blobs: BlobFolder, manifests: ManifestFolder, places: tuple[str, str], job: str
    ) -> None:
        self.job_id = job
        self._blobs = blobs
        self._manifests = manifests
        self._folders = places

    @property
    def bytes_written(self) -> int:
        """Number of bytes of new blobs that were put."""
        return self._blobs.bytes_written

    def put(self, data: bytes | memoryview) -> Blob:
        """Store these bytes."""
        with translate_os_errors(f"write into {self._folders[0]}"):
            return self._blobs.put(data)

    def put_file(self, path: str) -> Blob:
        """Store a file."""
        with translate_os_errors(f"store {path}"):
            return self._blobs.put_file(path)

    def has(self, blob: Blob) -> bool:
        """Whether a manifest may name the blob."""
        with translate_os_errors(f"read {self._blobs.get_path(blob)}"):
            return self._blobs.has(blob)

    def read(self, blob: Blob) -> bytes:
        """Return the blob's bytes."""
        with self._translate_damage(blob, f"read {self._blobs.get_path(blob)}"):
            return self._blobs.read(blob)

    def fetch(self, blob: Blob, path: str, *, link: bool = False) -> None:
        """Create a file with the blob's bytes."""
        with self._translate_damage(blob, f"copy {self._blobs.get_path(blob)} to {path}"):
            self._blobs.fetch(blob, path, link=link)

    def share_blobs(self) -> None:
        """Do nothing: the commit makes blobs durable, all at once."""

    def adopt(self, blobs: Iterable[Blob]) -> None:
        """Take over blobs that another process of the job has shared."""
        self._blobs.adopt([*blobs])

    def commit(self, number: int, manifest: Manifest) -> None:
        """Commit a checkpoint."""
        self._manifests.settle()
        with translate_os_errors(f"write checkpoint {number}"):
            if number in self._manifests.list_numbers():
                raise StoreError(f"checkpoint {number} is there already")
            self._blobs.flush()
            needed = frozenset(find_blobs(manifest))
            for blob in needed:
                if not self._blobs.is_durable(blob):
                    message = (
                        f"checkpoint {number} needs {self._blobs.get_path(blob)}, which is not "
                        "there"
                    )
                    raise StoreError(message)
            self._manifests.commit(number, manifest, needed)

    def list_checkpoints(self) -> list[int]:
        """Return the numbers of the checkpoints with manifests."""
        self._manifests.settle()
        with translate_os_errors(f"read {self._folders[1]}"):
            return self._manifests.list_numbers()

    def read_manifest(self, number: int) -> Mapping[str, object]:
        path = self._manifests.get_path(number)
        try:
            with translate_os_errors(f"read {path}"):
                return self._manifests.read(number)
        except CorruptData as error:
            raise self._build_damage_error(path, error, (number,)) from error

    def discard(self, number: int) -> None:
        """Remove a manifest."""
        self._manifests.settle()
        with translate_os_errors(f"remove checkpoint {number}"):
            self._manifests.remove([number])

    def collect(self, keep: Collection[int]) -> None:
        """Remove all other manifests, and the blobs that no manifest needs."""
        self._manifests.settle()
        with translate_os_errors("remove old checkpoints"):
            numbers = self._manifests.list_numbers()
            self._manifests.remove([number for number in numbers if number not in keep])
            needed, unread = self._find_needed_blobs(number for number in numbers if number in keep)
            if not unread:
                self._blobs.collect(needed)

    def verify(self, number: int) -> None:
        """Read and verify all of a checkpoint. Raises DamagedSnapshot."""
        for blob in find_blobs(self.read_manifest(number)):
            with self._translate_damage(blob, f"read {self._blobs.get_path(blob)}"):
                self._blobs.verify(blob)

    def get_manifest_path(self, number: int) -> str:
        """Return the path or address of a checkpoint's manifest, which need not exist."""
        return self._manifests.get_path(number)

    def is_whole(self, number: int) -> bool:
        """Whether a job could be restored from the checkpoint: reads all of it."""
        try:
            for blob in find_blobs(self._manifests.read(number)):
                self._blobs.verify(blob)
        except (CorruptData, OSError, SnapshotError):
            return False
        return True

    def _find_needed_blobs(self, numbers: Iterable[int]) -> tuple[set[Blob], list[int]]:
        """Return the blobs that manifests name, and the manifests that cannot be read."""
        blobs: set[Blob] = set()
        unread = []
        for number in numbers:
            try:
                blobs |= self._manifests.list_blobs(number)
            except (CorruptData, SnapshotError):
                unread.append(number)
        return blobs, unread

    @contextmanager
    def _translate_damage(self, blob: Blob, doing: str) -> Iterator[None]:
        try:
            with translate_os_errors(doing):
                yield
        except CorruptData as error:
            numbers = self._manifests.list_numbers()
            users = [n for n in numbers if blob in self._find_needed_blobs([n])[0]]
            raise self._build_damage_error(
                self._blobs.get_path(blob), error, tuple(users)
            ) from error

    def _build_damage_error(
        self, path: str, error: CorruptData, users: tuple[int, ...]
    ) -> DamagedSnapshot:
        """Build the error: the damaged file, the checkpoints that need it, and an intact one."""
        others = (n for n in reversed(self._manifests.list_numbers()) if n not in users)
        whole = next((number for number in others if self.is_whole(number)), None)
        return DamagedSnapshot(
            f"{path} is damaged: {error}{_format_users(users)}",
            f"no other checkpoint is intact: {FRESH_HINT}"
            if whole is None
            else f"checkpoint {whole} is intact: --from-checkpoint {whole} resumes from it",
            file=path,
            checkpoints=users,
            whole=whole,
        )


def _format_users(users: tuple[int, ...]) -> str:
    """Return the checkpoints that need a file, as a clause of a message.

    >>> _format_users((7,)), _format_users((5, 6, 7))
    ('; checkpoint 7 needs it', '; checkpoints 5, 6 and 7 need it')
    """
    if len(users) < 2:
        return f"; checkpoint {users[0]} needs it" if users else ""
    return f"; checkpoints {', '.join(map(str, users[:-1]))} and {users[-1]} need it"
