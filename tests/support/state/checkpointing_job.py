"""A job that takes checkpoints on a disk that fails, and what must be found there afterwards."""

from __future__ import annotations

import errno
import random
from dataclasses import dataclass, field

from headrace.core.api.snapshots import Blob, StoreError, UnknownOutcome
from headrace.state.storage.checkpoint_repository import JobSnapshotStore
from headrace.state.storage.home import Home
from headrace.state.storage.local_store import LocalSnapshotStore
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.state.manifests import build_blob_manifest

ROOT, NAME, WORK = "/jobs/home", "bids", "/jobs/work"
CHECKPOINTS = f"{ROOT}/{NAME}/checkpoints"
BLOBS = f"{CHECKPOINTS}/blobs"
NOW = "2026-01-31T08:00:00Z"
RETAIN = 2


class Crashed(BaseException):
    """The process has ended: nothing that it does has an effect any more."""


@dataclass(slots=True)
class Trouble:
    """Events before operations, which are counted from the arrangement."""

    crash_at: int | None = None
    fail_at: int | None = None
    failures: int = 1
    """Number of operations in a row that fail."""
    code: int = errno.EIO
    fail_on: str = ""
    """The operation that fails, as in "sync_folder /jobs"; `failures` times."""
    operations: int = 0
    log: list[str] = field(default_factory=list)

    def __call__(self, operation: str, path: str) -> None:
        at, self.operations = self.operations, self.operations + 1
        self.log.append(f"{operation} {path}")
        if self.crash_at is not None and at >= self.crash_at:
            raise Crashed
        if self.fail_at is not None and self.fail_at <= at < self.fail_at + self.failures:
            raise OSError(self.code, "injected", path)
        if self.log[-1] == self.fail_on and self.failures:
            self.failures -= 1
            raise OSError(self.code, "injected", path)

    @property
    def is_over(self) -> bool:
        """Whether all that was to fail has failed."""
        return self.fail_at is not None and self.operations >= self.fail_at + self.failures


LARGE = 100
"""From this many bytes on, in these tests, a blob is synced when it is put."""


class Job:
    """Puts blobs and commits checkpoints, and records the outcomes."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.id: str | None = None
        self.number = 0
        self.contents: dict[Blob, bytes] = {}
        self.named: dict[int, frozenset[Blob]] = {}
        """Blobs of each checkpoint whose commit was ever tried."""
        self.committed = 0
        """The newest checkpoint that is known to be there."""
        self.possible: set[int] = set()
        """Newer ones that may be there or not."""
        self.blobs: list[Blob] = []
        """Those put for the checkpoint that is being made."""
        self.store: JobSnapshotStore | None = None
        self.is_failing = False
        """Whether operations of the disk fail."""
        self.disk.make_folder(WORK)

    @property
    def trouble(self) -> Trouble:
        """Events arranged to happen."""
        before = self.disk.before_operation
        assert isinstance(before, Trouble)
        return before

    def arrange(self, trouble: Trouble) -> None:
        """Let this happen from now on."""
        self.disk.before_operation = trouble
        self.is_failing |= trouble.fail_at is not None or bool(trouble.fail_on)

    def start(self) -> LocalSnapshotStore:
        """Open the home, and check what is found there."""
        home = Home(self.disk, ROOT, NAME)
        # The lock is not let go: a crash, the only end there is here, takes it away.
        home.hold(NOW).__enter__()
        job = home.ensure_job_id(NOW, lambda: f"{random.Random(self.number).getrandbits(128):032x}")
        assert self.id in (None, job)
        self.id = job
        self.store, self.blobs = home.open_store(job), []
        self._check(self.store)
        return self.store

    def _check(self, store: JobSnapshotStore) -> None:
        """The newest checkpoint is the last one committed, or one whose commit was under way.

        Every one is whole, unless a sync has failed: then an old one, removed, may be back in part.
        """
        numbers = store.list_checkpoints()
        newest = numbers[-1] if numbers else 0
        assert newest == self.committed or newest in self.possible, f"{newest}: {self}"
        self.committed, self.possible = newest, set()
        self.number = max(self.number, newest)
        for number in numbers[-1:] if self.is_failing else numbers:
            self.read(number)

    def read(self, number: int) -> None:
        """All of a checkpoint is as it was written."""
        assert self.store is not None
        assert self.store.is_whole(number)
        assert self.store.read_manifest(number)["number"] == number
        for blob in self.named[number]:
            assert self.store.read(blob) == self.contents[blob]

    def put(self, data: bytes) -> None:
        """Put bytes for the next checkpoint."""
        assert self.store is not None
        blob = self.store.put(data)
        self.contents[blob] = data
        self.blobs.append(blob)

    def put_file(self, name: str, data: bytes) -> None:
        """Put a file for the next checkpoint, and drop it."""
        assert self.store is not None
        path = f"{WORK}/{name}"
        self.disk.remove(path)
        self.disk.write(path, (data,))
        blob = self.store.put_file(path)
        self.disk.remove(path)
        self.contents[blob] = data
        self.blobs.append(blob)

    def reuse(self, number: int) -> None:
        """Name again what an earlier checkpoint names, or had put, where that may be done."""
        assert self.store is not None
        for blob in self.named.get(number, ()):
            if self.store.has(blob):
                self.blobs.append(blob)

    def commit(self) -> bool:
        """Commit a checkpoint of what was put; whether it is there."""
        assert self.store is not None
        self.number += 1
        number, named, self.blobs = self.number, frozenset(self.blobs), []
        self.named[number] = named
        self.possible.add(number)
        try:
            self.store.commit(number, build_blob_manifest(named))
        except UnknownOutcome:
            raise
        except StoreError:
            self.possible.discard(number)
            return False
        self.committed, self.possible = number, set()
        return True

    def collect(self) -> None:
        """Remove what is older than the newest ones."""
        assert self.store is not None
        self.store.collect(self.store.list_checkpoints()[-RETAIN:])

    def step(self, number: int) -> None:
        """One checkpoint of an ordinary life."""
        self.put(b"the same in all")
        self.put(f"new in {number}".encode())
        self.put_file("000001.sst", b"a file" * number)
        self.reuse(number - 1)
        if number % 2:
            self.put(b"large" * (LARGE + number))
        self.commit()
        self.collect()

    def life(self) -> None:
        """A start, some checkpoints; one is given up in the middle."""
        self.start()
        for number in range(self.number + 1, self.number + 4):
            self.step(number)
        self.put(b"for a checkpoint that is given up")
        self.blobs = []
        self.collect()
        self.step(self.number + 1)
        self.read(self.committed)

    def __str__(self) -> str:
        return f"committed {self.committed}, possible {self.possible}"
