"""A job whose file is replaced or appended to between two runs, or between two attempts."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.support.cli.command_line import Headrace
from tests.support.cli.processes import ended, finished, start

ROWS = 48
PAD = "x" * (2 << 20)
"""With lines of two megabytes, a file has several blocks."""
PIPELINE = """\
name: stopped
settings: {checkpoint: {every: 50ms}, restart: {strategy: fixed, attempts: 2, delay: 1ms}}
sources:
  lines: {files: {path: "in/*"}, schema: {id: bigint}}
steps:
  slow: {from: lines, map: {python: slow.py:slow, returns: {id: bigint}}}
sinks:
  out: {from: slow, files: {path: out}}
"""
SLOW = """\
import os
import time

def slow(rows):
    time.sleep(0 if os.path.exists("hurry") else rows.height * 0.1)
    return rows
"""
REPLACES = """\
import os
import time

def slow(rows):
    time.sleep(rows.height * 0.02)
    if 30 in rows["id"].to_list() and os.path.exists("other"):
        os.replace("other", "in/a.jsonl")
        raise ValueError("the first time")
    return rows
"""


def encode(first: int, count: int = ROWS) -> bytes:
    """Lines of one length, from an id of two digits on."""
    lines = (json.dumps({"pad": PAD, "id": first + at}) + "\n" for at in range(count))
    return "".join(lines).encode()


def write_job(folder: Path, name: str, slow: str = SLOW) -> Path:
    """Write the pipeline and its input; return the input."""
    (folder / "p.yaml").write_text(PIPELINE)
    (folder / "slow.py").write_text(slow)
    (folder / "in").mkdir()
    data = encode(10)
    (folder / "in" / name).write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
    return folder / "in" / name


def read_ids(folder: Path = Path()) -> Counter[int]:
    """How often each id was written."""
    parts = (folder / "out").glob("part-*")
    return Counter(json.loads(line)["id"] for part in parts for line in part.read_text().split())


def wait_for_output(process: subprocess.Popen[str], folder: Path) -> None:
    """Wait until a part is visible: the rows of a checkpoint within the file."""
    assert process.stderr is not None
    for line in process.stderr:
        if json.loads(line)["event"] == "checkpoint" and read_ids(folder):
            return


ALL = Counter(range(10, 10 + ROWS))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that was stopped within its only file."""
    folder = tmp_path_factory.mktemp("stopped")
    write_job(folder, "a.jsonl.gz")
    process = start(folder, "p.yaml", "--log", "json")
    wait_for_output(process, folder)
    process.terminate()
    ended(process)
    (folder / "hurry").touch()
    assert process.returncode == 0
    assert 0 < read_ids(folder).total() < ROWS
    return folder


def test_a_replaced_file_is_refused_until_it_is_put_back(job: Headrace) -> None:
    file, before = Path("in/a.jsonl.gz"), read_ids()
    file.rename("kept")
    file.write_bytes(gzip.compress(encode(60), 1))
    for _ in range(2):
        ran = job("run", "p.yaml")
        assert ran.status == 3, ran.err
        assert "p.yaml: lines: in/a.jsonl.gz is not the file that was read up to " in ran.err
        assert "put back the file that was read; --reset-state lines reads lines again" in ran.err
        assert read_ids() == before
    shutil.copy("kept", file)
    ran = job("run", "p.yaml")
    assert ran.status == 0, ran.err
    assert read_ids() == ALL


def test_a_replaced_file_is_read_from_its_start_on_request(job: Headrace) -> None:
    before = read_ids()
    Path("in/a.jsonl.gz").write_bytes(gzip.compress(encode(60), 1))
    ran = job("run", "p.yaml", "--reset-state", "lines")
    assert ran.status == 0, ran.err
    assert read_ids() == before + Counter(range(60, 60 + ROWS))


def test_appended_lines_are_read_and_reported_once(job: Headrace) -> None:
    added = gzip.compress(encode(10 + ROWS, 2), 1)
    with Path("in/a.jsonl.gz").open("ab") as opened:
        opened.write(added)
    ran = job("run", "p.yaml")
    assert ran.status == 0, ran.err
    said = f"lines: in/a.jsonl.gz has grown by {len(added):,} bytes since it was read"
    assert ran.err.count(said) == 1
    assert read_ids() == Counter(range(10, 12 + ROWS))


def test_a_savepoint_knows_the_file_as_well(job: Headrace) -> None:
    assert job("state", "export", "stopped", "--to", "saved").status == 0
    file = Path("in/a.jsonl.gz")
    data = file.read_bytes()
    file.write_bytes(gzip.compress(encode(60), 1))
    resume = ("run", "p.yaml", "--home", "other", "--from-savepoint", "saved")
    append = ("--set", "sinks.out.files.mode=append")
    ran = job(*resume, *append)
    assert (ran.status, "is not the file that was read up to" in ran.err) == (3, True), ran.err
    file.write_bytes(data)
    ran = job(*resume, *append)
    assert ran.status == 0, ran.err
    assert read_ids() == ALL


def test_a_killed_job_refuses_a_rewritten_file_and_takes_a_copy(tmp_path: Path) -> None:
    file = write_job(tmp_path, "a.jsonl")
    process = start(tmp_path, "p.yaml", "--log", "json")
    wait_for_output(process, tmp_path)
    process.kill()
    ended(process)
    (tmp_path / "hurry").touch()
    written, old = encode(60), file.stat()
    (tmp_path / "kept").write_bytes(file.read_bytes())
    with file.open("r+b") as opened:
        opened.write(written)
    os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
    ran = finished(tmp_path, "p.yaml")
    assert ran.returncode == 3, ran.stderr
    assert "in/a.jsonl is not the file that was read up to " in ran.stderr
    (tmp_path / "kept").replace(file)
    ran = finished(tmp_path, "p.yaml")
    assert ran.returncode == 0, ran.stderr
    file.unlink()
    assert read_ids(tmp_path) == ALL


def test_a_file_that_was_replaced_before_a_restart_is_refused(tmp_path: Path) -> None:
    file = write_job(tmp_path, "a.jsonl", REPLACES)
    (tmp_path / "other").write_bytes(encode(60))
    ran = finished(tmp_path, "p.yaml")
    assert ran.returncode == 3, ran.stderr
    assert "in/a.jsonl is not the file that was read up to " in ran.stderr
    file.unlink()
    assert not read_ids(tmp_path) - ALL


def test_files_that_came_since_the_start_are_named(job: Headrace) -> None:
    Path("in/b.jsonl.gz").write_bytes(gzip.compress(encode(60 + ROWS, 2), 1))
    ran = job("run", "p.yaml")
    assert ran.status == 0, ran.err
    said = (
        "lines: in/b.jsonl.gz came after the job started; they are not read: watch: 10s reads new"
    )
    assert ran.err.count(said) == 1
    assert read_ids() == ALL
