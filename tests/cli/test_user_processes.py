"""User code that changes its process: threads, exits, working directories, children."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.cli.processes import RUN, ended, finished, limited, met, start

SOON_S = 30.0
PIPELINE = """\
name: p
sources:
  numbers: {generate: {rows: %d, columns: {x: id}%s}}
steps:
  mapped: {from: numbers, map: {python: u.py:mapped, returns: {x: bigint}, mode: row}}
sinks:
  out: {from: mapped, files: {path: out}}
settings: {checkpoint: {every: 100ms}, restart: {strategy: none}}
"""
MANY = 2000


def write(folder: Path, body: str, rows: int = 10, rate: str = "", head: str = "") -> None:
    """A pipeline with a function whose body runs for each row."""
    (folder / "p.yaml").write_text(PIPELINE % (rows, rate and f", rate: {rate}"))
    (folder / "u.py").write_text(
        f"import multiprocessing, os, subprocess, sys, threading, time\n{head}\n\n"
        f"def mapped(row):\n    if row['x'] == {rows // 2}:\n        {body}\n    return row\n"
    )


def numbers(folder: Path) -> list[int]:
    lines = (line for part in folder.glob("out/part-*") for line in part.read_text().splitlines())
    return sorted(json.loads(line)["x"] for line in lines)


@pytest.mark.parametrize(
    "body",
    [
        "threading.Thread(target=time.sleep, args=(3600,), name='sleeper').start()",
        "multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,)).start()",
    ],
)
def test_what_user_code_has_begun_does_not_keep_a_finished_job_alive(
    tmp_path: Path, body: str
) -> None:
    write(tmp_path, body)
    process = start(tmp_path, "p.yaml", longest_s=SOON_S)
    assert process.wait() == 0
    assert numbers(tmp_path) == list(range(10))
    assert process.stdout is not None and process.stderr is not None
    # A child of the function has the stream too: the end may be far.
    line = next(line for line in process.stderr if "user code still runs" in line)
    process.stdout.close()
    process.stderr.close()
    assert ("sleeper" in line) == ("sleeper" in body)


def test_a_thread_that_ends_soon_is_waited_for(tmp_path: Path) -> None:
    write(tmp_path, "threading.Timer(0.5, open, ('ended', 'w')).start()")
    ran = finished(tmp_path, "p.yaml", "--quiet")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert (tmp_path / "ended").exists()


def test_a_file_that_user_code_leaves_open_is_written(tmp_path: Path) -> None:
    write(tmp_path, "text.write('written')", head="text = open('left.txt', 'w')")
    assert finished(tmp_path, "p.yaml", "--quiet").returncode == 0
    assert (tmp_path / "left.txt").read_text() == "written"


def test_a_run_left_by_os_exit_is_told_and_loses_nothing(tmp_path: Path) -> None:
    leaves = "os.path.exists('left') or open('left', 'w').close() or os._exit(0)"
    write(tmp_path, leaves, MANY, "1000/s")
    first = start(tmp_path, "p.yaml", "--quiet")
    ended(first)
    assert first.returncode == 0
    again = finished(tmp_path, "p.yaml")
    assert again.returncode == 0
    told = rf"the previous run was killed or left by os\._exit: process {first.pid} on .*"
    assert re.match(told + r"\nresumed from checkpoint \d+ of ", again.stderr)
    assert numbers(tmp_path) == list(range(MANY))


def test_a_run_left_by_os_exit_before_a_checkpoint_is_told_too(tmp_path: Path) -> None:
    write(tmp_path, "os.path.exists('left') or open('left', 'w').close() or os._exit(3)")
    first = finished(tmp_path, "p.yaml", "--set", "settings.checkpoint.every=1h")
    assert first.returncode == 3
    again = finished(tmp_path, "p.yaml")
    assert again.returncode == 0
    assert re.match(
        r"the previous run was killed or left by os\._exit: .*; it had taken no checkpoint\n",
        again.stderr,
    )
    assert numbers(tmp_path) == list(range(10))


@pytest.mark.parametrize("head", ["os.chdir('/')", ""])
def test_a_change_of_the_working_directory_changes_no_path(tmp_path: Path, head: str) -> None:
    write(tmp_path, "os.chdir('/')", 1000, "1000/s", head)
    process = start(tmp_path, "p.yaml", "--log", "json", "--http", "0")
    _, err = ended(process)
    assert process.returncode == 0, err
    assert numbers(tmp_path) == list(range(1000))
    assert not (tmp_path / ".headrace" / "p" / "control.sock").exists()
    (tmp_path / "out").rename(tmp_path / "before")
    write(tmp_path, "os.chdir('/'); raise ValueError('oh')", 1000, "1000/s", head)
    failed = finished(tmp_path, "p.yaml")
    assert (failed.returncode, "u.py:6: ValueError: oh" in failed.stderr) == (1, True)
    write(tmp_path, "pass", 1000, "1000/s", head)
    again = finished(tmp_path, "p.yaml")
    assert (again.returncode, "resumed from checkpoint" in again.stderr) == (0, True)
    assert numbers(tmp_path) == list(range(1000))


CHILDREN = {
    "os.fork": "os.fork() or (open('begun', 'w').write(str(os.getpid())), time.sleep(600))",
    "multiprocessing": (
        "multiprocessing.get_context('fork').Process(target=work, daemon=False).start()"
    ),
    "subprocess": (
        "subprocess.Popen([sys.executable, '-c', WORK], close_fds=False, start_new_session=True)"
    ),
}
HEAD = """\
WORK = "import os, time; open('begun', 'w').write(str(os.getpid())); time.sleep(600)"
def work():
    exec(WORK)
"""


@pytest.mark.parametrize("child", CHILDREN)
def test_a_child_of_user_code_holds_neither_the_home_nor_the_port(
    tmp_path: Path, child: str
) -> None:
    write(tmp_path, CHILDREN[child], 20_000, "5000/s", HEAD)
    os.mkfifo(tmp_path / "begun")
    first = subprocess.Popen(
        [*RUN, "p.yaml", "--log", "json", "--http", "0"], cwd=tmp_path, stderr=subprocess.PIPE
    )
    limited(first)
    assert first.stderr is not None
    serving = next(e for e in map(json.loads, first.stderr) if e["event"] == "serving")
    with met(tmp_path / "begun", "r") as begun:
        pid = int(begun.read())
    try:
        first.kill()
        first.wait()
        os.kill(pid, 0)  # it lives
        (tmp_path / "u.py").write_text("def mapped(row): return row\n")
        port = serving["url"].rpartition(":")[2]
        fast = "sources.numbers.generate.rate=1000000/s"
        again = finished(tmp_path, "p.yaml", "--http", port, "--set", fast)
        assert again.returncode == 0, again.stderr
        assert numbers(tmp_path) == list(range(20_000))
    finally:
        os.kill(pid, signal.SIGKILL)
        first.stderr.close()


LEFT = "a child forked by user code has left its function, and ends"


@pytest.mark.parametrize(
    ("body", "said", "rows"),
    [
        ("os.fork()", LEFT, 10),
        ("os.fork()", LEFT, 100_000),  # in a thread
        ("os.fork() or sys.exit(0)", "", 10),
        ("os.fork() or 1 / 0", "ZeroDivisionError", 10),
    ],
)
def test_a_child_that_leaves_the_function_does_not_run_the_job(
    tmp_path: Path, body: str, said: str, rows: int
) -> None:
    write(tmp_path, body, rows)
    ran = finished(tmp_path, "p.yaml", "--quiet")
    assert (ran.returncode, said in ran.stderr) == (0, True)
    assert numbers(tmp_path) == list(range(rows))
