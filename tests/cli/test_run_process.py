"""Signals, pipes and terminals, with a real process."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.processes import RUN, OnTerminal, ended, finished, screen, start

ENDLESS = """\
name: endless
sources:
  bids: {nexmark: {stream: bids, rate: 2000/s}}
steps:
  some: {from: bids, select: {auction: auction, price: price}}
sinks:
  screen: {from: some, stdout: {}, format: json}
  kept: {from: some, files: {path: kept}}
"""

STUCK = """\
name: stuck
sources:
  numbers: {generate: {rows: 1000000, columns: {x: id}}}
steps:
  mapped: {from: numbers, map: {python: stuck.py:stuck, returns: {x: bigint}}}
sinks:
  out: {from: mapped, files: {path: out}}
"""

PARTS = ["bids", "some", "screen", "kept"]

FUNCTION = """\
def stuck(rows):
    with open("begun", "w"):
        pass
    with open("release") as release:
        release.read()
    return rows
"""


def kept_rows(folder: Path) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in (folder / "kept").iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_finishes_and_commits_what_was_read(tmp_path: Path, number: int) -> None:
    (tmp_path / "p.yaml").write_text(ENDLESS)
    process = start(tmp_path, "p.yaml")
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(number)
    out, err = ended(process)
    assert process.returncode == 0
    assert err.startswith("stopping: ")
    assert re.search(r"^stopped after [\d.]+ s: ", err, re.MULTILINE)
    assert kept_rows(tmp_path) == len((first + out).splitlines())


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    (tmp_path / "p.yaml").write_text(STUCK)
    (tmp_path / "stuck.py").write_text(FUNCTION)
    for name in ("begun", "release"):
        os.mkfifo(tmp_path / name)
    return tmp_path


def stuck_and_asked_once(folder: Path) -> subprocess.Popen[str]:
    process = start(folder, "p.yaml")
    (folder / "begun").read_bytes()
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("stopping: ")
    return process


def test_the_second_signal_ends_it_at_once_and_leaves_no_output(stuck: Path) -> None:
    process = stuck_and_asked_once(stuck)
    process.send_signal(signal.SIGTERM)
    (stuck / "release").write_bytes(b"")
    _, err = ended(process)
    assert process.returncode == 130
    assert err == "stopped at once: what was not written yet is lost\n"
    assert not list((stuck / "out").glob("part-*"))


def test_the_third_signal_waits_for_no_thread(stuck: Path) -> None:
    process = stuck_and_asked_once(stuck)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    ended(process)
    assert process.returncode == 130


def test_a_reader_that_goes_away_ends_an_endless_job_well(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(ENDLESS)
    script = '"$@" | head -n 1; echo "${PIPESTATUS[0]}"'
    command = ["bash", "-c", script, "bash", *RUN, "p.yaml", "--quiet"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    row, status = ran.stdout.splitlines()
    assert (row[:11], status, ran.stderr) == ('{"auction":', "0", "")


@pytest.mark.xfail(
    strict=False,
    reason="Polars catches SIGINT while it computes, and raises KeyboardInterrupt out of a kernel: "
    "signals must be blocked in every thread and waited for by one of their own",
)
def test_on_a_terminal_rows_stand_above_the_table_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(ENDLESS)
    running = OnTerminal(tmp_path, "p.yaml")
    running.until("backpressure")
    running.until("2 s")
    table = screen(running.shown)
    head = next(at for at, line in enumerate(table) if "backpressure" in line)
    assert [line.split()[0] for line in table[head + 1 : head + 5]] == PARTS
    running.process.send_signal(signal.SIGINT)
    assert running.rest() == 0
    lines = screen(running.shown)
    rows = [line for line in lines if line.startswith("{")]
    assert len(rows) == kept_rows(tmp_path)
    assert all(re.fullmatch(r'\{"auction":\d+,"price":\d+\}', row) for row in rows)
    assert not any("backpressure" in line for line in lines)
    assert lines[len(rows)].startswith("stopping: ")
    assert lines[-1].startswith("stopped after ")


def test_nothing_is_drawn_for_a_dumb_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    (tmp_path / "p.yaml").write_text(ENDLESS)
    ran = finished(tmp_path, "p.yaml", "--limit", "10")
    assert ran.returncode == 0
    assert "\x1b" not in ran.stdout + ran.stderr
