"""`headrace tap` of real jobs: rows, mistakes, and jobs that end or are killed meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.control.client import JobClient, NotListening
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.support.cli.command_process import run_headrace, start_headrace
from tests.support.cli.processes import limited
from tests.support.cli.servers import until

LONGEST_S = 60.0
TEXT = """\
name: taps
sources:
  numbers: {generate: {rate: 500/s, columns: {x: id, price: "cast(id * 1.10 as decimal(38,2))"}}}
steps:
  even: {from: numbers, where: x % 2 = 0}
  priced: {from: even, with: {at: timestamp_seconds(x), k: x % 4}}
  totals: {from: priced, key: k, aggregate: {n: count(*), most: max(price)}}
sinks:
  out: {from: totals, files: {path: out}}
  rows: {from: priced, files: {path: rows}}
"""

pytestmark = pytest.mark.slow


@pytest.fixture(params=["1", "2"], ids=["one process", "two workers"], scope="module")
def job(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    folder = tmp_path_factory.mktemp("job")
    process = start(folder, "--workers", request.param)
    yield folder, process
    process.kill()
    process.wait()


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    (folder / "taps.yaml").write_text(TEXT)
    with (folder / "log.txt").open("w") as log:
        process = start_headrace(
            *("run", "taps.yaml", *options),
            cwd=folder,
            stdout=log,
            stderr=log,
            text=True,
        )
    client = JobClient(Home(LocalDisk(), str(folder / ".headrace"), "taps"))

    def is_running() -> bool:
        assert process.poll() is None, (folder / "log.txt").read_text()
        try:
            found = client.fetch_job()
        except NotListening:
            return False
        return bool(found["status"] == "running" and found["rows_out"])

    until(is_running)
    return limited(process, 10 * LONGEST_S)


def tap(folder: Path, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    """Run the command; the exit status, the rows, and what it says."""
    ran = run_headrace("tap", "taps", *arguments, "--format", "json", cwd=folder, timeout=LONGEST_S)
    return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr


def test_rows_of_sources_steps_and_conditions(job: tuple[Path, subprocess.Popen[str]]) -> None:
    folder, _ = job
    status, rows, _ = tap(folder, "numbers", "--limit", "45")
    assert (status, len(rows), set(rows[0])) == (0, 45, {"x", "price"})
    status, rows, _ = tap(folder, "even", "--limit", "5", "--where", "x % 10 = 4")
    assert (status, {row["x"] % 10 for row in rows}) == (0, {4})
    status, rows, _ = tap(folder, "priced", "--limit", "3", "--where", "at is not null")
    assert [row["at"][-8:] for row in rows] == [".000000Z"] * 3
    status, rows, _ = tap(folder, "totals", "--limit", "60")
    assert {row["k"] for row in rows} == {0, 2}
    assert set(rows[0]) == {"k", "n", "most"}


def test_values_are_as_the_sink_prints_them(job: tuple[Path, subprocess.Popen[str]]) -> None:
    arguments = ("tap", "taps", "numbers", "--limit", "5", "--home", str(job[0] / ".headrace"))
    printed = run_headrace(*arguments, "--format", "json", timeout=LONGEST_S).stdout
    for line in printed.splitlines():
        price = line.partition('"price":')[2].rstrip("}")
        assert price.partition(".")[2] in (f"{cents:02}" for cents in range(100)), line
    table = run_headrace(*arguments, timeout=LONGEST_S).stdout.splitlines()
    assert (table[0].split(), len(table)) == (["x", "price"], 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evn",), 'headrace: unknown source or step "evn"\n      did you mean "even"?\n'),
        (("out",), "headrace: out is a sink\n      its rows are those of totals\n"),
        (
            ("even", "--where", "pric > 1"),
            'headrace: where:1:1: unknown column "pric"\n    1 | pric > 1\n'
            '      | ^^^^ did you mean "price"?\n',
        ),
    ],
)
def test_mistakes_have_exit_status_2(
    job: tuple[Path, subprocess.Popen[str]], arguments: tuple[str, ...], message: str
) -> None:
    status, rows, error = tap(job[0], *arguments)
    assert (status, rows) == (2, [])
    assert error == message


def follow(folder: Path) -> subprocess.Popen[str]:
    """Start the command, and wait for its first row."""
    process = start_headrace(
        *("tap", "taps", "priced", "--format", "json"),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    limited(process, LONGEST_S)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())
    return process


def test_ctrl_c_ends_it_and_not_the_job(job: tuple[Path, subprocess.Popen[str]]) -> None:
    following = follow(job[0])
    following.send_signal(signal.SIGINT)
    _, error = following.communicate()
    assert following.returncode == 0
    assert "Traceback" not in error
    assert job[1].poll() is None
    assert tap(job[0], "priced", "--limit", "1")[0] == 0


def test_it_ends_with_its_job_and_says_how(tmp_path: Path) -> None:
    process = start(tmp_path)
    following = follow(tmp_path)
    assert run_headrace("stop", "taps", cwd=tmp_path, timeout=LONGEST_S).returncode == 0
    _, error = following.communicate()
    assert (following.returncode, error.splitlines()[-1]) == (0, "taps was stopped")
    process.wait()
    status, _, error = tap(tmp_path, "priced")
    assert (status, error.splitlines()[0]) == (3, "headrace: taps is not running")


def test_a_job_that_is_killed_has_not_said_why(tmp_path: Path) -> None:
    process = start(tmp_path)
    following = follow(tmp_path)
    process.kill()
    process.wait()
    _, error = following.communicate()
    assert following.returncode == 1
    assert error.splitlines()[-1] == "headrace: taps is gone, and has not said why"
