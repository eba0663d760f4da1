"""Links, pipes and sockets in place of the files of a home: refused, and never waited for."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from headrace.core.api.snapshots import RefusedSnapshot
from headrace.state.savepoints.savepoint import open_savepoint
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.regular_files import IrregularFile
from tests.support.cli.command_line import Headrace
from tests.support.paths import SAVEPOINT_V1
from tests.support.state.checkpointing_job import NOW
from tests.support.state.manifests import build_blob_manifest

PIPELINE = """\
name: bids
sources:
  numbers: {generate: {rows: 3, columns: {x: id}}}
sinks:
  out: {from: numbers, files: {path: out}}
"""
HANG_S = 60


def make_link(path: Path) -> None:
    path.rename(path.with_name("aside"))
    path.symlink_to("aside")


def make_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    path.unlink()
    # The name of a socket is short.
    with chdir(path.parent), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.bind(path.name)


KINDS: dict[Callable[[Path], None], str] = {
    make_link: "a link",
    make_dangling_link: "a link",
    make_pipe: "a named pipe",
    make_socket: "a socket",
}
FILES = (
    "lock",
    "finished",
    "elsewhere.json",
    "checkpoints/job.json",
    "checkpoints/complete.json",
    "checkpoints/visible.json",
    "checkpoints/manifests/2.json",
)


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """Ends a test that waits for a pipe."""
    signal.alarm(HANG_S)
    yield
    signal.alarm(0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with two checkpoints, and all documents."""
    home = Home(LocalDisk(), str(tmp_path / ".headrace"), "bids")
    with home.hold(NOW):
        store = home.open_store(home.ensure_job_id(NOW))
        for number in (1, 2):
            store.commit(number, build_blob_manifest([store.put(b"%d" % number)]))
        home.write_completion_record({"checkpoint": 2, "time": NOW, "rows": {}})
        home.write_commit_record(1)
        home.mark_finished({"time": NOW})
    (tmp_path / ".headrace/bids/elsewhere.json").write_bytes(b"{}")
    return tmp_path / ".headrace/bids"


@pytest.mark.parametrize("replace", KINDS)
@pytest.mark.parametrize("name", FILES)
def test_a_run_refuses_what_is_no_regular_file(
    headrace: Headrace,
    monkeypatch: pytest.MonkeyPatch,
    home: Path,
    name: str,
    replace: Callable[[Path], None],
) -> None:
    if name not in ("finished", "elsewhere.json"):
        (home / "finished").unlink()
    if name != "elsewhere.json":
        (home / "elsewhere.json").unlink()
    folder = home.parent.parent
    (folder / "p.yaml").write_text(PIPELINE)
    replace(home / name)
    monkeypatch.chdir(folder)
    ran = headrace("run", "p.yaml")
    assert ran.status == 3, ran.err
    assert f"{home.relative_to(folder) / name}: it is {KINDS[replace]}, wanted a regular" in ran.err
    assert "move it away" in ran.err
    assert len(ran.err.splitlines()) == 2
    for command in (["jobs"], ["state", "ls", "bids"], ["stop", "bids"], ["validate", "p.yaml"]):
        ran = headrace(*command)
        assert "Traceback" not in ran.err
        assert "bug in headrace" not in ran.err


@pytest.mark.parametrize("name", ["checkpoints", "checkpoints/blobs", "notes", "state"])
def test_a_folder_of_a_home_that_is_a_link_is_refused(home: Path, name: str) -> None:
    if not (home / name).exists():
        (home / name).mkdir()
    make_link(home / name)
    with (
        pytest.raises(RefusedSnapshot, match=f"{name} is a link, wanted a folder"),
        Home(LocalDisk(), str(home.parent), "bids").hold(NOW),
    ):
        raise AssertionError


def test_a_home_may_be_a_link_itself(home: Path) -> None:
    make_link(home)
    opened = Home(LocalDisk(), str(home.parent), "bids")
    with opened.hold(NOW):
        assert opened.open_store(opened.ensure_job_id(NOW)).list_checkpoints() == [1, 2]


@pytest.mark.parametrize("replace", KINDS)
def test_a_savepoint_has_regular_files_only(
    tmp_path: Path, replace: Callable[[Path], None]
) -> None:
    folder = tmp_path / "saved"
    LocalDisk().make_folder(str(folder))
    (folder / "savepoint.json").write_bytes((SAVEPOINT_V1 / "v1" / "savepoint.json").read_bytes())
    replace(folder / "savepoint.json")
    with pytest.raises(RefusedSnapshot, match=f"it is {KINDS[replace]}, wanted a regular file"):
        open_savepoint(str(folder))


def test_a_device_is_no_regular_file() -> None:
    with pytest.raises(IrregularFile, match="it is a device"):
        LocalDisk().read("/dev/null")
