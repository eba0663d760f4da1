"""A model job that loses manifests and goes back, with a crash at every operation: no row twice.

The model writes ten rows a checkpoint, each part under a name of its own, in the order of a real
job: manifest, completion record, commit, commit record. It runs in a home on a disk that loses what
was not synced, and in a bucket.
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import pytest

from headrace.core.api.snapshots import DamagedSnapshot, RefusedSnapshot
from headrace.core.checkpoint.completion_record import CheckpointReturn, CompletionRecord
from headrace.core.checkpoint.storage import CheckpointStorage
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.pipeline.settings import NoRestart
from headrace.state.storage.checkpoint_repository import CheckpointRepository
from headrace.state.storage.home import Home
from headrace.state.storage.memory_disk import MemoryDisk
from headrace.state.storage.remote.checkpoint_repository import own_checkpoints
from tests.support.s3.failing_bucket import Troubled, World
from tests.support.state.checkpointing_job import Crashed
from tests.support.state.manifests import build_blob_manifest

NOW = "2026-01-31T08:00:00Z"
JOB = "5eed" * 8
ROWS = 10
RETAINED = 3

Ending = Literal["killed", "power lost"]


class Place(Protocol):
    """Where a job's checkpoints are, with a crash at one operation."""

    operations: int

    def open(self, crash_at: int | None = None) -> Any:
        """Open the repository in a new process, which dies at this operation."""
        ...

    def end(self, ending: Ending, seed: int) -> None:
        """End the machine, or only the process."""
        ...


@dataclass
class HomePlace:
    """A home on a simulated disk."""

    disk: MemoryDisk = field(default_factory=MemoryDisk)
    operations: int = 0

    @contextmanager
    def open(self, crash_at: int | None = None) -> Iterator[CheckpointRepository]:
        self.operations = 0

        def before(operation: str, path: str) -> None:
            if crash_at is not None and self.operations >= crash_at:
                raise Crashed
            self.operations += 1

        self.disk.before_operation = before
        with ExitStack() as held:
            home = Home(self.disk, "/jobs", "model")
            held.enter_context(home.hold(NOW))
            yield home

    def end(self, ending: Ending, seed: int) -> None:
        self.disk.before_operation = lambda operation, path: None
        if ending == "killed":
            self.disk.kill()
        else:
            self.disk.lose_power(random.Random(seed))


@dataclass
class BucketPlace:
    """A bucket; a request of a process that dies is done or not, as the ending says."""

    world: World = field(default_factory=World)
    operations: int = 0
    is_done: bool = True

    @contextmanager
    def open(self, crash_at: int | None = None) -> Iterator[CheckpointRepository]:
        fault: Any = "crash after" if self.is_done else "crash before"
        objects = Troubled(self.world, {} if crash_at is None else {crash_at: fault})
        with suppress(Crashed) if crash_at is None else ExitStack():
            try:
                with own_checkpoints(
                    objects, "model", "home", MemoryDisk(), lambda: NOW
                ) as repository:
                    yield repository
            finally:
                self.operations = objects.count

    def end(self, ending: Ending, seed: int) -> None:
        self.is_done = ending == "killed"


@dataclass
class ModelJob:
    """A job of which only the checkpoints are real, and its output."""

    place: Place
    parts: dict[str, range] = field(default_factory=dict)
    """The committed rows, by part."""
    lives: int = 0
    resumed: int = 0

    def live(
        self, checkpoints: int, crash_at: int | None = None, back_to: int | None = None
    ) -> None:
        """Resume and take some checkpoints. Raises Crashed, RefusedSnapshot."""
        self.lives += 1
        with self.place.open(crash_at) as repository:
            repository.ensure_job_id(NOW, lambda: JOB)
            storage = open_storage(repository)
            number = self.resumed = back_to or storage.newest_number()
            if number:
                storage.record_completed(number)
                self._commit(storage, number)
                storage.return_to(number)
            for _ in range(checkpoints):
                number = self._take(storage, number)

    def _take(self, storage: CheckpointStorage, last: int) -> int:
        first = position(storage, last)
        number = storage.find_highest_number() + 1
        part = {"name": f"{self.lives}-{number}", "rows": [first, first + ROWS]}
        counts = {"parts": {"out": [first + ROWS, 0, 0, 0, 0]}, "failed": {}}
        sinks = {"out": {"handles": [{"handle": part}], "writers": []}}
        storage.store.commit(number, build_blob_manifest(time=NOW, sinks=sinks, counts=counts))
        storage.store.collect(storage.store.list_checkpoints()[-RETAINED:])
        storage.record_completed(number)
        self._commit(storage, number)
        return number

    def _commit(self, storage: CheckpointStorage, number: int) -> None:
        said: Any = storage.read_manifest(number)
        for part in (each["handle"] for each in said["sinks"]["out"]["handles"]):
            self.parts[part["name"]] = range(*part["rows"])
        storage.record_committed(number)

    def count_rows(self) -> Counter[int]:
        """Return how often each row was written."""
        return Counter(row for rows in self.parts.values() for row in rows)


def open_storage(repository: CheckpointRepository) -> CheckpointStorage:
    """The storage of a run."""
    return CheckpointStorage(
        repository.open_store(JOB),
        RestartPolicy(NoRestart()),
        write_commit_record=repository.write_commit_record,
        read_commit_record=repository.read_commit_record,
        write_completion_record=repository.write_completion_record,
        read_completion_record=repository.read_completion_record,
    )


def position(storage: CheckpointStorage, number: int) -> int:
    """How many rows were read up to a checkpoint."""
    said: Any = storage.store.read_manifest(number) if number else {"counts": None}
    return said["counts"]["parts"]["out"][0] if number else 0


def lose(place: Place, newest: int) -> list[int]:
    """Remove this number of the newest manifests. Return those that are left."""
    repository: CheckpointRepository
    with place.open() as repository:
        store = repository.open_store(JOB)
        numbers = store.list_checkpoints()
        for number in numbers[len(numbers) - newest :]:
            store.discard(number)
        return store.list_checkpoints()


PLACES = pytest.mark.parametrize("build", [HomePlace, BucketPlace])
ENDINGS = pytest.mark.parametrize("ending", ["killed", "power lost"])


def count_operations(build: Callable[[], Place], live: Callable[[ModelJob], None]) -> int:
    """The number of operations of an undisturbed life, which comes last."""
    job = ModelJob(build())
    live(job)
    return job.place.operations


@PLACES
@ENDINGS
@pytest.mark.parametrize("lost", [0, 1, 2, RETAINED])
def test_whichever_manifests_are_lost_no_row_is_written_twice(
    build: Callable[[], Place], ending: Ending, lost: int
) -> None:
    refusals = 0
    for crash_at in range(count_operations(build, lambda job: job.live(4))):
        job = ModelJob(build())
        job.place.end(ending, crash_at)
        with suppress(Crashed):
            job.live(4, crash_at)
        job.place.end(ending, crash_at)
        left = lose(job.place, lost)
        before = job.count_rows()
        try:
            job.live(2)
        except RefusedSnapshot:
            refusals += 1
            assert lost, "nothing was lost"
            assert job.count_rows() == before
        else:
            written = job.count_rows()
            assert written == Counter(range(len(written))), f"resumed from {job.resumed} of {left}"
    assert bool(refusals) == bool(lost)


@PLACES
@ENDINGS
@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_crash_while_going_back_leaves_the_newest_or_the_requested_checkpoint(
    build: Callable[[], Place], ending: Ending, is_recorded: bool
) -> None:
    def begin(job: ModelJob) -> None:
        job.live(5)
        if not is_recorded:
            job.live(1)
            with suppress(Crashed):  # after its manifest, before its commit is recorded
                job.live(1, job.place.operations - 3)
            job.place.end("killed", 0)

    def go_back(job: ModelJob) -> None:
        begin(job)
        job.live(1, back_to=3 if is_recorded else 5)

    ends = set()
    for crash_at in range(count_operations(build, go_back)):
        job = ModelJob(build())
        begin(job)
        newest, to = max(job.count_rows()) + 1, 3 if is_recorded else 5
        with job.place.open() as repository:
            first = position(open_storage(repository), to)
        job.place.end(ending, crash_at)
        with suppress(Crashed):
            job.live(1, crash_at, back_to=to)
        job.place.end(ending, crash_at)
        job.live(3)
        rows = job.count_rows()
        twice = [row for row, count in rows.items() if count > 1]
        assert set(rows) == set(range(len(rows)))
        assert max(rows.values()) <= 2
        assert sorted(twice) in ([], [*range(first, newest)]), (crash_at, job.resumed)
        ends.add(bool(twice))
        lose(job.place, 1)
        with pytest.raises(RefusedSnapshot):
            job.live(1)
    assert ends == {True, False}


def test_a_lost_record_is_noticed_and_one_that_never_was_is_not() -> None:
    place = HomePlace()
    job = ModelJob(place)
    job.live(0)
    with place.open() as repository:
        assert repository.read_completion_record() is None
    job.live(2)
    path = "/jobs/model/checkpoints/complete.json"
    data = place.disk.read(path)
    place.disk.remove(path)
    with pytest.raises(DamagedSnapshot, match=r"complete\.json is missing"):
        job.live(1)
    place.disk.write(path, [data[:-3]])
    with pytest.raises(DamagedSnapshot, match=r"complete\.json is damaged"):
        job.live(1)


def test_a_home_of_an_earlier_version_is_known_by_its_commit_record() -> None:
    old = CompletionRecord().include_committed(7)
    assert (old.resume_floor, old.find_newest([6, 7]), old.find_newest([6, 7, 8])) == (7, 7, 8)
    back = old.return_to(6, 7)
    assert back == CompletionRecord(7, going_back=CheckpointReturn(6, 7))
    assert CompletionRecord.from_document(back.to_document()) == back
    assert back.include_committed(8) == CompletionRecord(8)


def test_going_forward_again_forgets_the_return() -> None:
    back = CompletionRecord(7).return_to(5, 7)
    assert back.return_to(4, 5) == CompletionRecord(7, going_back=CheckpointReturn(4, 7))
    assert back.return_to(7, 7) == CompletionRecord(7)
    assert (back.highest, back.resume_floor) == (7, 5)


def test_errors_of_the_disk_keep_a_job_from_resuming() -> None:
    place = HomePlace()
    ModelJob(place).live(2)
    with place.open() as repository:
        storage = open_storage(repository)

        def fail(operation: str, path: str) -> None:
            if path.endswith("complete.json"):
                raise OSError(errno.EIO, "injected")

        place.disk.before_operation = fail
        with pytest.raises(Exception, match=r"cannot read .*complete\.json"):
            storage.newest_number()
