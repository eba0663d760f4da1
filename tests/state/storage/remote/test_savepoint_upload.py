"""A folder goes to a bucket as a whole or not at all, and is read there by its paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.api.snapshots import RefusedSnapshot, SnapshotError
from headrace.state.savepoints.names import LOCK, MANIFEST
from headrace.state.savepoints.upload import check_empty, upload_savepoint
from headrace.state.storage.remote.bucket import Bucket
from headrace.state.storage.remote.bucket_disk import BucketDisk, resolve_storage_url
from tests.support.s3.failing_bucket import FAULTS, Fault, Troubled, World
from tests.support.state.checkpointing_job import Crashed

FILES = {
    "states/totals/keys/000-063.parquet": b"one",
    "states/totals/keys/064-127.parquet": b"two",
    MANIFEST: b"all that is said",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The savepoint to upload."""
    for name, data in FILES.items():
        path = tmp_path / "monday" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "monday"


def test_a_folder_goes_to_a_bucket_with_what_it_says_last(folder: Path) -> None:
    world = World()
    upload_savepoint(str(folder), Troubled(world))
    assert world.log[-2:] == [f"create {MANIFEST}", "remove 1"]
    assert set(world.bucket.list_objects()) == set(FILES)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_leaves_all_of_it_or_nothing_that_looks_like_it(folder: Path, fault: Fault) -> None:
    for at in range(len(["list", "lock", *FILES])):
        world = World()
        try:
            upload_savepoint(str(folder), Troubled(world, {at: fault}))
        except (SnapshotError, Crashed) as error:
            if isinstance(error, SnapshotError):
                assert set(world.bucket.list_objects()) <= {LOCK}
            assert MANIFEST not in world.bucket.list_objects() or fault == "crash after"
        else:
            world.deliver()
            assert set(world.bucket.list_objects()) == set(FILES)


def test_a_cancelled_savepoint_leaves_nothing(folder: Path) -> None:
    def give_up() -> None:
        if len(world.log) > 2:
            raise KeyboardInterrupt

    world = World()
    with pytest.raises(KeyboardInterrupt):
        upload_savepoint(str(folder), Troubled(world), give_up)
    assert world.log[2].startswith("put states")
    assert not world.bucket.list_objects()


def test_a_place_that_holds_something_is_refused(folder: Path) -> None:
    world = World()
    world.bucket.put("a note", b"")
    with pytest.raises(RefusedSnapshot, match="s3://bucket/bids is not empty"):
        check_empty(Troubled(world))
    world.bucket.remove(["a note"])
    upload_savepoint(str(folder), Troubled(world))
    with pytest.raises(RefusedSnapshot, match="is a savepoint"):
        check_empty(Troubled(world))
    with pytest.raises(RefusedSnapshot, match="is a savepoint"):
        upload_savepoint(str(folder), Troubled(world))


def test_two_that_write_to_one_place_do_not_mix(folder: Path) -> None:
    world = World()

    def other() -> None:
        with pytest.raises(RefusedSnapshot):
            upload_savepoint(str(folder), Troubled(world))

    upload_savepoint(str(folder), Troubled(world), other)
    assert set(world.bucket.list_objects()) == set(FILES)


def test_a_bucket_is_read_by_paths(folder: Path, there: Bucket) -> None:
    upload_savepoint(str(folder), there)
    disk, top = BucketDisk(there), there.address
    assert disk.list_names(top) == [MANIFEST, "states"]
    assert disk.list_names(f"{top}/states/totals/keys") == ["000-063.parquet", "064-127.parquet"]
    assert disk.list_names(f"{top}/nothing") == []
    assert (disk.get_size(f"{top}/{MANIFEST}"), disk.get_size(f"{top}/nothing")) == (16, None)
    assert {name: disk.read(f"{top}/{name}") for name in FILES} == FILES
    for change in (disk.make_folder, disk.remove, disk.remove_folder, disk.lock):
        with pytest.raises(OSError, match="Read-only"):
            change(f"{top}/states")


def test_an_address_with_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(RefusedSnapshot) as caught:
        resolve_storage_url("s3://key:word@bucket/path")
    assert "word" not in str(caught.value) and "environment" in caught.value.hint
    with pytest.raises(RefusedSnapshot, match="got hdfs://bucket/path"):
        resolve_storage_url("hdfs://bucket/path")
