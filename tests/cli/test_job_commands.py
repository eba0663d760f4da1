"""The commands that speak to a running job, in this process; the job runs in a thread."""

import json
import os
import re
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

import pytest

from docs.snippets import ROOT
from headrace.cli.control import client, job_socket
from headrace.cli.errors import Refusal
from headrace.core.job.lifecycle import JobStatus
from headrace.state.savepoints.savepoint import open_savepoint
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.support.cli.command_line import Headrace
from tests.support.cli.controlled_jobs import LONGEST_S, NOW, running


def test_a_savepoint_is_its_path_alone(headrace: Headrace, tmp_path: Path) -> None:
    with running(tmp_path):
        for arguments in (["test"], ["p.yaml", "--to", "there"]):
            ran = headrace("savepoint", *arguments, "--home", "home")
            assert (ran.status, ran.err) == (0, "")
            (path,) = ran.out.splitlines()
            assert Path(path).is_absolute()
            open_savepoint(path)
        assert path == str(tmp_path / "there")
        again = headrace("savepoint", "test", "--to", "there", "--home", "home")
        assert (again.status, again.out) == (3, "")
        assert again.err.startswith("headrace: test: ")
        taken = headrace("savepoint", "test", "--to", "p.yaml", "--home", "home")
        assert (taken.status, f"{tmp_path / 'p.yaml'} is a file\n" in taken.err) == (3, True)


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("", 'wanted the folder of a savepoint, got ""'),
        ("foo://x/y", "wanted s3://bucket/path, gs://bucket/path or az://container/path, got foo"),
        ("s3://key:word@x/y", "got an address with credentials in it"),
    ],
)
def test_a_place_that_is_none_is_a_wrong_command_line(
    headrace: Headrace, tmp_path: Path, to: str, said: str
) -> None:
    with running(tmp_path) as job:
        ran = headrace("savepoint", "test", "--to", to, "--home", "home")
        assert (ran.status, ran.out, said in ran.err) == (2, "", True), ran.err
        assert "word" not in ran.err
        assert job.client.fetch_job()["status"] in ("starting", "running")


def test_a_rescale_reports_how_long_the_job_was_paused(headrace: Headrace, tmp_path: Path) -> None:
    with running(tmp_path) as job:
        ran = headrace("rescale", "test", "--parallelism", "3", "--step", "out=1", "--home", "home")
        assert (ran.status, ran.err) == (0, "")
        assert re.fullmatch(r"test paused for \d+\.\d\d s\n", ran.out)
        assert job.client.fetch_job()["parallelism"] == {"rows": 3, "totals": 3, "out": 1}
        again = headrace("rescale", "test", "--step", "out=1", "--home", "home")
        assert (again.status, again.out) == (0, "test has that parallelism already\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "wanted --parallelism, --workers or --step"),
        (["--parallelism", "0"], "wanted a whole number from 1 on"),
        (["--step", "totals"], "wanted NAME=N"),
        (["--step", "totals=x"], "wanted NAME=N"),
        (["--step", "total=2"], 'did you mean "totals"?'),
        (["--parallelism", "9"], "from 1 to 8, got 9"),
    ],
)
def test_a_wrong_parallelism_is_a_wrong_command_line(
    headrace: Headrace, tmp_path: Path, arguments: list[str], said: str
) -> None:
    with running(tmp_path):
        ran = headrace("rescale", "test", *arguments, "--home", "home")
        assert (ran.status, ran.out) == (2, "")
        assert said in ran.err


def test_a_stop_waits_for_the_end(headrace: Headrace, tmp_path: Path) -> None:
    with running(tmp_path) as job:
        ran = headrace("stop", "test", "--home", "home")
        assert (ran.status, ran.out) == (0, "")
        checkpoint = job.over().checkpoint
        assert (
            ran.err
            == f"test has stopped at checkpoint {checkpoint}; the next run resumes from it\n"
        )
        again = headrace("stop", "test", "--home", "home")
        assert (again.status, again.out) == (3, "")
        assert again.err.startswith("headrace: test is not running\n")


@pytest.mark.parametrize("drain", [[], ["--drain"]])
def test_a_stop_with_a_savepoint_is_its_path_alone(
    headrace: Headrace, tmp_path: Path, drain: list[str]
) -> None:
    with running(tmp_path):
        ran = headrace("stop", "test", "--savepoint", "there", *drain, "--home", "home")
        assert (ran.status, ran.out, ran.err) == (0, f"{tmp_path / 'there'}\n", "")
        assert bool(open_savepoint("there").document.get("drained")) == bool(drain)


def test_a_stop_whose_savepoint_fails_says_what_there_is(
    headrace: Headrace, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with running(tmp_path) as job:
        ran = headrace("stop", "test", "--savepoint", "full", "--home", "home")
        checkpoint = job.over().checkpoint
    assert (ran.status, ran.out) == (3, "")
    assert ran.err.startswith("headrace: test: ")
    left = f"test has stopped at checkpoint {checkpoint}; "
    makes = f"to make a savepoint of its checkpoint {checkpoint}: headrace state export test"
    assert ran.err.endswith(f"\n      {left}{makes} --home home\n")
    export = headrace("state", "export", "test", "--home", "home")
    assert open_savepoint(export.out.strip()).number == checkpoint


@pytest.mark.parametrize("what", ["p.yaml", "test"])
def test_a_first_run_that_is_starting_is_waited_for(tmp_path: Path, what: str) -> None:
    (tmp_path / "p.yaml").write_text("name: test\n")
    lock = tmp_path / "home" / "test" / "lock"
    steps: list[Callable[[], object]] = [
        lock.parent.mkdir,
        lock.touch,
        lambda: lasting.enter_context(running(tmp_path)),
    ]
    with ExitStack() as lasting:

        def pause(_: float) -> None:
            if steps:
                steps.pop(0)()

        (tmp_path / "home").mkdir()
        asks = client.find_client(
            str(tmp_path / what) if "." in what else what, str(tmp_path / "home"), pause
        )
        assert asks.wait_for_job(str)["name"] == "test"


def test_a_job_that_was_stopped_is_not_waited_for(tmp_path: Path) -> None:
    home = Home(LocalDisk(), str(tmp_path / "home"), "test")
    with home.hold(NOW):
        pass

    def pause(_: float) -> None:
        raise AssertionError("it is waited for")

    with pytest.raises(Refusal, match="test is not running"):
        client.find_client("test", home.root, pause).wait_for_job(str)


@pytest.mark.parametrize("command", [["savepoint"], ["stop"], ["rescale", "--parallelism", "2"]])
def test_an_interrupt_before_the_request_is_reported(
    headrace: Headrace, tmp_path: Path, command: list[str]
) -> None:
    home = Home(LocalDisk(), str(tmp_path / "home"), "test")

    def interrupt() -> None:
        with listener.accept()[0]:
            os.kill(os.getpid(), signal.SIGINT)
            answered.wait(LONGEST_S)

    answered = threading.Event()
    with home.hold(NOW), job_socket.open_listener(home.folder) as listener:
        listener.setblocking(True)
        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        ran = headrace(*command, "test", "--home", "home")
        answered.set()
        thread.join(LONGEST_S)
    assert (ran.status, ran.out, ran.err) == (130, "", "headrace: no request was sent to test\n")


@pytest.mark.parametrize("command", [["savepoint"], ["stop"], ["rescale", "--parallelism", "2"]])
def test_requests_to_a_job_that_does_not_run_are_refused(
    headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr(client, "START_TIMEOUT_S", 0.05)
    monkeypatch.setattr(client, "HOME_TIMEOUT_S", 0.05)
    unknown = headrace(*command, "tset", "--home", "home")
    assert unknown.status == 2
    assert unknown.err.startswith('headrace: there is no job "tset" in home\n')
    home = Home(LocalDisk(), str(tmp_path / "home"), "test")
    with home.hold(NOW):
        starting = headrace(*command, "test", "--home", "home")
    assert starting.status == 3
    assert starting.err.startswith("headrace: test is starting or ending, and takes no requests")
    assert 'did you mean "test"?' in headrace(*command, "tset", "--home", "home").err
    stopped = headrace(*command, "test", "--home", "home")
    assert stopped.status == 3
    assert stopped.err.startswith("headrace: test is not running\n")
    (tmp_path / "other.yaml").write_text("name: other")
    other = headrace(*command, "other.yaml", "--home", "home")
    assert (other.status, "other is not running" in other.err) == (3, True)
    assert headrace(*command, "none.yaml", "--home", "home").status == 2


@pytest.mark.parametrize("command", [["savepoint"], ["stop"], ["rescale", "--parallelism", "2"]])
def test_a_request_is_not_sent_through_a_link(
    headrace: Headrace, tmp_path: Path, command: list[str]
) -> None:
    home = Home(LocalDisk(), str(tmp_path / "home"), "test")
    path = Path(job_socket.socket_path(home.folder))
    with home.hold(NOW), job_socket.open_listener(home.folder) as listener:
        listener.setblocking(False)
        path.rename(tmp_path / "other.sock")
        path.symlink_to(tmp_path / "other.sock")
        ran = headrace(*command, "test", "--home", "home")
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert ran.status == 3
    assert "control.sock: it is a link, wanted a socket" in ran.err
    assert "end its process, and start it again" in ran.err


def test_jobs_lists_running_and_resumable_jobs(headrace: Headrace, tmp_path: Path) -> None:
    nothing = headrace("jobs")
    assert (nothing.status, nothing.out, nothing.err) == (0, "", "there are no jobs in .headrace\n")
    none = headrace("jobs", "--home", "home")
    assert (none.status, none.err.splitlines()[0]) == (2, "headrace: there is no folder home")
    with running(tmp_path) as job:
        job.ended(job.asked("/v1/savepoints"))
        job.until_read(10)
        heads, row = headrace("jobs", "--home", "home").out.splitlines()
        assert heads.split() == "job status uptime in/s out/s checkpoint taken".split()
        assert row.split()[:2] == ["test", "running"]
        (told,) = json.loads(headrace("jobs", "--json", "--home", "home").out)
        assert (told["status"], told["checkpoint"], told["rows_in"]) == ("running", 1, 10)
        job.ended(job.asked("/v1/stop", drain=True))
        checkpoint = job.over().checkpoint
    (stopped,) = json.loads(headrace("jobs", "--json", "--home", "home").out)
    assert (stopped["status"], stopped["checkpoint"]) == ("stopped", checkpoint)
    assert (stopped["taken_at"], stopped["drained"]) == (NOW, True)
    _, row = headrace("jobs", "--home", "home").out.splitlines()
    assert row.split()[0::2][:2] == ["test", str(checkpoint)]
    assert row.endswith("drained")


def test_jobs_lists_starting_killed_and_damaged_jobs(headrace: Headrace, tmp_path: Path) -> None:
    with running(tmp_path) as job:
        job.ended(job.asked("/v1/stop"))
        job.over()
    home = Home(LocalDisk(), str(tmp_path / "home"), "test")
    with home.hold(NOW):
        (told,) = json.loads(headrace("jobs", "--json", "--home", "home").out)
        assert told["status"] == "starting"
        said = Path(home.folder, "lock").read_bytes()
    Path(home.folder, "lock").write_bytes(said)
    (told,) = json.loads(headrace("jobs", "--json", "--home", "home").out)
    assert told["status"] == "killed"
    Path(home.checkpoint_folder, "job.json").write_text("?")
    (told,) = json.loads(headrace("jobs", "--json", "--home", "home").out)
    assert (told["status"], "job.json" in told["why"]) == ("damaged", True)


def test_the_page_names_what_jobs_tells(headrace: Headrace, tmp_path: Path) -> None:
    with running(tmp_path):
        (told,) = json.loads(headrace("jobs", "--json", "--home", "home").out)
    page = (ROOT / "docs" / "control.md").read_text("utf-8")
    assert told.keys() >= {"name", "uptime_s"}
    assert not [name for name in told if f"`{name}`" not in page]
    assert not [each for each in get_args(JobStatus) if f"`{each}`" not in page]
