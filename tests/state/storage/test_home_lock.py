"""Real processes that hold a home, are refused it, and are killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.core.api.snapshots import SnapshotStore, find_blobs
from headrace.state.storage.home import Home
from headrace.state.storage.home_lock import HomeLocked
from headrace.state.storage.local_disk import LocalDisk
from tests.support.state.checkpointing_job import NOW

HOLD = """
import os, sys
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
with Home(LocalDisk(), sys.argv[1], "bids").hold("2026-01-31T07:00:00Z"):
    # Told by the child itself, which has let go of the lock by then.
    forked = len(sys.argv) > 2 and not os.fork()
    if forked or len(sys.argv) < 3:
        print(os.getpid(), flush=True)
    sys.stdin.read()
"""

COMMIT = """
import itertools, sys
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.support.state.manifests import build_blob_manifest
home = Home(LocalDisk(), sys.argv[1], "bids")
with home.hold("2026-01-31T07:00:00Z"):
    store = home.open_store(home.ensure_job_id("2026-01-31T07:00:00Z"))
    for number in itertools.count(1 + max(store.list_checkpoints(), default=0)):
        blobs = [store.put(b"%d of %d" % (each, number)) for each in range(5)]
        store.commit(number, build_blob_manifest(blobs))
        print(number, flush=True)
        store.collect(store.list_checkpoints()[-2:])
"""


@contextmanager
def holder(
    folder: Path, *arguments: str, code: str = HOLD
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that holds the home, and what it said when it did."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", code, str(folder), *arguments]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_a_second_process_is_refused_with_the_holder(tmp_path: Path) -> None:
    home = Home(LocalDisk(), str(tmp_path), "bids")
    with holder(tmp_path) as (process, _), pytest.raises(HomeLocked) as caught, home.hold(NOW):
        raise AssertionError
    assert caught.value.exit_status == 3
    assert caught.value.message == (
        f"{tmp_path}/bids/lock is held by process {process.pid} on {socket.gethostname()}, "
        "started 2026-01-31T07:00:00Z"
    )
    assert caught.value.hint == f"wait for it, or stop it: kill {process.pid}"


def test_a_home_whose_holder_was_killed_is_free_and_says_who_it_was(tmp_path: Path) -> None:
    home = Home(LocalDisk(), str(tmp_path), "bids")
    with holder(tmp_path) as (process, _):
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with home.hold(NOW) as killed:
            assert killed is not None
            assert killed.pid == process.pid
            assert killed.since == "2026-01-31T07:00:00Z"
    with home.hold(NOW) as killed:
        assert killed is None


def test_a_home_whose_killed_holder_is_looked_for_is_free_a_moment_later(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, pid):
        process.kill()
        process.wait()
    disk = LocalDisk()
    trying = disk.lock(f"{tmp_path}/bids/lock")  # as `headrace jobs` does
    assert trying is not None
    release = trying.release

    class ReleasingDisk(LocalDisk):
        """The disk, on which the other process lets go of the lock after the first look."""

        def read(self, path: str) -> bytes:
            release()
            return super().read(path)

    with Home(ReleasingDisk(), str(tmp_path), "bids").hold(NOW) as killed:
        assert str(killed and killed.pid) == pid


def test_a_home_whose_holder_ended_is_free_and_nobody_was_killed(tmp_path: Path) -> None:
    home = Home(LocalDisk(), str(tmp_path), "bids")
    with holder(tmp_path) as (process, _):
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        with home.hold(NOW) as killed:
            assert killed is None


def test_a_child_that_outlives_the_holder_does_not_hold_the_home(tmp_path: Path) -> None:
    home = Home(LocalDisk(), str(tmp_path), "bids")
    with holder(tmp_path, "fork") as (process, child):
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        try:
            with home.hold(NOW) as killed:
                assert killed is not None and killed.pid == process.pid
        finally:
            os.kill(int(child), signal.SIGKILL)


def test_a_lock_file_that_nobody_can_read_keeps_nobody_out(tmp_path: Path) -> None:
    home = Home(LocalDisk(), str(tmp_path), "bids")
    lock = tmp_path / "bids" / "lock"
    lock.parent.mkdir()
    for said in (b"", b"{", b"\xff", b"[]", b'{"pid": "x", "host": 1, "since": 2}'):
        lock.write_bytes(said)
        with home.hold(NOW) as killed:
            assert killed is None


def test_two_stores_of_one_process_do_not_share_a_home(tmp_path: Path) -> None:
    home = Home(LocalDisk(), str(tmp_path), "bids")
    with home.hold(NOW), pytest.raises(HomeLocked), home.hold(NOW):
        raise AssertionError


def test_what_a_killed_process_has_committed_is_there(tmp_path: Path) -> None:
    home = Home(LocalDisk(), str(tmp_path), "bids")
    for more in (0, 3, 7):
        with holder(tmp_path, code=COMMIT) as (process, said):
            assert process.stdout is not None
            for _ in range(more):
                said = process.stdout.readline().strip()
            process.kill()
            told = [int(said), *map(int, process.stdout.read().split())]
        with home.hold(NOW) as killed:
            assert killed is not None and killed.pid == process.pid
            store: SnapshotStore = home.open_store(home.ensure_job_id(NOW))
            newest = store.list_checkpoints()[-1]
            assert newest in (told[-1], told[-1] + 1)
            for blob in find_blobs(store.read_manifest(newest)):
                assert store.read(blob).endswith(b" of %d" % newest)
