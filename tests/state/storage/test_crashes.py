"""A crash at every operation of a disk, and failures of every one: nothing committed is lost."""

from __future__ import annotations

import errno
import random
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from headrace.core.api.snapshots import SnapshotError, StoreError, UnknownOutcome
from headrace.state.storage import blobs
from tests.support.state.checkpointing_job import BLOBS, CHECKPOINTS, LARGE, Crashed, Job, Trouble


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size at which everything happens that else takes megabytes."""
    monkeypatch.setattr(blobs, "LARGE_BYTES", LARGE)


def operations() -> range:
    """The numbers of what an undisturbed life does with the disk."""
    job = Job()
    job.arrange(Trouble())
    job.life()
    assert {line.split()[0] for line in job.trouble.log} == EVERY
    return range(len(job.trouble.log))


EVERY = {
    "make_folder",
    "create",
    "write",
    "sync",
    "sync_folder",
    "rename",
    "link",
    "remove",
    "read",
}


def end(job: Job, how: str, seed: int) -> None:
    """The process ends, or the system."""
    job.arrange(Trouble())
    if how == "killed":
        job.disk.kill()
    else:
        job.disk.lose_power(random.Random(seed))


@pytest.mark.parametrize("how", ["killed", "power lost", "power lost after a look"])
def test_a_crash_at_every_operation_loses_nothing(how: str) -> None:
    for crash_at in operations():
        for seed in (crash_at, -crash_at) if how == "power lost" else (crash_at,):
            job = Job()
            job.arrange(Trouble(crash_at=crash_at))
            with pytest.raises(Crashed):
                job.life()
            if how == "power lost after a look":
                end(job, "killed", 0)
                job.start()
            end(job, how, seed)
            job.life()
            end(job, "power lost", seed)
            job.start()


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("failures", [1, 2, 3])
@pytest.mark.parametrize("then", ["power lost", "killed, power lost", "goes on, power lost"])
def test_a_failure_of_every_operation_loses_nothing(code: int, failures: int, then: str) -> None:
    for fail_at in operations():
        job = Job()
        job.arrange(Trouble(fail_at=fail_at, code=code, failures=failures))
        for _ in range(6):
            with suppress(SnapshotError, OSError):
                if job.store is None:
                    job.start()
                job.step(job.number + 1)
            if job.trouble.is_over and not then.startswith("goes on"):
                break
        if then.startswith("killed"):
            end(job, "killed", 0)
            job.start()
        end(job, "power lost", fail_at)
        job.start()


def test_a_killed_run_leaves_no_rubbish() -> None:
    for crash_at in operations():
        job = Job()
        job.arrange(Trouble(crash_at=crash_at))
        with pytest.raises(Crashed):
            job.life()
        end(job, "killed", 0)
        store = job.start()
        names = [*job.disk.list_names(BLOBS), *job.disk.list_names(CHECKPOINTS)]
        assert not [name for name in names if name.endswith(".tmp")]
        store.collect(store.list_checkpoints())
        needed = {b.hash for number in store.list_checkpoints() for b in job.named[number]}
        assert set(job.disk.list_names(BLOBS)) == needed


class Lives(RuleBasedStateMachine):
    """Any sequence of what jobs do and disks suffer."""

    @initialize()
    def begin(self) -> None:
        self.job = Job()
        self.is_open = False
        self.job.arrange(Trouble())
        self.open()

    def open(self) -> None:
        self.job.arrange(Trouble())
        self.job.disk.capacity = None
        self.job.start()
        self.is_open = True

    def attempt(self, what: str, *arguments: object) -> None:
        """Do it, whatever comes of it."""
        try:
            getattr(self.job, what)(*arguments)
        except Crashed:
            self.is_open = False
        except UnknownOutcome:
            self.is_open = False
            self.job.disk.kill()
        except (StoreError, OSError):
            return

    @precondition(lambda self: not self.is_open)
    @rule()
    def open_again(self) -> None:
        self.job.disk.kill()
        self.open()

    @precondition(lambda self: self.is_open)
    @rule(number=st.integers(0, 5))
    def put(self, number: int) -> None:
        self.attempt("put", b"%d" % number)

    @precondition(lambda self: self.is_open)
    @rule(number=st.integers(0, 1))
    def put_large(self, number: int) -> None:
        self.attempt("put", b"%d" % number * LARGE)

    @precondition(lambda self: self.is_open)
    @rule(number=st.integers(0, 5))
    def put_file(self, number: int) -> None:
        self.attempt("put_file", f"{number}.sst", b"%d" % number)

    @precondition(lambda self: self.is_open)
    @rule(before=st.integers(0, 3))
    def reuse(self, before: int) -> None:
        self.attempt("reuse", self.job.number - before)

    @precondition(lambda self: self.is_open)
    @rule()
    def commit(self) -> None:
        self.attempt("commit")

    @precondition(lambda self: self.is_open)
    @rule()
    def collect(self) -> None:
        self.attempt("collect")

    @precondition(lambda self: self.is_open)
    @rule(after=st.integers(0, 12), failures=st.integers(1, 4), code=st.sampled_from([5, 28]))
    def fail_soon(self, after: int, failures: int, code: int) -> None:
        self.job.arrange(Trouble(fail_at=after, failures=failures, code=code))

    @precondition(lambda self: self.is_open)
    @rule(after=st.integers(0, 12))
    def crash_soon(self, after: int) -> None:
        self.job.arrange(Trouble(crash_at=after))

    @precondition(lambda self: self.is_open)
    @rule(room=st.sampled_from([None, 0, 10, 1000]))
    def fill(self, room: int | None) -> None:
        disk = self.job.disk
        disk.capacity = None if room is None else disk.measure_used_bytes() + room

    @rule(seed=st.integers(0, 1000))
    def lose_power(self, seed: int) -> None:
        self.job.disk.lose_power(random.Random(seed))
        self.open()


Lives.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLives = Lives.TestCase
