"""Jobs and the commands that control them, each in its own process."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.control.client import JobClient
from headrace.state.savepoints.savepoint import open_savepoint
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.support.cli.command_process import start_headrace
from tests.support.cli.processes import ended, limited, met, start

COUNTED = """\
name: counted
sources:
  numbers: {generate: {rate: 2000/s, columns: {x: id, key: id % 7}}}
steps:
  totals: {from: numbers, key: key, aggregate: {n: count(*), highest: max(x)}}
sinks:
  kept: {from: numbers, files: {path: kept}}
  out: {from: totals, files: {path: totals}}
settings: {parallelism: 2, checkpoint: {every: 200ms}}
"""

STUCK = """\
name: stuck
sources:
  numbers: {generate: {rate: 1000/s, columns: {x: id}}}
steps:
  mapped: {from: numbers, map: {python: stuck.py:stuck, returns: {x: bigint}}}
sinks:
  out: {from: mapped, files: {path: out}}
"""

# The first call takes long enough for all others to have a thread.
FUNCTION = """\
import os, time

calls = 0

def stuck(rows):
    global calls
    calls += 1
    if calls == 1:
        time.sleep(0.05)
    elif os.path.exists("begun"):
        with open("begun", "w"):
            pass
        os.remove("begun")
        with open("release") as release:
            release.read()
    return rows
"""


def asking(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A command that was started; both streams are pipes."""
    pipe = subprocess.PIPE
    return limited(start_headrace(*arguments, cwd=folder, stdout=pipe, stderr=pipe, text=True))


def answered(process: subprocess.Popen[str]) -> str:
    """Return the output of a process that ended without errors; a slow stop says why it waits."""
    out, err = ended(process)
    errors = [line for line in err.splitlines() if ": stop: " not in line]
    assert (process.returncode, errors) == (0, [])
    return out.removesuffix("\n")


def until_events(process: subprocess.Popen[str], event: str, count: int = 1) -> None:
    """Read standard error until this number of events."""
    assert process.stderr is not None
    while count:
        line = process.stderr.readline()
        assert line, f"there was no {event}"
        count -= json.loads(line)["event"] == event


def numbers(folder: Path) -> list[int]:
    """All that was kept."""
    lines = (line for part in folder.glob("part-*") for line in part.read_text().splitlines())
    return sorted(json.loads(line)["x"] for line in lines)


def read(savepoint: str) -> list[int]:
    """The numbers that had been read: a split has every so manieth block."""
    found = []
    sources: Any = open_savepoint(savepoint).document["sources"]
    for split in sources["numbers"]:
        at, of, block = map(int, re.findall(r"\d+", split["split"]))
        starts = range(at * block, split["position"], of * block)
        found += [number for start in starts for number in range(start, start + block)]
    return sorted(found)


def client(folder: Path, name: str) -> JobClient:
    return JobClient(Home(LocalDisk(), str(folder / ".headrace"), name))


def test_a_job_is_saved_rescaled_and_stopped_by_others_and_no_row_is_lost(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(COUNTED)
    job = start(tmp_path, "p.yaml", "--log", "json")
    until_events(job, "checkpoint")
    both = [asking(tmp_path, "savepoint", "counted", "--to", name) for name in ("a", "b")]
    assert [answered(each) for each in both] == [str(tmp_path / "a"), str(tmp_path / "b")]
    stood = answered(asking(tmp_path, "rescale", "p.yaml", "--parallelism", "3"))
    assert stood.startswith("counted paused for ")
    assert client(tmp_path, "counted").fetch_job()["parallelism"]["totals"] == 3
    stops = [asking(tmp_path, "stop", "counted", "--savepoint") for _ in range(2)]
    paths = {answered(each) for each in stops}
    _, err = ended(job)
    assert job.returncode == 0
    (path,) = paths
    summary = json.loads(err.splitlines()[-1])
    assert (summary["status"], summary["checkpoint"]) == ("stopped", open_savepoint(path).number)
    assert numbers(tmp_path / "kept") == read(str(tmp_path / path))
    assert not list((tmp_path / ".headrace" / "counted").glob("control*"))


def test_a_client_that_disconnects_ends_only_the_waiting(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(STUCK)
    (tmp_path / "stuck.py").write_text(FUNCTION)
    for name in ("begun", "release"):
        os.mkfifo(tmp_path / name)
    job = start(tmp_path, "p.yaml", "--log", "json")
    met(tmp_path / "begun", "r").close()
    asks = client(tmp_path, "stuck")
    asks.wait_for_job(str)
    clients = [asking(tmp_path, "savepoint", "stuck", "--to", name) for name in ("a", "b")]
    while len(asks.send_request("GET", "/v1/operations")[1]["operations"]) < 2:
        assert job.poll() is None
    first, second = clients
    first.send_signal(signal.SIGINT)
    out, err = ended(first)
    assert (first.returncode, out) == (130, "")
    # On a busy machine it is asked to go before it has heard which operation that is.
    assert "the savepoint continues as operation " in err or "it is unknown whether stuck" in err
    second.kill()
    ended(second)
    met(tmp_path / "release", "w").close()
    until_events(job, "savepoint", 2)
    for name in ("a", "b"):
        open_savepoint(str(tmp_path / name))
    stop = asking(tmp_path, "stop", "stuck", "--drain")
    _, err = ended(stop)
    assert (stop.returncode, ", drained; run --resume-drained" in err) == (0, True)
    ended(job)
    assert job.returncode == 0


@pytest.mark.parametrize(
    ("work", "status"),
    [
        ("time.sleep(3600)", 130),
        # Holds the interpreter lock: no thread of Python runs.
        ("sum(range(10**18))", -signal.SIGKILL),
    ],
)
def test_a_stop_at_once_ends_a_job_whose_function_never_returns(
    tmp_path: Path, work: str, status: int
) -> None:
    (tmp_path / "p.yaml").write_text(STUCK.replace("returns", "mode: row, returns"))
    (tmp_path / "stuck.py").write_text(
        "import time\n\ndef stuck(row):\n"
        f"    if row['x'] == 1000:\n        open('begun', 'w').close()\n        {work}\n"
        "    return row\n"
    )
    os.mkfifo(tmp_path / "begun")
    job = start(tmp_path, "p.yaml", "--log", "json", "--set", "settings.checkpoint.every=100ms")
    met(tmp_path / "begun", "r").close()
    asked = asking(tmp_path, "stop", "stuck", "--now")
    _, err = ended(asked)
    assert (asked.returncode, job.wait()) == (0, status)
    ended(job)
    said = "stuck was stopped at once; the next run resumes from checkpoint "
    again = asking(tmp_path, "stop", "stuck", "--now")
    assert "stuck is not running" in ended(again)[1]
    assert again.returncode == 3
    (tmp_path / "stuck.py").write_text("def stuck(row):\n    return row\n")
    resumed = start(tmp_path, "p.yaml", "--log", "json")
    assert resumed.stderr is not None
    events = map(json.loads, resumed.stderr)
    number = next(event["checkpoint"] for event in events if event["event"] == "resumed")
    assert err == f"{said}{number}\n"
    resumed.terminate()
    ended(resumed)


def test_a_stop_of_a_job_that_does_not_answer_says_so_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(STUCK.replace("returns", "mode: row, returns"))
    (tmp_path / "stuck.py").write_text(
        "import ctypes, os\n\n"
        "def stuck(row):\n    if row['x'] == 1000:\n        open('begun', 'w').close()\n"
        # It holds the interpreter lock, so that the job stands still also if this is a thread.
        "        os.close(ctypes.PyDLL(None).open(b'release', os.O_RDONLY))\n    return row\n"
    )
    for name in ("begun", "release"):
        os.mkfifo(tmp_path / name)
    job = start(tmp_path, "p.yaml", "--quiet")
    met(tmp_path / "begun", "r").close()
    stop = asking(tmp_path, "stop", "stuck")
    assert stop.stderr is not None
    line = stop.stderr.readline()
    assert line.startswith("stuck: the job does not answer: ")
    met(tmp_path / "release", "w").close()
    ended(stop)
    ended(job)
    assert (stop.returncode, job.returncode) == (0, 0)


def test_a_stop_that_takes_long_says_what_it_waits_for(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(STUCK)
    (tmp_path / "stuck.py").write_text(FUNCTION)
    for name in ("begun", "release"):
        os.mkfifo(tmp_path / name)
    job = start(tmp_path, "p.yaml", "--quiet")
    met(tmp_path / "begun", "r").close()
    stop = asking(tmp_path, "stop", "stuck")
    assert stop.stderr is not None
    line = stop.stderr.readline()
    assert re.fullmatch(
        r"stuck: stop: waiting for checkpoint \d+: numbers > mapped > out; "
        r"to end it at once: headrace stop stuck --now\n",
        line,
    )
    met(tmp_path / "release", "w").close()
    ended(stop)
    ended(job)
    assert (stop.returncode, job.returncode) == (0, 0)


def test_a_job_that_was_killed_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(COUNTED)
    job = start(tmp_path, "p.yaml", "--log", "json")
    until_events(job, "checkpoint")
    job.kill()
    ended(job)
    asked = asking(tmp_path, "savepoint", "counted")
    _, err = ended(asked)
    assert (asked.returncode, "counted is not running" in err) == (3, True)
    (listed,) = json.loads(answered(asking(tmp_path, "jobs", "--json")))
    assert listed["status"] == "killed"
    again = start(tmp_path, "p.yaml", "--log", "json", "--parallelism", "3")
    until_events(again, "checkpoint")
    again.send_signal(signal.SIGTERM)
    asked = asking(tmp_path, "stop", "counted")
    ended(asked)
    assert asked.returncode in (0, 3)
    ended(again)
    assert again.returncode == 0
    path = answered(asking(tmp_path, "state", "export", "counted"))
    assert numbers(tmp_path / "kept") == read(str(tmp_path / path))
