"""Every request of a job's life fails in every way: nothing committed is lost, or there twice."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from headrace.core.api.snapshots import SnapshotError
from headrace.state.storage.remote import blobs
from tests.support.s3.failing_bucket import FAULTS, Fault, RemoteJob
from tests.support.state.checkpointing_job import Crashed


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests in their order, as far as threads can be ordered."""
    monkeypatch.setattr(blobs, "MAX_CONCURRENT_UPLOADS", 1)


def life(job: RemoteJob, plan: dict[int, Fault]) -> None:
    """A start and some checkpoints, whatever becomes of them."""
    try:
        job.begin(plan)
        for _ in range(3):
            with suppress(SnapshotError):
                job.step(job.number + 1)
    except (SnapshotError, Crashed):
        return


def requests() -> list[str]:
    """Return the requests of an undisturbed life."""
    job = RemoteJob()
    life(job, {})
    job.kill()
    assert job.committed == 3
    assert {line.split()[0] for line in job.world.log} == EVERY
    return job.world.log


EVERY = {"put", "create", "replace", "read", "list", "remove"}


CASES = [
    *((fault, "before the next start") for fault in FAULTS),
    ("late", "after the start"),
    ("late", "after a checkpoint"),
]


@pytest.mark.parametrize(("fault", "comes"), CASES)
def test_a_fault_of_every_request_loses_nothing(fault: Fault, comes: str) -> None:
    for at in range(len(requests())):
        job = RemoteJob()
        life(job, {at: fault})
        if comes == "before the next start":
            job.world.deliver()
        job.begin()
        if comes == "after the start":
            job.world.deliver()
        job.step(job.number + 1)
        job.world.deliver()
        job.step(job.number + 1)
        job.begin()
        job.end()


def test_any_faults_in_any_number_lose_nothing() -> None:
    for seed in range(150):
        drawn = random.Random(seed)
        job = RemoteJob()
        for _ in range(6):
            plan = {at: drawn.choice(FAULTS) for at in range(60) if drawn.random() < 0.1}
            life(job, plan)
            if drawn.random() < 0.5:
                job.world.deliver()
        job.begin()
        job.world.deliver()
        job.step(job.number + 1)
        job.begin()
        job.end()
