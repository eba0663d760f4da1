"""Processes that may have too few files, threads or memory: a line or two, and what to do."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace.cli import process_limits
from headrace.cli.errors import print_error
from tests.support.cli.command_line import Headrace
from tests.support.cli.processes import LONGEST_S

PIPELINE = """\
name: limits
settings: {state: {backend: BACKEND}}
sources:
  numbers: {generate: {rows: 1000, columns: {x: id}}}
steps:
  firsts: {from: numbers, dedup: {key: [x], keep: first}}
sinks:
  out: {from: firsts, files: {path: out}}
"""
MIB = 1 << 20
LIMITS = {
    "files": (resource.RLIMIT_NOFILE, 12, "12 open files, and needs 64 or more"),
    "memory": (resource.RLIMIT_AS, 480 * MIB, "480 MiB of address space, and needs"),
}


def limited(
    folder: Path, limit: int, value: int, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run a command whose process has a limit; a panic would show all its frames."""
    return subprocess.run(
        [sys.executable, "-m", "headrace.cli", *arguments],
        cwd=folder,
        env=os.environ | {"RUST_BACKTRACE": "1"},
        preexec_fn=lambda: resource.setrlimit(limit, (value, value)),
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_S,
    )


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(
    "command", ["run", "run --batch", "run --limit 5", "state show limits firsts", "state export"]
)
def test_a_command_that_cannot_work_says_what_it_needs(
    tmp_path: Path, limit: str, command: str
) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE.replace("BACKEND", "rocksdb"))
    number, value, message = LIMITS[limit]
    if "--batch" in command:
        message = message.replace("64", "512")
    arguments = command.split()
    if arguments[0] == "run" or "export" in arguments:
        arguments.append("p.yaml")
    ran = limited(tmp_path, number, value, *arguments)
    assert ran.returncode == 1, ran.stderr
    assert message in ran.stderr
    assert len(ran.stderr.splitlines()) == 2, ran.stderr
    assert "ulimit" in ran.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("limit", LIMITS)
def test_a_command_that_needs_less_works(tmp_path: Path, limit: str) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE.replace("BACKEND", "memory"))
    number, value, _ = LIMITS[limit]
    for command in (["validate", "p.yaml"], ["jobs"], ["state", "ls"], ["explain", "p.yaml"]):
        ran = limited(tmp_path, number, value, *command)
        assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("mib", [120, 200, 300, 399])
@pytest.mark.parametrize("command", ["validate p.yaml", "run p.yaml", "state ls", "functions sum"])
def test_nothing_is_loaded_with_next_to_no_memory(tmp_path: Path, mib: int, command: str) -> None:
    """Polars would warn that its binary is missing, or panic."""
    (tmp_path / "p.yaml").write_text(PIPELINE)
    ran = limited(tmp_path, resource.RLIMIT_AS, mib * MIB, *command.split())
    assert ran.returncode == 1
    assert f"{mib} MiB of address space, and needs" in ran.stderr
    assert len(ran.stderr.splitlines()) == 2, ran.stderr


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_the_limits_that_are_asked_for_are_enough(tmp_path: Path, backend: str) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE.replace("BACKEND", backend))
    for number, value in (
        (resource.RLIMIT_NOFILE, process_limits.MIN_OPEN_FILES),
        (resource.RLIMIT_FSIZE, MIB),
    ):
        ran = limited(tmp_path, number, value, "run", "p.yaml", "--fresh", "--quiet", *APPEND)
        assert (ran.returncode, ran.stderr) == (0, "")


APPEND = ("--set", "sinks.out.files.mode=append")


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_a_file_that_grows_too_large_is_told(tmp_path: Path, backend: str) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE.replace("BACKEND", backend))
    restart = ("--set", "settings.restart.strategy=none")
    ran = limited(tmp_path, resource.RLIMIT_FSIZE, 4096, "run", "p.yaml", "--quiet", *restart)
    assert ran.returncode == 1
    assert "file too large" in ran.stderr
    assert "ulimit -f" in ran.stderr
    assert "bug in headrace" not in ran.stderr


def test_too_few_threads_are_told(headrace: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("p.yaml").write_text(PIPELINE.replace("BACKEND", "memory"))
    begin, started = threading.Thread.start, list[threading.Thread]()

    def start(thread: threading.Thread) -> None:
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    ran = headrace("run", "p.yaml")
    assert ran.status == 1
    assert "more threads can be started, and a run needs more" in ran.err
    assert len(ran.err.splitlines()) == 2


def test_a_lack_of_memory_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(MemoryError())
    told = capsys.readouterr().err
    assert told.startswith("headrace: out of memory\n      give it more")
    assert "bug" not in told
