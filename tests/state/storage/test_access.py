"""Files of homes and savepoints are their owner's only, or a group's on purpose."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.state.rocks.database import SharedCaches
from headrace.state.rocks.memory_budget import SnapshotGuard
from headrace.state.rocks.step_directory import StepDirectory
from headrace.state.storage.access import restrict_access
from headrace.state.storage.batch_home import hold_batch_home
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.support.cli.command_line import Headrace
from tests.support.state.checkpointing_job import NOW
from tests.support.state.manifests import build_blob_manifest

PIPELINE = """\
name: private
settings: {state: {backend: rocksdb, memory: 1KB}, checkpoint: {every: 50ms}}
sources:
  numbers: {generate: {rows: 3000, rate: 6000/s, columns: {x: id}}}
steps:
  firsts: {from: numbers, dedup: {key: [x], keep: first}}
  windows: {from: numbers, key: x, window: {count: 5000}, aggregate: {n: count(*)}}
sinks:
  out: {from: firsts, files: {path: out}}
  out_windows: {from: windows, files: {path: windows}}
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def list_open(folder: Path, bits: int = 0o077) -> list[str]:
    """The files and folders below that others may access, and the folder itself."""
    return [str(path) for path in (folder, *folder.rglob("*")) if mode(path) & bits]


@contextmanager
def umask(bits: int) -> Iterator[None]:
    before = os.umask(bits)
    try:
        yield
    finally:
        os.umask(before)


def open_up(folder: Path) -> None:
    """Make everything as an earlier version did, with the usual umask."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def write_checkpoint(home: Home) -> None:
    with home.hold(NOW):
        store = home.open_store(home.ensure_job_id(NOW))
        number = 1 + max(store.list_checkpoints(), default=0)
        store.commit(number, build_blob_manifest([store.put(b"%d" % number)]))
        home.notes.write("out", {"a": 1})


def test_a_home_and_all_in_it_are_of_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    with umask(0):
        write_checkpoint(Home(LocalDisk(), str(tmp_path / "made" / "here"), "bids"))
    assert (tmp_path / "made/here/bids/notes/out.json").is_file()
    assert not list_open(tmp_path / "made")


def test_a_linked_file_of_other_code_is_restricted(tmp_path: Path) -> None:
    home = Home(LocalDisk(), str(tmp_path / "home"), "bids")
    made = tmp_path / "000001.sst"
    made.write_bytes(b"rows")
    made.chmod(0o664)
    with home.hold(NOW):
        store = home.open_store(home.ensure_job_id(NOW))
        store.commit(1, build_blob_manifest([store.put_file(str(made))]))
    assert made.stat().st_nlink == 2
    assert not list_open(tmp_path / "home")


def test_an_old_home_is_restricted_once_and_links_are_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "bids"
    write_checkpoint(Home(LocalDisk(), str(tmp_path), "bids"))
    open_up(folder)
    other = tmp_path / "other"
    other.write_text("of somebody else")
    other.chmod(0o644)
    (folder / "link").symlink_to(other)
    os.mkfifo(folder / "pipe")
    line = restrict_access(str(folder))
    assert line == f"other users had access to {folder}; now only its owner has"
    (folder / "link").unlink()
    (folder / "pipe").unlink()
    assert not list_open(folder)
    assert mode(other) == 0o644
    assert restrict_access(str(folder)) == ""
    assert restrict_access(str(tmp_path / "none")) == ""


def test_a_folder_that_is_shared_on_purpose_stays_its_groups(tmp_path: Path) -> None:
    root = tmp_path / "homes"
    root.mkdir()
    root.chmod(0o2770)
    with umask(0o022):
        write_checkpoint(Home(LocalDisk(), str(root), "bids"))
    assert mode(root / "bids" / "checkpoints" / "blobs") == 0o2770
    files = [path for path in root.rglob("*") if path.is_file()]
    assert {mode(path) for path in files} == {0o660}
    assert restrict_access(str(root / "bids")) == ""
    (root / "bids").chmod(0o2775)
    files[0].chmod(0o666)
    assert restrict_access(str(root / "bids")).endswith("now only its group has")
    assert mode(root / "bids") == 0o2770
    assert mode(files[0]) == 0o660


def test_a_run_restricts_its_home_and_savepoints_and_says_it_once(headrace: Headrace) -> None:
    Path("p.yaml").write_text(PIPELINE)
    home, savepoint = Path(".headrace/private"), Path(".headrace/@savepoints/private/old")
    for folder in (home / "checkpoints", savepoint):
        folder.mkdir(parents=True)
        (folder / "file.txt").write_text("old")
    open_up(Path(".headrace"))
    ran = headrace("run", "p.yaml")
    assert ran.status == 0, ran.err
    for folder in (home, savepoint.parent):
        told = f"other users had access to {folder.absolute()}; now only its owner has"
        assert ran.err.count(told) == 1
        assert not list_open(folder)
    assert "other users" not in headrace("run", "p.yaml").err


def test_a_batch_restricts_the_home_of_its_job(tmp_path: Path) -> None:
    write_checkpoint(Home(LocalDisk(), str(tmp_path), "bids"))
    open_up(tmp_path / "bids")
    told: list[str] = []
    for _ in range(2):
        with hold_batch_home(str(tmp_path), "bids", NOW, report=told.append) as batch:
            batch.record({"sinks": {}})
    assert told == [f"other users had access to {tmp_path}/bids; now only its owner has"]
    assert not list_open(tmp_path / "bids")


def test_files_of_a_database_are_private_whatever_the_umask(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "0"
    with umask(0):
        directory = StepDirectory(str(folder), lambda: SharedCaches(1 << 20), SnapshotGuard())
        directory.get_database().put("rows", [b"a"], [b"b"])
        directory.get_database().copy_to(str(folder / "cut"))
    assert list(folder.rglob("*.sst"))
    assert not list_open(tmp_path / "state")
    directory.close()
