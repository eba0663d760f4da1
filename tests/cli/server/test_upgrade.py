"""Upgrades and restarts of jobs by a server: done, refused, rolled back; and a killed server."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.errors import Refusal
from headrace.cli.server.server_folder import BEFORE, PendingUpgrade
from headrace.state.savepoints.savepoint import open_savepoint
from tests.support.cli.servers import ServedFolder, endless, is_complete, served_folder, until

pytestmark = pytest.mark.slow

COUNTED = """\
name: a
sources:
  numbers: {generate: {rate: 1000/s, columns: {x: id, key: id % 7}}}
steps:
  totals: {from: numbers, key: key, aggregate: {n: count(*)}}
sinks:
  out: {from: numbers, files: {path: a-out}}
  totals_out: {from: totals, files: {path: totals}}
settings: {checkpoint: {every: 200ms}}
"""
UNCOUNTED = "".join(
    line for line in COUNTED.splitlines(True) if not re.search("totals|steps", line)
)

CALL = "{python: code.py:work, mode: row, returns: {x: bigint}}"
FAILING = COUNTED.replace("sinks:", f"  failing: {{from: numbers, map: {CALL}}}\nsinks:").replace(
    "  totals_out:", "  bad: {from: failing, files: {path: bad}}\n  totals_out:"
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ServedFolder]:
    with served_folder(tmp_path) as folder:
        yield folder


def test_an_upgrade_resumes_in_the_new_version(home: ServedFolder, tmp_path: Path) -> None:
    file = home.write("a", COUNTED)
    server = home.start()
    before = home.until_checkpoint("a")
    assert home.client.fetch_job("a")["changed"] is False
    text = COUNTED.replace("n: count(*)", "n: count(*), high: max(x)")
    (tmp_path / "elsewhere").mkdir()
    newer = tmp_path / "elsewhere" / "newer.yaml"
    newer.write_text(COUNTED.replace("1000/s", "2000/s"))
    done = home.run("upgrade", "a", str(newer))
    assert (done.returncode, "waiting for the first checkpoint" in done.stderr) == (0, True)
    savepoint = open_savepoint(done.stdout.strip())
    assert savepoint.number > before["checkpoint"]
    job = home.until_status("a", "running")
    assert job["pid"] != before["pid"]
    assert job["checkpoint"] > savepoint.number
    assert file.read_text() == newer.read_text()
    # The file is changed without an upgrade: a restart keeps to the version that runs.
    file.write_text(text)
    assert home.client.fetch_job("a")["changed"] is True
    os.kill(job["pid"], signal.SIGKILL)
    home.until_checkpoint("a", job["checkpoint"])
    running = home.client.send_request("GET", "/v1/jobs/a/pipeline")
    assert (running["running"], running["file"]) == (newer.read_text(), text)
    # Back to the savepoint: the rows after it are written again.
    back = home.run("restart", "a", "--from-savepoint", savepoint.folder)
    assert (back.returncode, "sink out: up to " in back.stderr) == (0, True)
    home.end(server)
    numbers = home.read_numbers("a")
    assert sorted(set(numbers)) == list(range(len(set(numbers))))
    assert len(numbers) > len(set(numbers))


def test_values_and_dropped_state_are_part_of_an_upgrade(home: ServedFolder) -> None:
    file = home.write("a", COUNTED)
    home.start()
    home.until_leading()
    home.until_checkpoint("a")
    assert home.run("stop", "a").returncode == 0
    faster = "sources.numbers.generate.rate=2000/s"
    started = home.run("submit", "a.yaml", "--set", faster)
    assert (started.returncode, started.stderr) == (0, "a is started\n")
    pid = home.until_checkpoint("a")["pid"]
    assert f"--set={faster}" in read_command(pid)
    wrong = home.run("upgrade", "a", "a.yaml", "--reset-state", "total")
    assert (wrong.returncode, 'got "total": did you mean "totals"?' in wrong.stderr) == (2, True)
    assert home.run("upgrade", "a", "a.yaml", "--set", "no.such=1").returncode == 2
    assert home.list_jobs()["a"]["pid"] == pid
    file.write_text(COUNTED.replace("key: key,", "key: x,"))
    done = home.run("upgrade", "a", "a.yaml", "--reset-state", "totals", "--set", faster)
    assert done.returncode == 0, done.stderr
    job = home.until_status("a", "running")
    command = read_command(job["pid"])
    assert {f"--set={faster}", "--reset-state=totals"} <= {*command}
    # A restart keeps the values, and the state that the new version has built.
    os.kill(job["pid"], signal.SIGKILL)
    again = home.until_checkpoint("a", job["checkpoint"])
    assert f"--set={faster}" in read_command(again["pid"])
    assert "--reset-state=totals" not in read_command(again["pid"])
    # A step that the new version lacks leaves state behind; a drained job resumes on request.
    file.write_text(UNCOUNTED)
    refused = home.run("upgrade", "a", "a.yaml")
    assert (refused.returncode, "--allow-lost-state resumes" in refused.stderr) == (3, True)
    assert "--fresh" not in refused.stderr
    done = home.run("upgrade", "a", "a.yaml", "--allow-lost-state")
    assert done.returncode == 0, done.stderr
    assert home.run("stop", "a", "--drain").returncode == 0
    resumed = home.run("restart", "a", "--resume-drained")
    assert (resumed.returncode, "a has resumed from " in resumed.stderr) == (0, True)


def test_an_upgrade_that_is_rolled_back_drops_no_state(home: ServedFolder) -> None:
    file = home.write("a", COUNTED)
    (home.path / "code.py").write_text("def work(row): raise SystemExit(1)\n")
    home.start()
    home.until_leading()
    before = home.until_checkpoint("a")
    file.write_text(FAILING)
    value = "sources.numbers.generate.rate=2000/s"
    failed = home.run("upgrade", "a", "a.yaml", "--reset-state", "totals", "--set", value)
    assert failed.returncode == 1
    job = home.until_checkpoint("a", before["checkpoint"])
    command = read_command(job["pid"])
    assert f"--set={value}" not in command
    assert "--reset-state=totals" not in command


def read_command(pid: int) -> list[str]:
    """The command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def test_an_upgrade_that_cannot_resume_is_refused_and_the_job_goes_on(home: ServedFolder) -> None:
    file = home.write("a", COUNTED)
    home.start()
    pid = home.until_checkpoint("a")["pid"]
    file.write_text(COUNTED.replace("key: key,", "key: x,"))
    refused = home.run("upgrade", "a", "a.yaml")
    assert (refused.returncode, "is not compatible" in refused.stderr) == (3, True)
    file.write_text(COUNTED.replace("count(*)", "counts(*)"))
    wrong = home.run("upgrade", "a", "a.yaml")
    assert (wrong.returncode, "a.yaml:5:" in wrong.stderr) == (2, True)
    new = home.path / "new version.yml"
    new.write_text(file.read_text())
    wrong = home.run("upgrade", "a", new.name)
    assert (wrong.returncode, f"{new}:5:" in wrong.stderr) == (2, True)
    new.unlink()
    misspelt = home.run("upgrade", "a1", "a.yaml")
    assert misspelt.returncode == 2
    assert misspelt.stderr == 'headrace: there is no job a1\n      did you mean "a"?\n'
    file.write_text(endless("b"))
    other = home.run("upgrade", "a", "a.yaml")
    assert (other.returncode, "wanted a version of a" in other.stderr) == (3, True)
    running = home.run("submit", "a.yaml")
    assert running.returncode == 0  # it is another job, b
    taken = home.path / "elsewhere.yaml"
    taken.write_text(COUNTED)
    submitted = home.run("submit", "elsewhere.yaml")
    assert (submitted.returncode, "headrace upgrade a " in submitted.stderr) == (3, True)
    assert home.list_jobs()["a"]["pid"] == pid


def test_a_version_that_fails_before_its_first_checkpoint_is_rolled_back(
    home: ServedFolder,
) -> None:
    file = home.write("a", COUNTED)
    (home.path / "code.py").write_text("def work(row):\n    raise ValueError('no such luck')\n")
    server = home.start()
    home.until_checkpoint("a")
    file.write_text(FAILING.replace("settings: {", "settings: {restart: {strategy: none}, "))
    rolled = home.run("upgrade", "a", "a.yaml")
    assert (rolled.returncode, "rolled back: " in rolled.stderr) == (1, True)
    assert "no such luck" in rolled.stderr
    number = home.until_checkpoint("a")["checkpoint"]
    home.until_checkpoint("a", number)
    assert home.client.send_request("GET", "/v1/jobs/a/pipeline")["running"] == COUNTED
    home.end(server)
    assert is_complete(home.read_numbers("a"))


@pytest.mark.parametrize("fails", [True, False])
def test_the_next_server_goes_on_with_what_a_killed_one_has_begun(
    home: ServedFolder, fails: bool
) -> None:
    file = home.write("a", COUNTED)
    # The new version completes no checkpoint until it may go on.
    (home.path / "code.py").write_text(
        "import os, time\n\ndef work(row):\n    open('begun', 'w').close()\n"
        "    while not os.path.exists('go'):\n        time.sleep(0.01)\n"
        "    return {'x': row['x']}\n"
    )
    server = home.start()
    home.until_checkpoint("a")
    file.write_text(FAILING)
    body = {"file": "a.yaml"}
    generation = home.client.fetch_job("a")["generation"]
    home.client.send_request("POST", "/v1/jobs/a/upgrade", body, generation)
    until((home.path / "begun").exists)
    server.kill()
    pid = home.list_processes()["a"]
    second = home.start()
    until(lambda: f"a: runs already, process {pid}" in home.printed())
    if fails:
        os.kill(pid, signal.SIGKILL)
        until(lambda: "a: failed: the upgrade is rolled back: killed" in home.printed())
    else:
        (home.path / "go").touch()
        until(lambda: not home.client.fetch_job("a")["upgrading"])
    home.until_checkpoint("a", home.until_checkpoint("a")["checkpoint"])
    running = home.client.send_request("GET", "/v1/jobs/a/pipeline")["running"]
    assert running == (COUNTED if fails else FAILING)
    assert home.end(second) == 0
    assert is_complete(home.read_numbers("a"))


@pytest.mark.parametrize("is_stopped", [False, True])
def test_an_upgrade_that_a_killed_server_has_not_begun_is_abandoned(
    home: ServedFolder, is_stopped: bool
) -> None:
    file = home.write("a", COUNTED)
    server = home.start()
    pid = home.until_checkpoint("a")["pid"]
    server.kill()
    server.wait()
    if is_stopped:
        assert home.run("stop", "a").returncode == 0
    # What a server leaves that is killed before it records the version to start.
    (record,) = home.folder.load_records()
    record.upgrade = PendingUpgrade(0, "", is_begun=False)
    home.folder.save_record(record)
    newer = COUNTED.replace("1000/s", "2000/s")
    home.folder.write_text(home.folder.get_pipeline_path("a", BEFORE), COUNTED)
    home.folder.write_text(home.folder.get_pipeline_path("a"), newer)
    file.write_text(newer)
    home.start()
    home.until_leading()
    until(lambda: not home.client.fetch_job("a")["upgrading"])
    assert (home.until_checkpoint("a")["pid"] == pid) is not is_stopped
    texts = home.client.send_request("GET", "/v1/jobs/a/pipeline")
    assert (texts["running"], texts["file"]) == (COUNTED, newer)


def test_a_version_that_takes_few_checkpoints_is_asked_for_one(home: ServedFolder) -> None:
    rare = COUNTED.replace("every: 200ms", "every: 1h")
    home.write("a", rare)
    home.start()
    home.until_status("a", "running")
    (home.path / "newer.yaml").write_text(rare.replace("1000/s", "2000/s"))
    done = home.run("upgrade", "a", "newer.yaml")
    assert (done.returncode, home.client.fetch_job("a")["status"]) == (0, "running")


def test_a_request_that_has_seen_another_generation_changes_nothing(home: ServedFolder) -> None:
    home.write("a")
    home.start()
    pid = home.until_checkpoint("a")["pid"]
    generation = home.client.fetch_job("a")["generation"]
    for kind in ("restart", "stop"):
        for seen, wanted in ((None, "If-Match"), (generation - 1, "has changed")):
            with pytest.raises(Refusal, match=wanted):
                home.client.send_request("POST", f"/v1/jobs/a/{kind}", {}, seen)
    assert home.list_jobs()["a"]["pid"] == pid
    saved = home.client.send_request("POST", "/v1/jobs/a/savepoints", {})
    path = f"/v1/jobs/a/operations/{saved['id']}?wait_s=20"
    assert home.client.send_request("GET", path)["state"] == "done"
    home.client.send_request("POST", "/v1/jobs/a/stop", {}, generation)
    home.until_status("a", "stopped")
    assert home.client.fetch_job("a")["generation"] > generation
