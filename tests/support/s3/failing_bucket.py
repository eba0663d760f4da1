"""A bucket in memory whose requests fail in every way there is, and a job that lives with it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import IO, Literal, TypeAlias, TypeVar

from obstore.store import MemoryStore

from headrace.core.api.snapshots import StoreError
from headrace.state.storage.checkpoint_repository import JobSnapshotStore
from headrace.state.storage.memory_disk import MemoryDisk
from headrace.state.storage.remote.bucket import Bucket
from headrace.state.storage.remote.checkpoint_repository import own_checkpoints
from headrace.state.storage.remote.object_storage import (
    ListedObject,
    ObjectVersion,
    PreconditionFailed,
    RequestOutcomeUnknown,
    StoredObject,
)
from headrace.state.storage.remote.store import RemoteSnapshotStore
from tests.support.state.checkpointing_job import NAME, NOW, Crashed, Job

T = TypeVar("T")

Fault: TypeAlias = Literal["lost", "unheard", "late", "denied", "crash before", "crash after"]
FAULTS: tuple[Fault, ...] = ("lost", "unheard", "late", "denied", "crash before", "crash after")
"""A request is lost, or its answer, or it arrives after its sender stopped waiting; or the server
denies it; or the process is killed."""

Plan: TypeAlias = "dict[int, Fault]"
"""Faults by the number of the request, counted from the first."""


@dataclass(slots=True)
class World:
    """A bucket, and the late requests to it, whose senders stopped waiting."""

    bucket: Bucket = field(default_factory=lambda: Bucket(MemoryStore(), "s3://bucket/bids"))
    late: list[Callable[[], object]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def deliver(self) -> None:
        """Deliver the late requests."""
        for request in self.late:
            with suppress(PreconditionFailed, StoreError):
                request()
        self.late.clear()


@dataclass(slots=True)
class Troubled:
    """The requests of one process, of which some fail: `Objects`."""

    world: World
    plan: Plan = field(default_factory=dict)
    count: int = 0
    dead: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def address(self) -> str:
        """Address of the objects."""
        return self.world.bucket.address

    def put(self, name: str, data: bytes) -> None:
        """Ask for it."""
        self._ask(f"put {name}", lambda: self.world.bucket.put(name, data))

    def put_file(self, name: str, file: IO[bytes]) -> None:
        """Ask for it."""
        data = file.read()
        self._ask(f"put {name}", lambda: self.world.bucket.put(name, data))

    def create(self, name: str, data: bytes) -> ObjectVersion:
        """Ask for it."""
        return self._ask(f"create {name}", lambda: self.world.bucket.create(name, data))

    def replace(self, name: str, data: bytes, version: ObjectVersion) -> ObjectVersion:
        """Ask for it."""
        return self._ask(f"replace {name}", lambda: self.world.bucket.replace(name, data, version))

    def read(self, name: str) -> StoredObject | None:
        """Ask for it."""
        return self._ask(f"read {name}", lambda: self.world.bucket.read(name))

    def read_chunks(self, name: str, bytes: int) -> Iterator[bytes]:
        """Ask for them."""
        yield from self._ask(f"read {name}", lambda: [*self.world.bucket.read_chunks(name, bytes)])

    def list_objects(self, folder: str = "") -> dict[str, ListedObject]:
        """Ask for it."""
        return self._ask(f"list {folder}", lambda: self.world.bucket.list_objects(folder))

    def remove(self, names: Collection[str]) -> None:
        """Ask for it."""
        if names:
            self._ask(f"remove {len(names)}", lambda: self.world.bucket.remove(names))

    def _ask(self, what: str, request: Callable[[], T]) -> T:
        with self._lock:
            if self.dead:
                raise Crashed
            self.world.log.append(what)
            self.count += 1
            return self._fate(self.plan.get(self.count - 1), what, request)

    def _fate(self, fault: Fault | None, what: str, request: Callable[[], T]) -> T:
        match fault:
            case "lost":
                raise RequestOutcomeUnknown(f"cannot {what}: injected")
            case "late" if not what.startswith("remove"):  # objects.py says why
                self.world.late.append(request)
                raise RequestOutcomeUnknown(f"cannot {what}: injected")
            case "denied":
                raise StoreError(f"cannot {what}: injected")
            case "crash before":
                self.dead = True
                raise Crashed
        with suppress(PreconditionFailed) if fault else ExitStack():
            answer = request()
        if fault is None:
            return answer
        if fault in ("unheard", "late"):
            raise RequestOutcomeUnknown(f"cannot {what}: injected")
        self.dead = True
        raise Crashed


class RemoteJob(Job):
    """The job of tests/support/state/checkpointing_job.py, with its checkpoints in a bucket."""

    def __init__(self, world: World | None = None, home: str = "home") -> None:
        super().__init__()
        self.world = world or World()
        self.home = home
        self.objects = Troubled(self.world)
        self.life_ends = ExitStack()
        self.remote: RemoteSnapshotStore | None = None

    def begin(self, plan: Plan | None = None, *, take_over: bool = False) -> RemoteSnapshotStore:
        """Another process begins, whatever became of the one before."""
        self.kill()
        self.objects = Troubled(self.world, plan or {})
        cabinet = self.life_ends.enter_context(
            own_checkpoints(
                self.objects, NAME, self.home, MemoryDisk(), lambda: NOW, take_over=take_over
            )
        )
        job = cabinet.ensure_job_id(
            NOW, lambda: f"{random.Random(self.number).getrandbits(128):032x}"
        )
        assert self.id in (None, job), "another job"
        self.id = job
        self.store = self.remote = cabinet.open_store(job)
        self.blobs = []
        self._check(self.remote)
        return self.remote

    def kill(self) -> None:
        """The process ends without another request."""
        self.objects.dead = True
        with suppress(Crashed):
            self.life_ends.close()
        self.store = self.remote = None

    def end(self) -> None:
        """The process ends in peace."""
        self.life_ends.close()
        self.store = self.remote = None

    def put_file(self, name: str, data: bytes) -> None:
        """Put what would be a file."""
        self.put(data)

    def step(self, number: int) -> None:
        """One checkpoint, with a blob that only every third needs."""
        if number % 3 == 0:
            self.put(b"now and then")
        super().step(number)

    def _check(self, store: JobSnapshotStore) -> None:
        """Check the contents of a store, with no faults injected."""
        plan, self.objects.plan = self.objects.plan, {}
        super()._check(store)
        self.objects.plan = plan
