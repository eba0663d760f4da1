"""Logs of jobs: rotated by the process that writes them, read across their files, and followed."""

import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from threading import Thread

from headrace.cli.server.log_output import follow_log, iterate_last_lines
from headrace.cli.server.log_rotation import list_log_files
from headrace.cli.server.run_log import read_last_run, read_tail
from tests.support.cli.processes import finished
from tests.support.cli.servers import until

WRITER = """
import sys
from headrace.cli.server import log_rotation
with log_rotation.open_log(sys.argv[1], 1000):
    for number in range(60):
        print(f"line {number:03}" + "." * 90, flush=True)
        log_rotation.rotate_log(sys.argv[1], 1000)
"""


def test_a_log_is_rotated_and_the_oldest_lines_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    subprocess.run([sys.executable, "-c", WRITER, str(path)], check=True)
    assert [os.path.basename(file) for file in list_log_files(str(path))] == [
        "a.log.3",
        "a.log.2",
        "a.log.1",
        "a.log",
    ]
    lines = [line[:8] for line in iterate_last_lines(str(path), 1000)]
    assert lines == [f"line {number:03}".encode() for number in range(60 - len(lines), 60)]
    assert len(lines) in range(30, 50)
    assert next(iterate_last_lines(str(path), 2)).startswith(b"line 058")


def test_a_run_writes_its_rows_and_events_into_its_log(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "name: a\nsources:\n  n: {generate: {rows: 3, columns: {x: id}}}\n"
        "sinks:\n  out: {from: n, stdout: {}}\n"
    )
    ran = finished(tmp_path, "a.yaml", "--log", "json", "--log-file", "a.log")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    lines = (tmp_path / "a.log").read_text().splitlines()
    assert [line for line in lines if not line.startswith('{"event"')] == [
        '{"x":0}',
        '{"x":1}',
        '{"x":2}',
    ]
    assert json.loads(lines[-1])["status"] == "done"


def test_a_log_is_followed_across_its_rotation(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("before\n")
    got: list[bytes] = []
    following = Thread(target=lambda: got.extend(islice(follow_log(str(path)), 3)), daemon=True)
    following.start()
    opened = f"/proc/{os.getpid()}/fd"
    until(lambda: any(os.path.realpath(f"{opened}/{fd}") == str(path) for fd in os.listdir(opened)))
    with path.open("a") as file:
        file.write("one\ntw")
        file.flush()
        file.write("o\n")
    path.rename(tmp_path / "a.log.1")
    path.write_text("three\n")
    following.join(60)
    assert got == [b"one\n", b"two\n", b"three\n"]


def test_the_last_lines_and_those_that_follow_are_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    (tmp_path / "a.log.1").write_text("oldest\nolder\n")
    path.write_text("old\nhal")
    lines = follow_log(str(path), 2)
    assert next(lines) == b"older\n"
    # What is written and rotated from here on is neither in the last lines nor lost.
    with path.open("a") as file:
        file.write("f\nnew\n")
    path.rename(tmp_path / "a.log.1")
    path.write_text("newest\n")
    assert [*islice(lines, 4)] == [b"old\n", b"half\n", b"new\n", b"newest\n"]


def test_the_last_run_of_a_log_counts_and_rows_that_look_like_events_do_not(
    tmp_path: Path,
) -> None:
    events = [
        {"event": "launched", "time": "t", "pipeline": "/a.yaml", "run": "1"},
        {"event": "failure", "time": "t", "pipeline": "/a.yaml", "message": "m", "exit_status": 1},
        {"event": "launched", "time": "t", "pipeline": "/a.yaml", "run": "2"},
        {"event": "checkpoint", "time": "t", "pipeline": "/a.yaml", "number": 7},
        {"event": "summary", "time": "t", "pipeline": "of a row", "status": "done"},
        {"event": "summary"},
    ]
    path = tmp_path / "a.log"
    path.write_bytes(
        b"".join(json.dumps(e, separators=(",", ":")).encode() + b"\n" for e in events)
    )
    run = read_last_run(str(path))
    assert run.launched["run"] == "2"
    assert (run.exit_status, run.newest_checkpoint, run.failures) == (None, 7, [])
    assert read_tail(str(path), 30) == b'{"event":"summary"}\n'
