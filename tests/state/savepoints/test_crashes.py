"""A crash, and a failure, at every operation of the disk: of an export, and of an import."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from copy import deepcopy
from functools import cache, partial

import pytest

from headrace.core.api.snapshots import RefusedSnapshot, SnapshotError
from headrace.state.memory.backend import MemoryBackend
from headrace.state.savepoints import export, names
from headrace.state.savepoints.creation import take_savepoint
from headrace.state.savepoints.savepoint import Savepoint, commit_as_checkpoint, open_savepoint
from headrace.state.savepoints.writer import write_savepoint
from headrace.state.storage.home import Home
from headrace.state.storage.memory_disk import MemoryDisk
from tests.state.savepoints.test_savepoint import same
from tests.support.state.checkpointing_job import Crashed, Trouble
from tests.support.state.stored_state import NAME, NOW, ROOT, taken

TO = f"{ROOT}/savepoints/mine"
HOWS = ("killed", "power lost")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size at which a state is several files."""
    monkeypatch.setattr(export, "TARGET_FILE_BYTES", 1000)


@cache
def _made() -> MemoryDisk:
    disk = MemoryDisk()
    taken(disk, MemoryBackend())
    disk.kill()
    return disk


def home() -> tuple[Home, MemoryDisk]:
    """One with a checkpoint."""
    disk = deepcopy(_made())
    return Home(disk, ROOT, NAME), disk


def exported(at: Home) -> str:
    """A savepoint of its checkpoint."""
    return take_savepoint(at, "1.0", to=TO, time=lambda: NOW)


def arranged(disk: MemoryDisk, trouble: Trouble) -> Trouble:
    """Let this happen from now on."""
    disk.before_operation = trouble
    return trouble


def operations() -> int:
    """Return the number of operations of an export."""
    at, disk = home()
    trouble = arranged(disk, Trouble())
    exported(at)
    return trouble.operations


def end(disk: MemoryDisk, how: str, seed: int) -> None:
    """The process ends, or the system."""
    arranged(disk, Trouble())
    if how == "killed":
        disk.kill()
    else:
        disk.lose_power(random.Random(seed))


@pytest.mark.parametrize("how", HOWS)
def test_a_crash_at_any_operation_leaves_a_whole_savepoint_or_none(how: str) -> None:
    count, wholes = operations(), 0
    for crash_at in range(count + 1):
        at, disk = home()
        arranged(disk, Trouble(crash_at=crash_at))
        try:
            exported(at)
            is_reported = True
        except Crashed:
            is_reported = False
        end(disk, how, crash_at)
        is_there = disk.get_size(names.get_document_path(TO)) is not None
        assert is_there >= is_reported
        if is_there:
            open_savepoint(TO, disk).verify()
        else:
            # What was left is no reason not to write it now, and goes.
            exported(at)
            open_savepoint(TO, disk).verify()
        wholes += is_there
        assert disk.list_names(f"{ROOT}/savepoints") == ["mine"]
    assert 1 <= wholes < count / 2


def test_an_export_that_fails_anywhere_leaves_nothing_half_done() -> None:
    for fail_at in range(operations()):
        at, disk = home()
        arranged(disk, Trouble(fail_at=fail_at, code=errno.ENOSPC))
        try:
            exported(at)
        except SnapshotError:
            arranged(disk, Trouble())
            left = disk.list_names(f"{ROOT}/savepoints")
            assert set(left) <= {"mine", names.get_unfinished_folder("mine").removeprefix("/")}
            if "mine" in left:
                open_savepoint(TO, disk).verify()
            else:
                exported(at)
        open_savepoint(TO, disk).verify()


def test_another_one_that_is_being_written_is_left_alone() -> None:
    at, disk = home()
    other = f"{ROOT}/savepoints/other"

    def meanwhile(done: int, of: int) -> None:
        with pytest.raises(SnapshotError, match="another savepoint is being written to"):
            exported(at)
        if not disk.list_names(other):
            take_savepoint(at, "1.0", to=other)

    take_savepoint(at, "1.0", to=TO, report=meanwhile)
    assert sorted(disk.list_names(f"{ROOT}/savepoints")) == ["mine", "other"]


def written(disk: MemoryDisk, folder: str) -> str:
    """A savepoint of next to nothing; why not, if it is refused."""
    try:
        with write_savepoint(disk, folder) as to_write:
            to_write.write("states/totals/keys/0-3.parquet", memoryview(b"rows"))
            to_write.finish({"kind": "savepoint"})
    except RefusedSnapshot as error:
        return error.message
    return ""


class Meanwhile:
    """Does something else before an operation of the disk."""

    def __init__(self, at: int, does: Callable[[], object]) -> None:
        self.left = at
        self.does = does

    def __call__(self, operation: str, path: str) -> None:
        self.left -= 1
        if self.left == -1:
            self.does()


def interrupted(disk: MemoryDisk, at: int, does: Callable[[], object]) -> str:
    """Write one, and have something else happen in the midst of it; why not, if it is refused."""
    disk.before_operation = Meanwhile(at, does)
    return written(disk, TO)


def an_operation_each() -> range:
    """Of one that is written to a folder that is there."""
    disk = MemoryDisk()
    disk.make_folder(f"{ROOT}/savepoints")
    trouble = arranged(disk, Trouble())
    written(disk, TO)
    return range(trouble.operations)


def test_another_savepoint_may_be_written_at_any_time() -> None:
    for at in an_operation_each():
        disk, other = MemoryDisk(), f"{ROOT}/savepoints/other"
        disk.make_folder(f"{ROOT}/savepoints")
        assert not interrupted(disk, at, partial(written, disk, other))
        for folder in (TO, other):
            assert sorted(disk.list_names(folder)) == ["savepoint.json", "states"]
        assert sorted(disk.list_names(f"{ROOT}/savepoints")) == ["mine", "other"]


def test_of_two_that_are_written_to_one_folder_one_is_refused() -> None:
    for at in an_operation_each():
        disk = MemoryDisk()
        disk.make_folder(f"{ROOT}/savepoints")
        second: list[str] = []
        first = interrupted(disk, at, lambda d=disk, s=second: s.append(written(d, TO)))  # type: ignore[misc]
        assert [bool(first), bool(*second)].count(True) == 1, (at, first, second)
        assert sorted(disk.list_names(TO)) == ["savepoint.json", "states"]
        assert disk.list_names(f"{ROOT}/savepoints") == ["mine"]


@pytest.mark.parametrize("name", ["file", ".lock", "states"])
def test_a_folder_that_only_has_such_a_name_is_left_alone(name: str) -> None:
    foreign, disk = f"{ROOT}/savepoints/.theirs.unfinished", MemoryDisk()
    disk.make_folder(foreign)
    disk.write(f"{foreign}/{name}", (b"precious",))
    assert not written(disk, TO)
    assert disk.list_names(foreign) == [name]
    assert disk.read(f"{foreign}/{name}") == b"precious"
    said = written(disk, f"{ROOT}/savepoints/theirs")
    assert said == f"{foreign} exists and is not an unfinished savepoint"
    assert disk.list_names(foreign) == [name]


JOB = "5f44599b" * 4


def importing(disk: MemoryDisk, savepoint: Savepoint) -> None:
    """Have it in the place of what is there."""
    at = Home(disk, ROOT, NAME)
    with at.hold(NOW), at.replace_job(NOW, lambda: JOB) as store:
        commit_as_checkpoint(savepoint, store, 1)


@pytest.mark.parametrize("how", HOWS)
def test_a_crash_at_any_operation_leaves_the_home_as_it_was_or_the_savepoint_in_it(
    how: str,
) -> None:
    there, found = home()
    savepoint = open_savepoint(exported(there), found)
    _, disk = home()
    importing(disk, savepoint)
    trouble = arranged(disk, Trouble())
    importing(disk, savepoint)
    seen = set()
    for crash_at in range(trouble.operations + 1):
        _, disk = home()
        arranged(disk, Trouble(crash_at=crash_at))
        try:
            importing(disk, savepoint)
            is_reported = True
        except Crashed:
            is_reported = False
        end(disk, how, crash_at)
        at = Home(disk, ROOT, NAME)
        at.hold(NOW).__enter__()
        store = at.open_read_only()
        assert store is not None
        numbers = store.list_checkpoints()
        assert numbers == ([1] if store.job_id == JOB else [7])
        assert not is_reported or store.job_id == JOB
        assert store.is_whole(numbers[0])
        assert set(disk.list_names(at.folder)) == {"checkpoints", "lock"}
        seen.add(store.job_id == JOB)
    assert seen == {True, False}


def test_an_import_that_fails_anywhere_changes_nothing() -> None:
    there, found = home()
    savepoint = open_savepoint(exported(there), found)
    _, disk = home()
    trouble = arranged(disk, Trouble())
    importing(disk, savepoint)
    for fail_at in range(trouble.operations):
        at, disk = home()
        arranged(disk, Trouble(fail_at=fail_at))
        try:
            importing(disk, savepoint)
        except SnapshotError:
            arranged(disk, Trouble())
            disk.kill()
            with at.hold(NOW):
                store = at.open_read_only()
            assert store is not None
            assert store.list_checkpoints() == ([1] if store.job_id == JOB else [7])
            importing(disk, savepoint)


def test_what_was_imported_is_what_was_exported() -> None:
    at, disk = home()
    savepoint = open_savepoint(exported(at), disk)
    importing(disk, savepoint)
    store = at.open_read_only()
    assert store is not None
    manifest = store.read_manifest(1)
    assert manifest["savepoint"] == {"job": "1f3c09a2" * 4, "number": 7}
    assert (manifest["job"], manifest["number"], manifest["time"]) == (JOB, 1, NOW)
    assert "kind" not in manifest
    documents = manifest["states"]
    assert isinstance(documents, dict)
    thawed = [MemoryBackend().thaw(each, store) for (each,) in documents["step"]]
    same(thawed, savepoint.thaw_step("step"))
