"""Signals, pipes and terminals, with a real process."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from itertools import dropwhile, islice
from pathlib import Path
from random import Random

import pytest

from tests.support.cli.command_process import start_headrace
from tests.support.cli.processes import (
    RUN,
    OnTerminal,
    ended,
    finished,
    limited,
    met,
    screen,
    send_again,
    start,
    until_full,
)

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

COUNTED = """\
name: counted
sources:
  numbers: {generate: {rate: 2000/s, columns: {x: id}}}
sinks:
  screen: {from: numbers, stdout: {}, format: json}
  kept: {from: numbers, files: {path: kept}}
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


MANY = 30_000
"""More than a pipe holds."""
FINITE = f"""\
name: finite
sources:
  numbers: {{generate: {{rows: {MANY}, columns: {{x: id}}}}}}
steps:
  some: {{from: numbers, select: {{x: x, y: x * 2}}}}
sinks:
  screen: {{from: some, stdout: {{}}, format: json}}
  kept: {{from: some, files: {{path: kept}}}}
"""

FEW = """\
name: few
sources:
  numbers: {generate: {rows: 10, columns: {x: id}}}
steps:
  mapped: {from: numbers, map: {python: few.py:few, returns: {x: bigint}}}
sinks:
  out: {from: mapped, files: {path: out}}
"""

# A second lock of one mutex waits in C for ever, whatever signals come.
DEADLOCK = """\
import ctypes

def few(rows):
    with open("begun", "w"):
        pass
    library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(256)
    while True:
        library.pthread_mutex_lock(mutex)
"""

CHILD = """\
import subprocess

def few(rows):
    child = subprocess.Popen(["sleep", "3600"])
    child.terminate()
    assert child.wait() == -15
    return rows
"""


def kept_rows(folder: Path) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in (folder / "kept").glob("part-*"))


def starting(folder: Path) -> subprocess.Popen[str]:
    """A run that waits for its pipeline, which is a pipe."""
    os.mkfifo(folder / "p.yaml")
    return start(folder, "p.yaml", "--quiet")


def numbers(folder: Path) -> list[int]:
    """Return the stored rows, in the order of writing."""
    parts = sorted((folder / "kept").glob("part-*"), key=lambda path: int(path.stem.split("-")[3]))
    lines = [line for part in parts for line in part.read_text().splitlines()]
    return [json.loads(line)["x"] for line in lines]


def asked_to_stop(folder: Path, number: int, *arguments: str) -> tuple[str, str]:
    """Run until there is a row, and send a signal; both streams."""
    process = start(folder, "p.yaml", *arguments)
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(number)
    out, err = ended(process)
    assert process.returncode == 0
    return first + out, err


def test_after_one_signal_the_same_command_resumes(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(COUNTED)
    printed = ""
    for life, number in enumerate([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]):
        out, err = asked_to_stop(tmp_path, number)
        printed += out
        rows = len(printed.splitlines())
        assert numbers(tmp_path) == list(range(rows))
        resumed = re.search(r"^resumed from checkpoint (\d+) of ", err, re.MULTILINE)
        assert bool(resumed) == bool(life)
        assert "\nstopping; " in f"\n{err}"
        assert re.search(r"^stopped after [\d.]+ s: ", err, re.MULTILINE)
        assert re.search(
            r"^the same command resumes from checkpoint \d+; .*--fresh", err, re.MULTILINE
        )


def test_without_checkpoints_the_first_signal_finishes_the_rows_read(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(COUNTED)
    out, err = asked_to_stop(tmp_path, signal.SIGINT, "--limit", "1000000")
    assert numbers(tmp_path) == list(range(len(out.splitlines())))
    assert "goes on" not in err
    assert not (tmp_path / ".headrace").exists()


def test_one_job_in_one_home_is_run_by_one_process(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(COUNTED)
    process = start(tmp_path, "p.yaml")
    assert process.stdout is not None
    process.stdout.readline()
    second = finished(tmp_path, "p.yaml")
    assert (second.returncode, second.stdout) == (3, "")
    assert f"is held by process {process.pid} on " in second.stderr
    assert f"kill {process.pid}" in second.stderr
    process.send_signal(signal.SIGTERM)
    out, err = ended(process)
    assert (process.returncode, "stopped after" in err) == (0, True)
    assert numbers(tmp_path) == list(range(1 + len(out.splitlines())))


def test_a_run_under_nohup_continues_when_the_terminal_is_closed(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(ENDLESS)
    pipe = subprocess.PIPE
    process = limited(
        subprocess.Popen(
            ["nohup", *RUN, "p.yaml"], cwd=tmp_path, stdout=pipe, stderr=pipe, text=True
        )
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    # More than a pipe holds.
    for _ in range(4_000):
        assert process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    ended(process)
    assert process.returncode == 0


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    (tmp_path / "p.yaml").write_text(STUCK)
    (tmp_path / "stuck.py").write_text(FUNCTION)
    for name in ("begun", "release"):
        os.mkfifo(tmp_path / name)
    return tmp_path


def stuck_and_asked_once(folder: Path) -> subprocess.Popen[str]:
    process = start(folder, "p.yaml")
    met(folder / "begun", "r").close()
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("stopping; ")
    return process


def test_the_second_signal_ends_it_at_once_and_leaves_no_output(stuck: Path) -> None:
    process = stuck_and_asked_once(stuck)
    send_again(process, signal.SIGTERM)
    _, err = ended(process)
    assert process.returncode == 130
    assert err == "stopped at once: the same command starts from scratch\n"
    assert not list((stuck / "out").glob("part-*"))


def test_two_signals_that_come_together_stop_it_with_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(COUNTED)
    process = start(tmp_path, "p.yaml")
    assert process.stdout is not None
    process.stdout.readline()
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
    _, err = ended(process)
    assert (process.returncode, "stopped after" in err) == (0, True)


@pytest.mark.parametrize(
    "body",
    [
        "time.sleep(3600)",
        "while True: pass",
        "try:\n        time.sleep(3600)\n    finally:\n        time.sleep(3600)",
        "threading.Thread(target=time.sleep, args=(3600,)).start(); threading.Event().wait()",
    ],
)
def test_the_second_signal_ends_it_whatever_a_function_does(tmp_path: Path, body: str) -> None:
    (tmp_path / "p.yaml").write_text(FEW)
    begun = "    with open('begun', 'w'): pass\n"
    (tmp_path / "few.py").write_text(
        f"import threading, time\n\ndef few(rows):\n{begun}    {body}\n"
    )
    os.mkfifo(tmp_path / "begun")
    process = start(tmp_path, "p.yaml")
    met(tmp_path / "begun", "r").close()
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("stopping; ")
    send_again(process, signal.SIGINT)
    _, err = ended(process)
    assert process.returncode == 130
    assert err == "stopped at once: the same command starts from scratch\n"


def test_the_second_signal_ends_it_though_nobody_reads_its_rows(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(FINITE + "settings: {checkpoint: {every: 100ms}}\n")
    process = start(tmp_path, "p.yaml")
    assert process.stdout is not None and process.stderr is not None
    until_full(process.stdout)
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline().startswith("stopping; ")
    send_again(process, signal.SIGINT)
    assert process.wait() == 130
    _, err = ended(process)
    assert err.startswith("stopped at once: the same command ")
    again = finished(tmp_path, "p.yaml")
    assert again.returncode == 0
    assert numbers(tmp_path) == list(range(MANY))


def test_signals_count_though_nobody_reads_what_it_says(stuck: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    process = limited(start_headrace("run", "p.yaml", cwd=stuck, stderr=writing))
    met(stuck / "begun", "r").close()
    process.send_signal(signal.SIGINT)
    send_again(process, signal.SIGINT)
    assert process.wait() == 130
    os.close(reading)
    os.close(writing)


def test_signals_are_handled_while_a_function_blocks_the_loop(
    tmp_path: Path,
) -> None:
    (tmp_path / "p.yaml").write_text(FEW)
    (tmp_path / "few.py").write_text(DEADLOCK)
    os.mkfifo(tmp_path / "begun")
    process = start(tmp_path, "p.yaml")
    met(tmp_path / "begun", "r").close()
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
    ended(process)
    assert process.returncode == 130


def test_a_process_that_a_function_starts_can_be_terminated(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(FEW)
    (tmp_path / "few.py").write_text(CHILD)
    ran = finished(tmp_path, "p.yaml", "--quiet")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_signal_while_it_starts_up_stops_it_well_before_the_first_row(tmp_path: Path) -> None:
    process = starting(tmp_path)
    with met(tmp_path / "p.yaml", "w") as pipeline:
        process.send_signal(signal.SIGINT)
        pipeline.write(ENDLESS)
    ended(process)
    assert process.returncode == 0
    assert (tmp_path / "kept").exists()


def test_two_signals_while_it_starts_up_end_it_there(tmp_path: Path) -> None:
    process = starting(tmp_path)
    with met(tmp_path / "p.yaml", "w"):
        process.send_signal(signal.SIGINT)
        send_again(process, signal.SIGTERM)
        _, err = ended(process)
    assert (process.returncode, err) == (130, "stopped\n")
    assert not (tmp_path / "kept").exists()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("signals", [1, 2])
def test_signals_at_any_time_do_not_change_the_final_output(
    tmp_path: Path, seed: int, signals: int
) -> None:
    chosen = Random(seed)
    moments = sorted(chosen.choice([0, chosen.randrange(MANY), MANY]) for _ in range(signals))
    process = starting(tmp_path)
    with met(tmp_path / "p.yaml", "w") as pipeline:
        pipeline.write(FINITE)
    assert process.stdout is not None
    rows = 0
    for moment in moments:
        rows += sum(1 for _ in islice(process.stdout, moment - rows))
        process.send_signal(chosen.choice([signal.SIGINT, signal.SIGTERM]))
    out, err = ended(process)
    rows += len(out.splitlines())
    kept = numbers(tmp_path)
    assert kept == list(range(len(kept)))
    if process.returncode == 0:
        assert (err, len(kept)) == ("", rows)
    else:
        assert signals == 2
        assert process.returncode == 130
    if len(kept) < MANY:
        (tmp_path / "p.yaml").unlink()
        (tmp_path / "p.yaml").write_text(FINITE)
        assert finished(tmp_path, "p.yaml").returncode == 0
        assert numbers(tmp_path) == list(range(MANY))


def test_a_reader_that_goes_away_ends_an_endless_job_well(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(ENDLESS)
    script = '"$@" | head -n 1; echo "${PIPESTATUS[0]}"'
    command = ["bash", "-c", script, "bash", *RUN, "p.yaml", "--quiet"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    row, status = ran.stdout.splitlines()
    assert (row[:11], status, ran.stderr) == ('{"auction":', "0", "")


def parts_in(lines: Sequence[str]) -> list[str]:
    """The parts in the table that is on the screen."""
    below = list(dropwhile(lambda line: "backpressure" not in line, lines))[1:]
    return [line.split()[0] for line in below[: len(PARTS)]]


def test_on_a_terminal_rows_stand_above_the_table_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(ENDLESS)
    running = OnTerminal(tmp_path, "p.yaml")
    running.until("backpressure")
    running.until("2 s")
    running.until_seen(lambda lines: parts_in(lines) == PARTS)
    running.process.send_signal(signal.SIGINT)
    assert running.rest() == 0
    lines = screen(running.shown)
    rows = [line for line in lines if line.startswith("{")]
    assert len(rows) == kept_rows(tmp_path)
    assert all(re.fullmatch(r'\{"auction":\d+,"price":\d+\}', row) for row in rows)
    assert not any("backpressure" in line for line in lines)
    assert len([line for line in lines if line.startswith("stopping; ")]) == 1
    assert lines[-2].startswith("stopped after ")
    assert lines[-1].startswith("the same command resumes from checkpoint ")


def test_nothing_is_drawn_for_a_dumb_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    (tmp_path / "p.yaml").write_text(ENDLESS)
    ran = finished(tmp_path, "p.yaml", "--limit", "10")
    assert ran.returncode == 0
    assert "\x1b" not in ran.stdout + ran.stderr
