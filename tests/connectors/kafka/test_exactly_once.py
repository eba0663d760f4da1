"""Exactly once through what a user does to a job: rescales, savepoints, other homes, fresh runs.

What is open of a job is seen by where a reader comes to a halt who trusts only what is committed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.cli.command_process import run_headrace, start_headrace
from tests.support.cli.processes import ended, finished, limited, start, stop_behind
from tests.support.kafka.broker import Broker
from tests.support.kafka.proxy import INITIALISE, LISTENERS, Harm, Proxied, between
from tests.support.kafka.topics import Topics

ROWS = 20_000
SOON_S = 60.0
"""Far less than the timeout of a transaction."""

# The rows take 40 s, so that a job on a busy machine still runs when other commands come to it.
PIPELINE = f"""\
name: made
settings: {{checkpoint: {{every: 200ms, retain: 10}}}}
sources:
  numbers: {{generate: {{rows: {ROWS}, rate: 500/s, columns: {{id: id, k: id % 7}}}}}}
sinks:
  out:
    from: numbers
    kafka: {{brokers: "BROKER", topic: TOPIC, key: k, delivery: exactly_once}}
"""
FOLLOWER = """\
name: follower
settings: {checkpoint: {every: 200ms}}
sources:
  numbers: {kafka: {brokers: "BROKER", topic: TOPIC}, schema: {id: bigint, k: bigint}}
sinks:
  out:
    from: numbers
    kafka: {brokers: "BROKER", topic: TOPIC-2, key: k, delivery: exactly_once}
"""
FASTER = ("--set", "sources.numbers.generate.rate=6000/s")
AT_ONCE = ("--set", "sources.numbers.generate.rate=10000000/s")


class Made:
    """The job in its folder, and the topic that it writes."""

    def __init__(self, folder: Path, broker: Broker, topics: Topics, topic: str) -> None:
        self.folder = folder
        self.topics = topics
        self.topic = topics.create(topic, 3)
        for name, text in (("p.yaml", PIPELINE), ("follower.yaml", FOLLOWER)):
            text = text.replace("BROKER", broker.address).replace("TOPIC", topic)
            (folder / name).write_text(text)

    def dies(self, point: str, *arguments: str) -> str:
        """Run it until it dies at a point; what it said."""
        process = self.begun("p.yaml", *arguments, fault=point)
        _, said = ended(process)
        assert process.returncode == -signal.SIGKILL, said
        return said

    def begun(self, *arguments: str, fault: str = "") -> subprocess.Popen[str]:
        """Run something."""
        environment = os.environ | ({"HEADRACE_FAULT": fault} if fault else {})
        pipe = subprocess.PIPE
        options: Any = {"cwd": self.folder, "stdout": pipe, "stderr": pipe, "env": environment}
        return limited(start_headrace("run", *arguments, text=True, **options))

    def ends(self, *arguments: str, status: int = 0) -> str:
        """Run it to its end, as fast as it can; what it said."""
        done = finished(self.folder, "p.yaml", *AT_ONCE, *arguments)
        assert done.returncode == status, done.stderr
        return done.stderr

    def asks(self, command: str, *arguments: str) -> str:
        """Another command, which does it; what it said."""
        done = run_headrace(command, *arguments, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def until(self, checkpoint: int, process: subprocess.Popen[str]) -> None:
        """Wait until a run that reports in JSON has taken a checkpoint."""
        assert process.stderr is not None
        for line in process.stderr:
            if json.loads(line).get("number") == checkpoint:
                return
        raise AssertionError(f"it has ended without checkpoint {checkpoint}")

    def is_open(self, topic: str = "") -> bool:
        """Whether a reader waits for a transaction."""
        topic = topic or self.topic
        return self.topics.ends(topic, committed=True) != self.topics.ends(topic)

    def ids(self, topic: str = "") -> list[int]:
        """Read the committed rows; no transaction stays open for long."""
        began = time.monotonic()
        found = [
            json.loads(value or b"")["id"] for value in self.topics.values(topic or self.topic)
        ]
        assert time.monotonic() - began < SOON_S
        return found


@pytest.fixture
def made(tmp_path: Path, broker: Broker, topics: Topics, fresh: Callable[..., str]) -> Made:
    return Made(tmp_path, broker, topics, fresh("made"))


def test_a_job_that_is_rescaled_gives_each_row_once(made: Made) -> None:
    process = made.begun("p.yaml", "--parallelism", "2", "--log", "json")
    made.until(1, process)
    made.asks("rescale", "made", "--parallelism", "3")
    made.asks("rescale", "made", "--parallelism", "1")
    process.kill()
    ended(process)
    made.dies("sink.flushed:2", "--parallelism", "3")
    assert made.is_open()
    made.ends("--parallelism", "1")
    assert sorted(made.ids()) == list(range(ROWS))


def test_a_second_run_is_refused_while_the_first_stands_still(made: Made) -> None:
    process = made.begun("p.yaml", "--log", "json", fault="")
    made.until(2, process)
    process.send_signal(signal.SIGSTOP)
    said = made.ends(status=3)
    assert f"process {process.pid}" in said
    process.kill()
    ended(process)
    made.ends()
    assert sorted(made.ids()) == list(range(ROWS))


def test_a_fresh_run_leaves_nothing_open_of_the_job_before(made: Made) -> None:
    made.dies("sink.flushed:5", "--parallelism", "3")
    assert made.is_open()
    before = Counter(json.loads(r.value or b"")["id"] for r in made.topics.visible(made.topic))
    made.ends("--fresh")
    assert Counter(made.ids()) == before + Counter(range(ROWS))


def test_a_run_that_writes_at_least_once_leaves_nothing_open_of_one_before(made: Made) -> None:
    made.dies("sink.flushed:5", "--parallelism", "3")
    assert made.is_open()
    made.ends("--set", "sinks.out.kafka.delivery=at_least_once")
    assert sorted(made.ids()) == list(range(ROWS))


def test_an_older_checkpoint_repeats_output_and_loses_none(made: Made) -> None:
    stop_behind(made.folder, 4)
    before = Counter(made.ids())
    said = made.ends("--from-checkpoint", "2")
    assert " lost" not in said
    after = Counter(made.ids())
    assert set(after) == set(range(ROWS))
    assert before < after and max(after.values()) == 2


def test_a_savepoint_in_another_home_touches_no_transaction_of_the_job(made: Made) -> None:
    process = start(made.folder, "p.yaml", "--log", "json")
    made.until(2, process)
    made.asks("savepoint", "made", "--to", str(made.folder / "saved"))
    process.kill()
    ended(process)
    for checkpoint in range(1, 9):  # on a busy machine the first ones may have no rows
        made.dies(f"manifest.after:{checkpoint}")
        if made.is_open():
            break
    assert made.is_open()
    other = made.topics.create(f"{made.topic}-other", 1)
    at = ("--home", "other", "--set", f"sinks.out.kafka.topic={other}")
    made.ends(*at, "--from-savepoint", str(made.folder / "saved"))
    assert made.is_open()
    assert made.ids(other)[-1] == ROWS - 1
    made.ends()
    assert sorted(made.ids()) == list(range(ROWS))


def test_two_jobs_in_a_chain_give_each_row_once(made: Made) -> None:
    end = made.topics.create(f"{made.topic}-2", 2)
    for mine, others in (
        ("sink.prepared:4", "sink.prepared"),
        ("sink.committed:4", "manifest.after:2"),
        ("sink.prepared:2", "noted"),
    ):
        follower = made.begun("follower.yaml", "--parallelism", "2", fault=others)
        made.dies(mine, "--parallelism", "2")
        follower.kill()
        ended(follower)
    made.ends()
    follower = made.begun("follower.yaml")
    deadline = time.monotonic() + 60
    while len(made.topics.visible(end)) < ROWS:
        assert follower.poll() is None and time.monotonic() < deadline
        time.sleep(0.5)
    made.asks("stop", "follower", "--drain")
    ended(follower)
    assert sorted(made.ids()) == sorted(made.ids(end)) == list(range(ROWS))


def test_an_initialisation_that_comes_late_ends_no_transaction(
    tmp_path: Path, fresh: Callable[..., str]
) -> None:
    chance = Random(1)

    def decide(kind: int) -> Harm:
        return "late" if kind == INITIALISE and chance.random() < 0.3 else ""

    with Proxied(tmp_path / "broker", LISTENERS) as broker, between(broker, decide, late_s=0.6):
        made = Made(tmp_path, broker, Topics(broker.address), fresh("made"))
        through = ("--set", f"sinks.out.kafka.brokers={broker.through}")
        done = finished(tmp_path, "p.yaml", *through, *FASTER)
        assert (done.returncode, " lost" in done.stderr) == (0, False), done.stderr
        assert sorted(made.ids()) == list(range(ROWS))


@pytest.fixture
def lost(made: Made) -> Made:
    """A checkpoint names a transaction that the broker has given up meanwhile."""
    made.dies("manifest.after:2", *SHORT)
    deadline = time.monotonic() + 60
    while made.is_open():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return made


SHORT = ("--set", "sinks.out.kafka.transaction_timeout=1s")


def test_a_job_whose_transaction_is_lost_stops_and_names_it(lost: Made) -> None:
    before = sorted(lost.ids())
    said = lost.ends(*SHORT, status=1)
    assert f"rows to topic {lost.topic} are lost" in said
    assert "-out-0-" in said and "opened at 20" in said
    assert sorted(lost.ids()) == before


def test_a_job_may_resume_without_a_lost_transaction(lost: Made) -> None:
    warns = ("--set", "sinks.out.kafka.on_lost_transaction=warn")
    said = lost.ends(*SHORT, *warns)
    found = lost.ids()
    missing = ROWS - len(set(found))
    assert len(found) == len(set(found)) and missing > 0
    assert f"{missing:,} rows to topic {lost.topic} are lost" in said
