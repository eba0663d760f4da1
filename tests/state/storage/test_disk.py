"""The disk that is there and the one in memory do the same, and one of them loses what it may."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from headrace.state.storage.disk import CHUNK_BYTES, Disk, write_atomically
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.state.checkpointing_job import Trouble


@pytest.fixture(params=["local", "memory"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return LocalDisk() if request.param == "local" else MemoryDisk()


@pytest.fixture
def folder(disk: Disk, tmp_path: Path) -> str:
    path = str(tmp_path / "a" / "b")
    disk.make_folder(path)
    return path


def test_what_is_written_is_read(disk: Disk, folder: str) -> None:
    data = random.Random(0).randbytes(2 * CHUNK_BYTES + 7)
    disk.write(f"{folder}/x", (data[:5], b"", memoryview(data)[5:]))
    assert disk.get_size(f"{folder}/x") == len(data)
    assert [len(piece) for piece in disk.read_chunks(f"{folder}/x")] == [
        CHUNK_BYTES,
        CHUNK_BYTES,
        7,
    ]
    assert disk.read(f"{folder}/x") == data


def test_numbers_in_memory_are_written_as_their_bytes(disk: Disk, folder: str) -> None:
    disk.write(f"{folder}/x", (memoryview(b"abcdefgh").cast("i"),))
    assert disk.read(f"{folder}/x") == b"abcdefgh"


def test_a_folder_is_made_with_those_above_it_and_once(disk: Disk, folder: str) -> None:
    disk.make_folder(f"{folder}/c/d")
    disk.make_folder(f"{folder}/c/d")
    assert disk.list_names(folder) == ["c"]
    disk.write(f"{folder}/file", ())
    with pytest.raises(NotADirectoryError):
        disk.make_folder(f"{folder}/file")
    with pytest.raises(NotADirectoryError):
        disk.make_folder(f"{folder}/file/below")


def test_what_is_not_there_is_nothing_or_an_error(disk: Disk, folder: str) -> None:
    assert disk.list_names(f"{folder}/none") == []
    assert disk.get_size(f"{folder}/none") is None
    disk.remove(f"{folder}/none")
    disk.remove_folder(f"{folder}/none")
    for call in (
        lambda: disk.read(f"{folder}/none"),
        lambda: disk.sync([f"{folder}/none"]),
        lambda: disk.rename(f"{folder}/none", f"{folder}/other"),
        lambda: disk.link(f"{folder}/none", f"{folder}/other"),
        lambda: disk.write(f"{folder}/none/x", ()),
    ):
        with pytest.raises(FileNotFoundError):
            call()


def test_a_name_that_is_taken_is_taken_by_a_rename_alone(disk: Disk, folder: str) -> None:
    for name in "xy":
        disk.write(f"{folder}/{name}", (name.encode(),))
    with pytest.raises(FileExistsError):
        disk.write(f"{folder}/x", ())
    with pytest.raises(FileExistsError):
        disk.link(f"{folder}/y", f"{folder}/x")
    disk.rename(f"{folder}/y", f"{folder}/x")
    assert disk.list_names(folder) == ["x"]
    assert disk.read(f"{folder}/x") == b"y"


def test_a_linked_file_outlives_its_first_name(disk: Disk, folder: str) -> None:
    disk.write(f"{folder}/x", (b"abc",))
    disk.link(f"{folder}/x", f"{folder}/y")
    disk.sync([f"{folder}/x", f"{folder}/y", f"{folder}/x"])
    disk.remove(f"{folder}/x")
    assert disk.read(f"{folder}/y") == b"abc"


def test_a_folder_goes_with_all_that_is_in_it(disk: Disk, folder: str) -> None:
    disk.make_folder(f"{folder}/c/d")
    disk.write(f"{folder}/c/d/x", ())
    disk.write(f"{folder}/c/y", ())
    disk.remove_folder(f"{folder}/c")
    assert disk.list_names(folder) == []


def test_a_lock_has_one_holder_and_stores_its_text(disk: Disk, folder: str) -> None:
    lock = disk.lock(f"{folder}/lock")
    assert lock is not None and disk.lock(f"{folder}/lock") is None
    lock.write(b"long words")
    lock.write(b"me")
    assert lock.read() == disk.read(f"{folder}/lock") == b"me"
    lock.release()
    again = disk.lock(f"{folder}/lock")
    assert again is not None and again.read() == b"me"
    again.release()


def test_what_is_published_replaces_what_was_there(disk: Disk, folder: str) -> None:
    for data in (b"one", b"two"):
        write_atomically(disk, f"{folder}/x", f"{folder}/x.tmp", data)
        assert disk.list_names(folder) == ["x"]
        assert disk.read(f"{folder}/x") == data


def lost(prepare: tuple[str, ...]) -> set[bytes | None]:
    """Return what is left of a file after power losses, when only this was done."""
    found: set[bytes | None] = set()
    for seed in range(200):
        disk = MemoryDisk()
        disk.write("/x.tmp", (b"abc",))
        for step in prepare:
            match step:
                case "sync":
                    disk.sync(["/x.tmp"])
                case "rename":
                    disk.rename("/x.tmp", "/x")
                case "sync_folder":
                    disk.sync_folder("/")
        disk.lose_power(random.Random(seed))
        names = disk.list_names("/")
        assert names in ([], ["x"], ["x.tmp"])
        found |= {disk.read(f"/{name}") for name in names} or {None}
    return found


def test_what_is_not_synced_may_be_lost_in_every_way() -> None:
    torn: set[bytes | None] = {b"abc", b"ab\0", b"a\0\0", b"\0\0\0", b"ab", b"a", b""}
    assert lost(("sync", "rename", "sync_folder")) == {b"abc"}
    assert lost(("sync", "rename")) == {b"abc", None}
    assert lost(("rename", "sync_folder")) == torn
    assert lost(("rename",)) == torn | {None}


def test_a_sync_that_failed_is_not_made_good_by_another() -> None:
    found = set()
    for seed in range(20):
        disk = MemoryDisk(Trouble(fail_on="sync /x"))
        disk.write("/x", (b"abc",))
        with pytest.raises(OSError, match="injected"):
            disk.sync(["/x"])
        disk.sync(["/x"])
        disk.sync_folder("/")
        disk.lose_power(random.Random(seed))
        found.add(disk.read("/x"))
    assert len(found) > 1


def test_a_full_disk_takes_what_fits() -> None:
    disk = MemoryDisk()
    disk.capacity = 4
    with pytest.raises(OSError, match="no space") as caught:
        disk.write("/x", (b"abc", b"def"))
    assert caught.value.errno == errno.ENOSPC
    assert disk.read("/x") == b"abcd"
    assert disk.measure_used_bytes() == 4


def test_a_disk_can_be_slow() -> None:
    clock = 0.0

    def wait(operation: str, path: str) -> None:
        nonlocal clock
        clock += 0.5

    disk = MemoryDisk(wait)
    write_atomically(disk, "/x", "/x.tmp", b"abc")
    assert clock == 0.5 * len(("remove", "create", "write", "sync", "rename", "sync_folder"))


def test_the_sync_of_many_files_fails_if_that_of_one_does(tmp_path: Path) -> None:
    paths = [str(tmp_path / str(number)) for number in range(20)]
    for path in paths:
        Path(path).write_bytes(b"")
    LocalDisk().sync(paths)
    Path(paths[13]).unlink()
    with pytest.raises(FileNotFoundError):
        LocalDisk().sync(paths)
