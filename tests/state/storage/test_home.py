"""Contents of a home: the job's id, its finished mark, and its lock."""

from __future__ import annotations

import random
import re

import pytest

from headrace.core.api.snapshots import StoreError
from headrace.core.checkpoint.completion_record import CompletionRecord
from headrace.state.storage.home import Home
from headrace.state.storage.home_lock import HomeLocked
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support import paths
from tests.support.state.checkpointing_job import NAME, NOW, ROOT, Crashed, Trouble
from tests.support.state.manifests import build_blob_manifest


def home_on(disk: MemoryDisk) -> Home:
    return Home(disk, ROOT, NAME)


def id_of(home: Home) -> str:
    """The id, as a run learns it."""
    with home.hold(NOW):
        return home.ensure_job_id(NOW)


def checkpointed(disk: MemoryDisk, number: int) -> str:
    """The id of a job that has taken a checkpoint."""
    home = home_on(disk)
    with home.hold(NOW):
        store = home.open_store(home.ensure_job_id(NOW))
        store.commit(number, build_blob_manifest([store.put(b"abc")]))
        return home.ensure_job_id(NOW)


def test_a_job_keeps_its_id_from_one_run_to_the_next() -> None:
    disk = MemoryDisk()
    assert id_of(home_on(disk)) == id_of(home_on(disk))


CHECKSUMMED = ("manifests/7.json", "job.json", "complete.json")


def test_the_page_shows_what_is_written() -> None:
    page = paths.ROOT / "docs" / "snapshots.md"
    shown = re.findall(r"^\{.*\}$", page.read_text("utf-8"), re.MULTILINE)
    disk = MemoryDisk()
    home = Home(disk, ROOT, "bids")
    with home.hold(NOW):
        store = home.open_store(home.ensure_job_id(NOW, lambda: "1f3c09a2" * 4))
        state = {"subtask": 0, "groups": [0, 127], "document": store.put(b"abc").to_document()}
        time = "2026-01-31T08:01:10Z"
        store.commit(7, {"time": time, "states": {"totals": [state]}})
        written = [disk.read(f"{home.checkpoint_folder}/{name}") for name in CHECKSUMMED[:2]]
        record = CompletionRecord(44, time, {"kept": 21500}).return_to(42, 44)
        home.write_completion_record(record.to_document())
        written.append(disk.read(f"{home.checkpoint_folder}/{CHECKSUMMED[2]}"))
    assert [data.decode() for data in written] == [f"{line}\n" for line in shown]


def test_two_jobs_of_one_root_share_nothing() -> None:
    disk = MemoryDisk()
    checkpointed(disk, 1)
    other = Home(disk, ROOT, "other")
    with other.hold(NOW):
        assert other.open_store(other.ensure_job_id(NOW)).list_checkpoints() == []
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
        with home.hold(NOW):
            disk.before_operation = Trouble(fail_on=f"sync_folder {home.checkpoint_folder}")
            with pytest.raises(StoreError, match=r"cannot write .*/job\.json"):
                home.ensure_job_id(NOW)
        job = id_of(home)
        disk.lose_power(random.Random(seed))
        assert id_of(home) == job


def test_a_deleted_job_starts_with_another_id_and_no_checkpoints() -> None:
    disk = MemoryDisk()
    before = checkpointed(disk, 1)
    home = home_on(disk)
    with home.hold(NOW):
        home.delete_job()
        assert home.ensure_job_id(NOW) != before
        assert home.open_store(home.ensure_job_id(NOW)).list_checkpoints() == []


def test_a_job_is_deleted_as_a_whole_or_not_at_all() -> None:
    operations, crash_at = True, 0
    while operations:
        for seed in range(4):
            disk = MemoryDisk()
            before, home = checkpointed(disk, 1), home_on(disk)
            disk.before_operation = Trouble(crash_at=crash_at)
            operations = False
            try:
                with home.hold(NOW):
                    home.delete_job()
            except Crashed:
                operations = True
            disk.before_operation = Trouble()
            disk.kill() if seed == 0 else disk.lose_power(random.Random(seed))
            with home.hold(NOW):
                job = home.ensure_job_id(NOW)
                store = home.open_store(job)
                assert (store.list_checkpoints() == [1]) == (job == before)
                assert not store.list_checkpoints() or store.is_whole(1)
                assert operations or job != before
                assert sorted(disk.list_names(home.folder)) == ["checkpoints", "lock"]
        crash_at += 1
    assert crash_at > 15


def test_the_end_of_a_job_leaves_nothing_but_its_lock() -> None:
    disk = MemoryDisk()
    checkpointed(disk, 1)
    home = home_on(disk)
    with home.hold(NOW):
        assert home.read_finished() is None
        home.mark_finished({"rows": 7})
        home.delete_job()
    for seed in range(5):
        disk.lose_power(random.Random(seed))
        with home.hold(NOW):
            assert home.read_finished() == {"rows": 7}
    with home.hold(NOW):
        home.clear_finished()
    disk.lose_power(random.Random(0))
    with home.hold(NOW):
        assert home.read_finished() is None
        assert disk.list_names(home.checkpoint_folder) == []


def test_live_state_and_temporaries_of_a_dead_run_are_removed() -> None:
    disk = MemoryDisk()
    home = home_on(disk)
    checkpointed(disk, 1)
    disk.make_folder(f"{home.state_folder}/3/totals-0")
    for path in (
        f"{home.state_folder}/3/totals-0/CURRENT",
        f"{home.checkpoint_folder}/job.json.tmp",
    ):
        disk.write(path, (b"",))
    with home.hold(NOW):
        assert sorted(disk.list_names(home.folder)) == ["checkpoints", "lock"]
        assert sorted(disk.list_names(home.checkpoint_folder)) == ["blobs", "job.json", "manifests"]


def test_a_home_is_held_once_and_free_afterwards() -> None:
    home = home_on(MemoryDisk())
    with home.hold(NOW) as killed:
        assert killed is None
        with (
            pytest.raises(HomeLocked, match=rf"lock is held by process \d+ on .*, started {NOW}"),
            home.hold(NOW),
        ):
            raise AssertionError
    with home.hold(NOW) as killed:
        assert killed is None


def test_a_run_that_failed_lets_go_of_its_home() -> None:
    home = home_on(MemoryDisk())
    with pytest.raises(ZeroDivisionError), home.hold(NOW):
        _ = 1 // 0
    with home.hold(NOW) as killed:
        assert killed is None
