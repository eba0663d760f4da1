"""A batch whose processes are killed: its driver, wherever that is, or one of its tasks.

The next run is in this process, on the existing session: all that it has of the previous run is on
the disk.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.core.errors import failpoints
from headrace.state.storage.checksummed_json import decode_checksummed, encode_checksummed
from tests.support.cli.command_line import Headrace
from tests.support.cli.command_process import start_headrace
from tests.support.java import FOR_ALL
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.slow

ROWS = 20_000
LONGEST_S = 240.0
LOOK_S = 0.02
SOURCE = f"""\
name: p
sources:
  numbers: {{generate: {{rows: {ROWS}, columns: {{id: id}}}}}}
"""
TWO = """\
sinks:
  one: {from: numbers, files: {path: one}}
  two: {from: numbers, files: {path: two}}
"""
WAITS = """\
steps:
  waits: {from: numbers, map: {python: "waits.py:row", returns: {id: bigint}, mode: row}}
sinks:
  one: {from: numbers, files: {path: one}}
  two: {from: waits, files: {path: two}}
"""
WAITING = """\
import time
from pathlib import Path

HERE = Path(__file__).parent

def row(row):
    if row["id"] == 17_500:
        HERE.joinpath("there").touch()
        until_s = time.monotonic() + 100
        while not HERE.joinpath("go").exists() and time.monotonic() < until_s:
            time.sleep(0.01)
    return row
"""
SHAKY = """\
steps:
  shaky: {from: numbers, map: {python: "shaky.py:row", returns: {id: bigint}, mode: row}}
sinks:
  one: {from: shaky, files: {path: one, roll: {rows: 1000}}}
  topic: {from: shaky, kafka: {brokers: "BROKER", topic: TOPIC, delivery: exactly_once}}
"""
DIES_ONCE = """\
import os
import shutil
import signal
from pathlib import Path

MARK = Path(__file__).with_name("died")

def row(row):
    if row["id"] == 17_500 and not MARK.exists():
        MARK.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return row
"""


@contextmanager
def running(folder: Path, *arguments: str, fault: str = "") -> Iterator[subprocess.Popen[str]]:
    """A batch of p.yaml, which no test outlives."""
    environment = os.environ | FOR_ALL | ({"HEADRACE_FAULT": fault} if fault else {})
    command = ("run", "p.yaml", "--batch", "--master", "local[2]", *arguments)
    with start_headrace(
        *command, cwd=folder, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        limit = threading.Timer(LONGEST_S, process.kill)
        limit.start()
        try:
            yield process
        finally:
            limit.cancel()
            process.kill()


def ended(folder: Path, *arguments: str, fault: str = "") -> tuple[int, str]:
    """The exit status of a batch, and what it said."""
    with running(folder, *arguments, fault=fault) as process:
        _, said = process.communicate()
    return process.returncode, said


def parts(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*part-*") if path.is_file()]


def rows(folder: Path) -> Counter[int]:
    """The numbers in a folder, where nothing is hidden."""
    found = parts(folder)
    assert not [part for part in found if part.name.startswith(".")]
    lines = (line for part in found for line in part.read_text().splitlines())
    return Counter(json.loads(line)["id"] for line in lines)


ALL = Counter(range(ROWS))


def test_a_batch_that_is_killed_between_two_commits_is_brought_to_its_end(
    spark: SparkSession, headrace: Headrace, tmp_path: Path
) -> None:
    (tmp_path / "p.yaml").write_text(SOURCE + TWO)
    status, said = ended(tmp_path, fault="batch.committed")
    assert status == -signal.SIGKILL, said
    hidden = [part for part in parts(tmp_path) if part.name.startswith(".")]
    assert hidden and len(hidden) < len(parts(tmp_path))
    ran = headrace("run", "p.yaml", "--batch")
    assert ran.status == 0 and "had finished" in ran.err
    assert rows(tmp_path / "one") == rows(tmp_path / "two") == ALL


def test_a_batch_run_killed_while_it_writes_holds_its_home_until_repeated(
    spark: SparkSession, headrace: Headrace, tmp_path: Path
) -> None:
    (tmp_path / "p.yaml").write_text(SOURCE + WAITS)
    (tmp_path / "waits.py").write_text(WAITING)
    with running(tmp_path) as process:
        while not (tmp_path / "there").exists() and process.poll() is None:
            time.sleep(LOOK_S)
        ran = headrace("run", "p.yaml", "--batch")
        assert ran.status == 3 and f"is held by process {process.pid}" in ran.err
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert parts(tmp_path) and all(part.name.startswith(".") for part in parts(tmp_path))
    (tmp_path / "go").touch()  # workers that are not dead yet go on as well
    ran = headrace("run", "p.yaml", "--batch")
    assert ran.status == 0, ran.err
    assert rows(tmp_path / "one") == rows(tmp_path / "two") == ALL


def test_what_a_task_has_written_that_was_killed_is_not_seen(
    tmp_path: Path, broker: Broker, topics: Topics, fresh: Callable[..., str]
) -> None:
    topic = topics.create(fresh("shaky"), 2)
    kafka = SHAKY.replace("BROKER", broker.address).replace("TOPIC", topic)
    (tmp_path / "p.yaml").write_text(SOURCE + kafka)
    (tmp_path / "shaky.py").write_text(DIES_ONCE)
    status, said = ended(tmp_path, "--master", "local[2,3]")
    assert status == 0, said
    assert (tmp_path / "died").exists()
    assert rows(tmp_path / "one") == ALL
    assert Counter(json.loads(value or b"")["id"] for value in topics.values(topic)) == ALL


ROUNDS = """\
settings: {checkpoint: {every: 1ms}}
steps:
  start: {from: numbers, where: id < 40, select: {id: id, n: 0L}}
  LOOP
  next: {from: INSIDE, select: {id: id, n: n + 1}}
sinks:
  one: {from: table, files: {path: one}}
"""
LOOPS = {
    "bulk": ("table: {iterate: {bulk: start, body: next, rounds: 6}}", "table.loop"),
    "delta": (
        "table: {iterate: {delta: {solution: start, workset: start, key: id}, body: next,"
        " max_rounds: 6}}",
        "table.workset",
    ),
    "rows": (
        "table: {iterate: {from: start, feedback: next, until: n = 6 or id < 3 and n = id + 1}}",
        "table.loop",
    ),
}


def run_changed(headrace: Headrace, folder: Path) -> None:
    """Run a copy of a killed pipeline over other input: it begins with the first round."""
    copy = folder.with_name(f"{folder.name}-copy")
    shutil.copytree(folder, copy)
    text = (copy / "p.yaml").read_text()
    (copy / "p.yaml").write_text(text.replace("id < 40", "id < 50"))
    ran = headrace("run", str(copy / "p.yaml"), "--batch", "--home", str(copy / ".headrace"))
    assert ran.status == 0 and "resumes" not in ran.err
    assert "the pipeline or its input has changed since: loops begin with round 1" in ran.err
    assert sum(len(part.read_text().splitlines()) for part in parts(copy)) == 50


METRICS = {
    "bulk": "rounds 6, rows_changed 480, round_rows_changed 80, round_seconds ",
    "delta": "rounds 6, round_rows_changed 80, round_seconds ",
    "rows": "rounds 6, round_seconds ",
}
"""The metrics of the loops. The total is unknown after a round that was stored without it."""


def forget_changes(folder: Path) -> None:
    """Change the record of the stored rounds to what it was before changes were counted."""
    (record,) = folder.rglob("rounds.json")
    document: dict[str, Any] = decode_checksummed(str(record), record.read_bytes())
    for loop in document["loops"].values():
        del loop["rows_changed"]
    record.write_bytes(encode_checksummed(document))


@pytest.mark.parametrize("kind", LOOPS)
def test_a_killed_loop_resumes_after_the_round_that_was_stored_last(
    spark: SparkSession,
    headrace: Headrace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    loop, inside = LOOPS[kind]
    text = SOURCE + ROUNDS.replace("LOOP", loop).replace("INSIDE", inside)
    (tmp_path / "p.yaml").write_text(text)
    status, said = ended(tmp_path, fault="loop.written:4")
    assert status == -signal.SIGKILL, said
    if kind == "bulk":
        run_changed(headrace, tmp_path)
    if kind == "delta":
        forget_changes(tmp_path)
    passed: list[str] = []
    monkeypatch.setattr(failpoints, "failpoint", passed.append)
    ran = headrace("run", "p.yaml", "--batch")
    assert ran.status == 0, ran.err
    # Rounds 4 and 5; a loop over rows stores one more, in which all rows leave.
    assert passed.count("loop.stored") == (3 if kind == "rows" else 2)
    assert "loop table resumes after round 3, which an earlier run has stored" in ran.err
    assert f"metrics of table: {METRICS[kind]}" in ran.err
    found = [json.loads(line) for part in parts(tmp_path) for line in part.read_text().splitlines()]
    wanted = {id: min(id + 1, 6) if kind == "rows" and id < 3 else 6 for id in range(40)}
    assert {row["id"]: row["n"] for row in found} == wanted and len(found) == 40
    assert not list((tmp_path / ".headrace").rglob("rounds*"))
