"""Two runs of one job on two machines: the record decides, and the loser commits nothing."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from headrace.core.api.snapshots import DamagedSnapshot, RefusedSnapshot, SnapshotError, StoreError
from headrace.state.storage.home_lock import LockHolder
from headrace.state.storage.remote import blobs
from headrace.state.storage.remote.object_storage import ObjectVersion
from headrace.state.storage.remote.ownership import (
    OWNER_FILE,
    BucketHeld,
    BucketOwnership,
    OwnershipLost,
    build_own_record,
)
from tests.support.s3.failing_bucket import FAULTS, RemoteJob, Troubled, World
from tests.support.state.checkpointing_job import NAME, NOW, Crashed


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests in their order, as far as threads can be ordered."""
    monkeypatch.setattr(blobs, "MAX_CONCURRENT_UPLOADS", 1)


def two() -> tuple[RemoteJob, RemoteJob]:
    """Two homes, one bucket."""
    world = World()
    return RemoteJob(world, "one"), RemoteJob(world, "other")


def know(job: RemoteJob, other: RemoteJob) -> None:
    """Have it know what the other knows, to judge what it finds."""
    if job is not other:
        job.id = other.id or job.id
        job.committed, job.possible = other.committed, set(other.possible)
        job.named |= other.named
        job.contents |= other.contents


def test_a_second_run_is_refused_with_the_owner() -> None:
    one, other = two()
    one.begin()
    with pytest.raises(BucketHeld) as caught:
        other.begin()
    assert caught.value.exit_status == 3
    assert f"s3://bucket/{NAME} is held by process " in caught.value.message
    assert ", started 2026-01-31T08:00:00Z, last renewed at " in caught.value.message
    assert "--take-over" in caught.value.hint
    one.step(1)
    one.end()


def test_a_job_that_ended_normally_can_be_owned_by_anyone() -> None:
    one, other = two()
    one.begin()
    one.step(1)
    one.end()
    know(other, one)
    other.begin()
    other.step(2)
    assert other.committed == 2
    other.end()


def test_a_run_of_the_same_home_resumes_at_once() -> None:
    one, _ = two()
    one.begin()
    one.step(1)
    one.kill()
    one.begin()
    one.step(2)
    assert one.committed == 2
    one.end()


def test_a_deposed_run_commits_nothing_and_removes_nothing() -> None:
    one, other = two()
    one.begin()
    one.step(1)
    know(other, one)
    other.begin(take_over=True)
    other.step(2)
    store = one.remote
    assert store is not None
    one.put(b"of one")
    with pytest.raises(OwnershipLost, match="is held by process"):
        one.commit()
    for ask in (store.list_checkpoints, lambda: store.collect([]), lambda: store.discard(1)):
        with pytest.raises(OwnershipLost):
            ask()
    other.read(2)
    one.end()
    other.step(3)
    other.end()


@pytest.mark.parametrize("ignored", ["create", "replace"])
def test_a_server_that_takes_no_notice_of_conditions_is_refused(ignored: str) -> None:
    class Careless(Troubled):
        def create(self, name: str, data: bytes) -> ObjectVersion:
            if ignored == "create":
                self.put(name, data)
                return ObjectVersion("any")
            return super().create(name, data)

        def replace(self, name: str, data: bytes, version: ObjectVersion) -> ObjectVersion:
            if ignored == "replace":
                self.put(name, data)
                return ObjectVersion("any")
            return super().replace(name, data, version)

    owner = BucketOwnership(
        Careless(World()), build_own_record("home", LockHolder(1, "pegasus", NOW))
    )
    with pytest.raises(RefusedSnapshot, match="writes also where a condition does not hold"):
        owner.acquire(take_over=False)


def test_a_missing_ownership_record_deposes_the_owner() -> None:
    one, _ = two()
    one.begin()
    one.world.bucket.remove([OWNER_FILE])
    with pytest.raises(OwnershipLost, match="not held: its ownership record is missing"):
        one.commit()
    one.kill()


def test_an_unreadable_ownership_record_blocks_all_runs() -> None:
    one, other = two()
    one.begin()
    one.kill()
    one.world.bucket.put(OWNER_FILE, b"{}")
    with pytest.raises(RefusedSnapshot, match=r"owner\.json is damaged") as caught:
        other.begin(take_over=True)
    assert not isinstance(caught.value, DamagedSnapshot)


def test_a_manifest_that_comes_too_late_is_refused() -> None:
    one, other = two()
    one.begin()
    one.objects.plan = {one.objects.count + at: "late" for at in (1, 2)}
    with pytest.raises(SnapshotError):
        one.commit()
    assert [name for name in one.world.log if "manifests/1" in name]
    know(other, one)
    other.begin(take_over=True)
    one.world.deliver()
    assert other.remote is not None and other.remote.list_checkpoints() == []
    other.step(1)
    assert other.committed == 1
    other.end()
    one.kill()


def test_two_runs_with_failing_requests_never_both_own_a_job() -> None:
    """A starting run finds what the other has committed; the other commits nothing after that."""
    committed = 0
    for seed in range(150):
        drawn = random.Random(seed)
        rivals = two()
        last = rivals[0]
        """The run that started last."""
        for _ in range(40):
            job = drawn.choice(rivals)
            try:
                if job.store is None or drawn.random() < 0.1:
                    _begin(drawn, job, last)
                    last = job
                elif drawn.random() < 0.1:
                    job.kill()
                elif _is_committed(drawn, job):
                    committed += 1
                    assert job is last, f"{seed}: both go on"
            except (SnapshotError, Crashed):
                job.kill()
            if drawn.random() < 0.3:
                job.world.deliver()
        for job in rivals:
            job.kill()
    assert committed > 500


def _begin(drawn: random.Random, job: RemoteJob, last: RemoteJob) -> None:
    """Take over, with all that is known of what there may be."""
    job.kill()
    know(job, last)
    plan = {at: drawn.choice(FAULTS) for at in range(60) if drawn.random() < 0.03}
    job.begin(plan, take_over=True)


def _is_committed(drawn: random.Random, job: RemoteJob) -> bool:
    job.put(b"%d" % drawn.randrange(4))
    is_there = job.commit()
    with suppress(StoreError):
        job.collect()
    return is_there
