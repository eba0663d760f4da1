"""Contents of a home: the job's id, its finished mark, and its lock."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from headrace.core.snapshots import StoreError
from headrace.state.storage.home import Home
from headrace.state.storage.lock import HomeHeld
from headrace.state.storage.memory_disk import MemoryDisk
from tests.state.storing import NAME, NOW, ROOT, Crashed, Trouble


def home_on(disk: MemoryDisk) -> Home:
    return Home(disk, ROOT, NAME)


def id_of(home: Home) -> str:
    """The id, as a run learns it."""
    with home.held(NOW):
        return home.job(NOW)


def checkpointed(disk: MemoryDisk, number: int) -> str:
    """The id of a job that has taken a checkpoint."""
    home = home_on(disk)
    with home.held(NOW):
        store = home.store(home.job(NOW))
        store.commit(number, {"states": store.put(b"abc").document()})
        return home.job(NOW)


def test_a_job_keeps_its_id_from_one_run_to_the_next() -> None:
    disk = MemoryDisk()
    assert id_of(home_on(disk)) == id_of(home_on(disk))


def test_the_page_shows_what_is_written() -> None:
    page = Path(__file__).parents[2] / "docs" / "snapshots.md"
    shown = re.findall(r"^\{.*\}$", page.read_text("utf-8"), re.MULTILINE)
    disk = MemoryDisk()
    home = Home(disk, ROOT, "bids")
    with home.held(NOW):
        store = home.store(home.job(NOW, lambda: "1f3c09a2" * 4))
        state = {"subtask": 0, "groups": [0, 127], "document": store.put(b"abc").document()}
        time = "2026-01-31T08:01:10Z"
        store.commit(7, {"time": time, "states": {"totals": [state]}})
    written = [f"{home.checkpoints}/{name}" for name in ("manifests/7.json", "job.json")]
    assert [disk.read(path).decode() for path in written] == [f"{line}\n" for line in shown]


def test_two_jobs_of_one_root_share_nothing() -> None:
    disk = MemoryDisk()
    checkpointed(disk, 1)
    other = Home(disk, ROOT, "other")
    with other.held(NOW):
        assert other.store(other.job(NOW)).manifests() == []
    assert id_of(other) != id_of(home_on(disk))


def test_an_id_that_somebody_has_heard_of_survives_a_loss_of_power() -> None:
    for seed in range(20):
        disk = MemoryDisk()
        job = id_of(home_on(disk))
        disk.lose_power(random.Random(seed))
        assert id_of(home_on(disk)) == job


def test_an_id_that_could_not_be_synced_is_written_again_before_anybody_hears_of_it() -> None:
    for seed in range(20):
        disk = MemoryDisk()
        home = home_on(disk)
        with home.held(NOW):
            disk.before = Trouble(fail_on=f"sync_folder {home.checkpoints}")
            with pytest.raises(StoreError, match=r"cannot write .*/job\.json"):
                home.job(NOW)
        job = id_of(home)
        disk.lose_power(random.Random(seed))
        assert id_of(home) == job


def test_a_job_that_is_forgotten_is_another_one_afterwards_without_checkpoints() -> None:
    disk = MemoryDisk()
    before = checkpointed(disk, 1)
    home = home_on(disk)
    with home.held(NOW):
        home.forget()
        assert home.job(NOW) != before
        assert home.store(home.job(NOW)).manifests() == []


def test_a_job_is_forgotten_as_a_whole_or_not_at_all() -> None:
    operations, crash_at = True, 0
    while operations:
        for seed in range(4):
            disk = MemoryDisk()
            before, home = checkpointed(disk, 1), home_on(disk)
            disk.before = Trouble(crash_at=crash_at)
            operations = False
            try:
                with home.held(NOW):
                    home.forget()
            except Crashed:
                operations = True
            disk.before = Trouble()
            disk.kill() if seed == 0 else disk.lose_power(random.Random(seed))
            with home.held(NOW):
                job = home.job(NOW)
                store = home.store(job)
                assert (store.manifests() == [1]) == (job == before)
                assert not store.manifests() or store.is_whole(1)
                assert operations or job != before
                assert sorted(disk.names(home.folder)) == ["checkpoints", "lock"]
        crash_at += 1
    assert crash_at > 15


def test_the_end_of_a_job_leaves_nothing_but_its_lock() -> None:
    disk = MemoryDisk()
    checkpointed(disk, 1)
    home = home_on(disk)
    with home.held(NOW):
        assert home.finished() is None
        home.finish({"rows": 7})
        home.forget()
    for seed in range(5):
        disk.lose_power(random.Random(seed))
        with home.held(NOW):
            assert home.finished() == {"rows": 7}
    with home.held(NOW):
        home.clear()
    disk.lose_power(random.Random(0))
    with home.held(NOW):
        assert home.finished() is None
        assert disk.names(home.checkpoints) == []


def test_live_state_and_temporaries_of_a_dead_run_are_removed() -> None:
    disk = MemoryDisk()
    home = home_on(disk)
    checkpointed(disk, 1)
    disk.make_folder(f"{home.state}/3/totals-0")
    for path in (f"{home.state}/3/totals-0/CURRENT", f"{home.checkpoints}/job.json.tmp"):
        disk.write(path, (b"",))
    with home.held(NOW):
        assert sorted(disk.names(home.folder)) == ["checkpoints", "lock"]
        assert sorted(disk.names(home.checkpoints)) == ["blobs", "job.json", "manifests"]


def test_a_home_is_held_once_and_free_afterwards() -> None:
    home = home_on(MemoryDisk())
    with home.held(NOW) as killed:
        assert killed is None
        with (
            pytest.raises(HomeHeld, match=rf"lock is held by process \d+ on .*, since {NOW}"),
            home.held(NOW),
        ):
            raise AssertionError
    with home.held(NOW) as killed:
        assert killed is None


def test_a_run_that_failed_lets_go_of_its_home() -> None:
    home = home_on(MemoryDisk())
    with pytest.raises(ZeroDivisionError), home.held(NOW):
        _ = 1 // 0
    with home.held(NOW) as killed:
        assert killed is None
