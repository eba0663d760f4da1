"""Servers, their jobs and the commands on these, each in a process of its own; and killed ones."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli.processes import start
from tests.support.cli.servers import ServedFolder, endless, is_complete, served_folder, until

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ServedFolder]:
    with served_folder(tmp_path) as folder:
        yield folder


def test_a_server_runs_what_ran_and_not_what_was_stopped(home: ServedFolder) -> None:
    (home.path / "queue.py").write_text("raise ImportError('not the standard library')\n")
    home.write("a")
    home.write("b")
    server = home.start()
    home.until_checkpoint("a")
    home.until_checkpoint("b")
    assert home.run("stop", "b").returncode == 0
    assert home.end(server) == 0
    assert home.list_processes() == {}
    assert {name: job["status"] for name, job in home.list_jobs().items()} == dict.fromkeys(
        ("a", "b"), "stopped"
    )
    home.write("c")
    server = home.start()
    before = home.until_checkpoint("a")["checkpoint"]
    jobs = until(lambda: (found := home.list_jobs()) and "c" in found and found)
    assert (jobs["b"]["status"], jobs["c"]["status"]) == ("stopped", "new")
    listed = json.loads(home.run("jobs", "--json").stdout)
    assert [(job["name"], job["status"]) for job in listed] == [
        ("a", "running"),
        ("b", "stopped"),
        ("c", "new"),
    ]
    assert home.run("restart", "b").returncode == 0
    home.until_checkpoint("b")
    home.until_checkpoint("a", before)
    assert home.end(server) == 0
    assert is_complete(home.read_numbers("a"))
    assert is_complete(home.read_numbers("b"))


def test_a_killed_job_is_started_again_and_no_row_is_lost(home: ServedFolder) -> None:
    home.write("a")
    server = home.start()
    job = home.until_checkpoint("a")
    os.kill(job["pid"], signal.SIGSTOP)
    silent = home.client.fetch_job("a")
    assert (silent["status"], silent["pid"]) == ("silent", job["pid"])
    os.kill(job["pid"], signal.SIGKILL)
    again = home.until_checkpoint("a", job["checkpoint"])
    assert again["pid"] != job["pid"]
    assert "a: failed: ended by SIGKILL; restarts in 1 s" in home.printed()
    home.end(server)
    assert is_complete(home.read_numbers("a"))
    last, killed = json.loads(home.run("jobs", "--history", "--json").stdout)
    assert (killed["status"], killed["exit_status"]) == ("failed", -signal.SIGKILL)
    assert (last["status"], last["exit_status"]) == ("stopped", 0)
    assert killed["checkpoints"]
    assert last["figures"]["rows_in"]
    heads, *lines = home.run("jobs", "--history").stdout.splitlines()
    assert (heads.split()[:2], [line.split()[:2] for line in lines]) == (
        ["run", "job"],
        [["2", "a"], ["1", "a"]],
    )


def test_jobs_of_a_killed_server_go_on_and_the_next_one_takes_them_over(
    home: ServedFolder,
) -> None:
    home.write("a")
    home.write("b")
    first = home.start("--http", "0")
    pids = {name: home.until_checkpoint(name)["pid"] for name in ("a", "b")}
    second = home.start("--http", "0")
    until(lambda: f"waits, since process {first.pid} " in home.printed())
    assert home.printed().count("serves http://127.0.0.1:") == 1
    first.kill()
    until(lambda: f"a: runs already, process {pids['a']}" in home.printed())
    assert home.printed().count("serves http://127.0.0.1:") == 2
    number = home.until_checkpoint("a")["checkpoint"]
    assert home.until_checkpoint("a", number)["pid"] == pids["a"]
    # It watches the process of another server's job: it learns its end, and why from its log.
    os.kill(pids["a"], signal.SIGKILL)
    until(lambda: "a: failed: killed; restarts in 1 s" in home.printed())
    assert home.run("stop", "b").returncode == 0
    until(lambda: "b: stopped" in home.printed())
    home.until_checkpoint("a", number)
    assert home.end(second) == 0
    assert home.list_processes() == {}
    assert is_complete(home.read_numbers("a"))


def test_a_server_leaves_its_jobs_if_it_is_to_and_learns_later_how_they_ended(
    home: ServedFolder,
) -> None:
    for name in ("a", "b", "c"):
        home.write(name)
    server = home.start("--leave-jobs")
    pids = {name: home.until_checkpoint(name)["pid"] for name in ("a", "b", "c")}
    assert home.end(server) == 0
    assert home.list_processes() == pids
    assert home.run("stop", "a").returncode == 0
    os.kill(pids["b"], signal.SIGKILL)
    until(lambda: home.list_processes() == {"c": pids["c"]})
    home.start()
    number = home.until_status("c", "running")["checkpoint"]
    assert home.until_checkpoint("b")["pid"] != pids["b"]
    assert home.until_checkpoint("c", number)["pid"] == pids["c"]
    assert home.list_jobs()["a"]["status"] == "stopped"


def test_what_another_attempt_cannot_change_is_not_started_again(home: ServedFolder) -> None:
    home.write("ends", endless("ends").replace("rate: 1000/s", "rows: 1000"))
    full = home.path / "full-out"
    full.mkdir()
    (full / "part-0.jsonl").write_text('{"x": 1}\n')
    home.write("full")
    home.write("wrong", "name: wrong\nsources: {}\n")
    home.start()
    assert home.until_status("ends", "done")["why"] == ""
    assert "full-out" in home.until_status("full", "failed")["why"]
    assert home.until_status("wrong", "invalid")
    assert "wrong.yaml" in home.printed()
    assert "restarts" not in home.printed()
    ended = home.run("restart", "ends")
    assert (ended.returncode, "--fresh" in ended.stderr) == (3, True)
    again = home.run("restart", "full")
    assert (again.returncode, "mode: overwrite replaces it" in again.stderr) == (1, True)
    asked = home.run("why", "full")
    assert (asked.returncode, "its status is failed: " in asked.stderr) == (3, True)
    assert "headrace restart full " in asked.stderr


def test_a_failing_job_waits_longer_each_time_and_can_be_stopped_then(home: ServedFolder) -> None:
    (home.path / "fails.py").write_text("def fail(rows):\n    raise ValueError('no such luck')\n")
    text = endless("a").replace("out: {from: numbers", "out: {from: mapped")
    step = "steps:\n  mapped: {from: numbers, map: {python: fails.py:fail, returns: {x: bigint}}}\n"
    text = text.replace("sinks:", f"{step}sinks:").replace(
        "settings: {", "settings: {restart: {strategy: none}, "
    )
    home.write("a", text)
    home.start()
    until(lambda: "; restarts in 4 s" in home.printed())
    assert "no such luck" in home.until_status("a", "waiting")["why"]
    stopped = home.run("stop", "a")
    assert (stopped.returncode, stopped.stderr) == (
        0,
        "a was waiting for its restart, and stays stopped\n",
    )
    assert home.list_jobs()["a"]["status"] == "stopped"
    run = home.folder.read_history(home.folder.list_history()[-1])
    assert run is not None
    assert [failure["step"] for failure in run["failures"]] == ["mapped"]


def test_a_job_that_is_stopped_at_once_is_not_started_again(home: ServedFolder) -> None:
    # Its function holds the interpreter lock: nothing but SIGKILL ends it.
    (home.path / "stuck.py").write_text(
        "def stuck(row):\n    if row['x'] == 1000:\n        open('begun', 'w').close()\n"
        "        sum(range(10**18))\n    return row\n"
    )
    step = "{from: numbers, map: {python: stuck.py:stuck, mode: row, returns: {x: bigint}}}"
    text = endless("a").replace("out: {from: numbers", "out: {from: mapped")
    home.write("a", text.replace("sinks:", f"steps:\n  mapped: {step}\nsinks:"))
    home.start()
    until((home.path / "begun").exists)
    assert home.run("stop", "a", "--now").returncode == 0
    assert home.until_status("a", "stopped")["why"] == "stopped at once"
    assert home.list_processes() == {}


def test_a_run_without_the_server_is_listed_and_left_alone(home: ServedFolder) -> None:
    server = home.start()
    until(lambda: "leads" in home.printed())
    home.write("a")
    job = start(home.path, "a.yaml")
    pid = home.until_status("a", "running")["pid"]
    refused = home.run("submit", "a.yaml")
    assert (refused.returncode, "outside of this server" in refused.stderr) == (3, True)
    assert home.client.fetch_job("a")["served"] is False
    os.kill(pid, signal.SIGKILL)
    job.communicate()
    home.until_status("a", "killed", "new")
    assert home.end(server) == 0
    assert "a: started" not in home.printed()


def test_new_files_are_started_by_a_server_that_watches(home: ServedFolder) -> None:
    home.start("--watch")
    until(lambda: "leads" in home.printed())
    home.write("a")
    home.until_checkpoint("a")


def test_a_job_goes_on_if_its_end_cannot_be_recorded(home: ServedFolder) -> None:
    home.write("a")
    home.start()
    job = home.until_checkpoint("a")
    history = Path(home.folder.path) / "history"
    history.rmdir()
    history.touch()
    os.kill(job["pid"], signal.SIGKILL)
    home.until_checkpoint("a", job["checkpoint"])
    assert "a: the end is not recorded: " in home.printed()


def test_a_server_loads_no_polars(home: ServedFolder) -> None:
    import subprocess
    import sys

    home.write("a")
    command = [sys.executable, "-m", "headrace.cli", "serve", str(home.path)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            home.until_checkpoint("a")
            assert home.run("savepoint", "a").returncode == 0
            assert home.run("restart", "a").returncode == 0
            maps = Path(f"/proc/{server.pid}/maps").read_text()
            assert "orjson" in maps
            assert "polars" not in maps
            assert "pydantic" not in maps
        finally:
            server.terminate()
            server.wait()
