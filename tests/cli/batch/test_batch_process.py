"""`headrace run --batch` as a process: without Java, and stopped by a signal."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.cli.command_process import start_headrace
from tests.support.cli.processes import ended, limited, met, send_again
from tests.support.java import FOR_ALL

pytestmark = pytest.mark.slow

PIPELINE = """\
name: small
sources:
  ids: {generate: {rows: 1000, columns: {x: id, k: "id % 3"}}}
steps:
  mapped:
    from: ids
    map: {python: mapping.py:mapped, returns: {k: bigint, x: bigint}, mode: row}
  totals: {from: mapped, key: k, aggregate: {n: count(*), total: sum(x)}}
sinks:
  out: {from: totals, files: {path: out}}
"""
TALKING = """\
import sys

def mapped(row):
    print("said", file=sys.stderr)
    return row
"""
WAITING = """\
def mapped(row):
    with open("pipe", "w"):
        open("never", "r")
    return row
"""
# The programs of a machine that Spark is started with.
NEEDED = ("bash", "dirname", "env", "sh", "cat", "ps", "uname", "hostname")
LONGEST_S = 600.0
PROGRESS = re.compile(r"\d+ s(  |$)")
"""A line each ten seconds; it names no stage when none runs at that time."""
RUN = ("run", "p.yaml", "--batch", "--master", "local[2]")


def no_java(folder: Path) -> dict[str, str]:
    """An environment in which there is no Java, and nothing but what starts a program."""
    programs = folder / "bin"
    programs.mkdir()
    for name in NEEDED:
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    return {"PATH": str(programs), "HOME": str(folder), **FOR_ALL}


def write_files(folder: Path, function: str) -> None:
    """Write the pipeline and its function."""
    (folder / "p.yaml").write_text(PIPELINE)
    (folder / "mapping.py").write_text(function)


def start(folder: Path) -> subprocess.Popen[str]:
    """Start a batch that waits for somebody to read the pipe `pipe`."""
    write_files(folder, WAITING)
    for name in ("pipe", "never"):
        os.mkfifo(folder / name)
    pipe = subprocess.PIPE
    process = start_headrace(
        *RUN, cwd=folder, env=os.environ | FOR_ALL, stdout=pipe, stderr=pipe, text=True
    )
    return limited(process, LONGEST_S)


def written(folder: Path) -> Sequence[str]:
    """The lines of all parts that can be seen."""
    lines = (path.read_text().splitlines() for path in (folder / "out").glob("[!.]*"))
    return sorted(line for some in lines for line in some)


def test_it_runs_where_there_is_no_java_and_says_nothing_that_spark_says(tmp_path: Path) -> None:
    # What is in the working directory is not imported for what Python has.
    (tmp_path / "logging.py").write_text("raise SystemExit(7)\n")
    write_files(tmp_path, TALKING)
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "headrace.cli", *RUN],
        cwd=tmp_path,
        env=no_java(tmp_path),
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    assert ran.returncode == 0, ran.stderr
    assert written(tmp_path) == [
        '{"k":0,"n":334,"total":166833}',
        '{"k":1,"n":333,"total":166167}',
        '{"k":2,"n":333,"total":166500}',
    ]
    last = [line for line in ran.stderr.splitlines() if not PROGRESS.match(line)]
    assert ran.stdout == ""
    assert [line.split()[0] for line in last] == ["rows", "ids", "out", "done"]
    home = tmp_path / ".headrace" / "small" / "batch"
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["lock"]


def test_the_second_ctrl_c_ends_it_whatever_spark_does(tmp_path: Path) -> None:
    process = start(tmp_path)
    with met(tmp_path / "pipe", "r", LONGEST_S):
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        while not process.stderr.readline().startswith("stopping; "):
            assert process.poll() is None
        # Cancelled tasks may end first: then there is nothing left that a signal could end.
        send_again(process, signal.SIGTERM)
    _, err = ended(process)
    assert process.returncode == 130
    assert err.splitlines()[-1] in (
        "stopped at once: output that was not written yet is lost",
        "stopped: nothing was written",
    )
    assert not written(tmp_path)


def test_the_first_ctrl_c_cancels_it_and_nothing_is_written(tmp_path: Path) -> None:
    process = start(tmp_path)
    with met(tmp_path / "pipe", "r", LONGEST_S):
        process.send_signal(signal.SIGINT)
    _, err = ended(process)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "stopped: nothing was written"
    assert "Traceback" not in err and not written(tmp_path)
