"""The commands that speak to a running job, in this process; the job runs in a thread."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from docs.snippets import ROOT
from headrace.cli.control import client
from headrace.core.asked import Status
from headrace.state.savepoints.savepoint import open_savepoint
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.cli.ran import Headrace
from tests.control.jobs import NOW, running


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


def test_a_rescale_says_how_long_the_job_stood_still(headrace: Headrace, tmp_path: Path) -> None:
    with running(tmp_path) as job:
        ran = headrace("rescale", "test", "--parallelism", "3", "--step", "out=1", "--home", "home")
        assert (ran.status, ran.err) == (0, "")
        assert re.fullmatch(r"test stood still for \d+\.\d\d s\n", ran.out)
        assert job.client.job()["parallelism"] == {"rows": 3, "totals": 3, "out": 1}
        again = headrace("rescale", "test", "--step", "out=1", "--home", "home")
        assert (again.status, again.out) == (0, "test has that parallelism already\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "wanted --parallelism, or --step, or both"),
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
        assert ran.err == f"test has stopped; it goes on from checkpoint {checkpoint}\n"
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


@pytest.mark.parametrize("command", [["savepoint"], ["stop"], ["rescale", "--parallelism", "2"]])
def test_what_does_not_run_cannot_be_asked(
    headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr(client, "START_S", 0.05)
    unknown = headrace(*command, "tset", "--home", "home")
    assert unknown.status == 2
    assert unknown.err.startswith('headrace: there is no job "tset" in home\n')
    home = Home(LocalDisk(), str(tmp_path / "home"), "test")
    with home.held(NOW):
        starting = headrace(*command, "test", "--home", "home")
    assert starting.status == 3
    assert starting.err.startswith(
        "headrace: test is starting, or about to end: it cannot be asked"
    )
    assert 'did you mean "test"?' in headrace(*command, "tset", "--home", "home").err
    stopped = headrace(*command, "test", "--home", "home")
    assert stopped.status == 3
    assert stopped.err.startswith("headrace: test is not running\n")
    (tmp_path / "other.yaml").write_text("name: other")
    other = headrace(*command, "other.yaml", "--home", "home")
    assert (other.status, "other is not running" in other.err) == (3, True)
    assert headrace(*command, "none.yaml", "--home", "home").status == 2


def test_jobs_lists_what_runs_and_what_can_go_on(headrace: Headrace, tmp_path: Path) -> None:
    nothing = headrace("jobs", "--home", "home")
    assert (nothing.status, nothing.out, nothing.err) == (0, "", "there are no jobs in home\n")
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


def test_jobs_tells_who_starts_who_was_killed_and_what_is_damaged(
    headrace: Headrace, tmp_path: Path
) -> None:
    with running(tmp_path) as job:
        job.ended(job.asked("/v1/stop"))
        job.over()
    home = Home(LocalDisk(), str(tmp_path / "home"), "test")
    with home.held(NOW):
        (told,) = json.loads(headrace("jobs", "--json", "--home", "home").out)
        assert told["status"] == "starting"
        said = Path(home.folder, "lock").read_bytes()
    Path(home.folder, "lock").write_bytes(said)
    (told,) = json.loads(headrace("jobs", "--json", "--home", "home").out)
    assert told["status"] == "killed"
    Path(home.checkpoints, "job.json").write_text("?")
    (told,) = json.loads(headrace("jobs", "--json", "--home", "home").out)
    assert (told["status"], "job.json" in told["why"]) == ("damaged", True)


def test_the_page_names_what_jobs_tells(headrace: Headrace, tmp_path: Path) -> None:
    with running(tmp_path):
        (told,) = json.loads(headrace("jobs", "--json", "--home", "home").out)
    page = (ROOT / "docs" / "control.md").read_text("utf-8")
    assert told.keys() >= {"name", "uptime_s"}
    assert not [name for name in told if f"`{name}`" not in page]
    assert not [each for each in get_args(Status) if f"`{each}`" not in page]
