"""`headrace run` with its checkpoints in a bucket: killed, on another machine, and side by side."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from headrace.core.api.storage_url import StorageUrl
from headrace.state.storage.remote.bucket import Bucket
from tests.support.cli.command_line import Headrace
from tests.support.cli.processes import ended, start
from tests.support.s3.proxy import Harm, between
from tests.support.s3.server import Server

ROWS = 30_000
PIPELINE = """\
name: bids
settings: {checkpoint: {every: 100ms, dir: PLACE}}
sources:
  numbers: {generate: {rows: ROWS, rate: 10000/s, columns: {x: id}}}
steps:
  counts: {from: numbers, key: {k: x % 100}, aggregate: {n: count(*)}}
sinks:
  out: {from: counts, files: {path: out}}
"""
SLOWLY = ("--set", "sources.numbers.generate.rate=1000/s")
"""However busy the machine is, it has not come to its end before it is stopped."""
AT_ONCE = ("--set", "sources.numbers.generate.rate=10000000/s")


@pytest.fixture
def job(headrace: Headrace, there: Bucket, place: StorageUrl, tmp_path: Path) -> Headrace:
    """The command line, next to a pipeline."""
    text = PIPELINE.replace("PLACE", str(place)).replace("ROWS", str(ROWS))
    (tmp_path / "p.yaml").write_text(text)
    return headrace


@pytest.fixture
def running(job: Headrace, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run in a process of its own that has taken three checkpoints."""
    process = start(tmp_path, "p.yaml", "--log", "json", *SLOWLY)
    assert process.stderr is not None
    for line in process.stderr:
        if json.loads(line).get("number") == 3:
            break
    yield process
    if process.returncode is None:
        process.kill()
        ended(process)


def changes() -> list[tuple[int, int]]:
    """Return the emitted keys and their counts."""
    rows = []
    for part in Path("out").iterdir():
        rows += [json.loads(line) for line in part.read_text().splitlines()]
    return [(row["k"], row["n"]) for row in rows]


def assert_all_is_put_out_once() -> None:
    found = Counter(changes())
    assert max(found.values()) == 1
    assert {(k, ROWS // 100) for k in range(100)} <= set(found)


def test_a_killed_run_resumes_in_its_home(
    job: Headrace, running: subprocess.Popen[str], there: Bucket
) -> None:
    running.send_signal(signal.SIGKILL)
    ended(running)
    ran = job("run", "p.yaml", *AT_ONCE)
    assert ran.status == 0, ran.err
    assert f"the previous run was killed or left by os._exit: process {running.pid} " in ran.err
    assert "resumed from checkpoint " in ran.err
    assert_all_is_put_out_once()
    assert sorted(there.list_objects()) == ["job.json", "owner.json"]
    files = [path.name for path in Path(".headrace").rglob("*") if path.is_file()]
    assert files == ["lock"]


def test_a_run_whose_newest_manifest_is_gone_is_refused(
    job: Headrace, running: subprocess.Popen[str], there: Bucket
) -> None:
    running.send_signal(signal.SIGTERM)
    ended(running)
    before = Counter(changes())
    manifests = sorted(
        (name for name in there.list_objects() if "/manifests/" in name),
        key=lambda name: int(Path(name).stem),
    )
    older, newest = (int(Path(name).stem) for name in manifests[-2:])
    there.remove([manifests[-1]])
    ran = job("run", "p.yaml", *AT_ONCE)
    assert ran.status == 3, ran.err
    assert f"checkpoint {newest}'s output is committed, but its manifest is gone" in ran.err
    assert f"restore {there.address}/{manifests[-1]} from a copy" in ran.err
    assert Counter(changes()) == before
    there.remove(manifests)
    assert job("run", "p.yaml", "--from-checkpoint", str(older)).status == 3
    ran = job("run", "p.yaml", *AT_ONCE)
    assert ran.status == 3, ran.err
    assert "as are all others" in ran.err
    assert Counter(changes()) == before


def test_a_run_of_a_lost_machine_resumes_elsewhere_on_request(
    job: Headrace, running: subprocess.Popen[str]
) -> None:
    running.send_signal(signal.SIGKILL)
    ended(running)
    ran = job("run", "p.yaml", "--home", "other")
    assert ran.status == 3
    assert f"is held by process {running.pid} on " in ran.err
    assert "if it is certainly dead, --take-over resumes from its newest checkpoint" in ran.err
    ran = job("run", "p.yaml", "--home", "other", "--take-over", *AT_ONCE)
    assert ran.status == 0, ran.err
    assert "resumed from checkpoint " in ran.err
    assert_all_is_put_out_once()


def test_a_stopped_run_resumes_anywhere(job: Headrace, running: subprocess.Popen[str]) -> None:
    running.send_signal(signal.SIGTERM)
    ended(running)
    assert running.returncode == 0
    ran = job("run", "p.yaml", "--home", "other", *AT_ONCE)
    assert (ran.status, "resumed from checkpoint " in ran.err) == (0, True), ran.err
    assert_all_is_put_out_once()


def test_a_deposed_run_ends_and_reports_the_new_owner(
    job: Headrace, running: subprocess.Popen[str]
) -> None:
    ran = job("run", "p.yaml", "--home", "other", "--take-over", *AT_ONCE)
    assert ran.status == 0, ran.err
    _, err = ended(running)
    assert running.returncode == 3, err
    said = [json.loads(line) for line in err.splitlines()]
    assert any(f"is held by process {os.getpid()} on " in json.dumps(line) for line in said), err
    found = Counter(changes())
    assert {(k, ROWS // 100) for k in range(100)} <= set(found)


def test_a_home_whose_checkpoints_are_elsewhere_is_no_new_job(
    job: Headrace, running: subprocess.Popen[str], place: StorageUrl
) -> None:
    running.send_signal(signal.SIGTERM)
    ended(running)
    for other in ("s3://bucket/another", None):
        text = Path("p.yaml").read_text()
        Path("q.yaml").write_text(
            text.replace(str(place), other) if other else text.replace(f", dir: {place}", "")
        )
        ran = job("run", "q.yaml")
        assert ran.status == 3
        assert f"the checkpoints of this job are in {place}, and settings.checkpoint.dir" in ran.err
        assert "is not set" in ran.err or "is s3://bucket/another" in ran.err
    ran = job("run", "p.yaml", *AT_ONCE)
    assert (ran.status, "resumed from checkpoint " in ran.err) == (0, True), ran.err


def test_a_job_survives_network_failures(
    job: Headrace, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = Random(7)
    harms: tuple[Harm, ...] = ("no connection", "cut", "unheard", "503", "half")
    come: Counter[Harm] = Counter()
    begun: list[str] = []

    def harm(method: str, path: str) -> Harm:
        if "/manifests/1.json" in path:
            begun.append(path)
        if path.endswith("/finished"):
            begun.clear()  # all is there
        if not begun or drawn.random() > 0.15:
            return ""
        chosen = drawn.choice(harms)
        come[chosen] += 1
        return chosen

    with between(server.port) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        proxy.harm = harm
        settings = ("settings.checkpoint.tolerable_failures=100", "settings.restart.first=10ms")
        more = [word for each in settings for word in ("--set", each)]
        ran = job("run", "p.yaml", "--log", "json", *more)
        assert ran.status == 0, ran.err
    assert set(come) == set(harms)
    assert_all_is_put_out_once()


def test_a_missing_bucket_is_reported_at_once(job: Headrace) -> None:
    ran = job("run", "p.yaml", "--set", "settings.checkpoint.dir=s3://nobody-made-it/path")
    assert (ran.status, "there is no such bucket" in ran.err) == (1, True)
    assert not Path("out").exists()


def test_a_job_resumes_from_a_savepoint_in_a_bucket(
    job: Headrace, running: subprocess.Popen[str], place: StorageUrl
) -> None:
    there = f"{place}/saved/monday"
    ran = job("savepoint", "bids", "--to", there)
    assert (ran.status, ran.out.strip()) == (0, there), ran.err
    running.send_signal(signal.SIGTERM)
    ended(running)
    assert not list(Path(".headrace/savepoints").rglob("*.parquet"))
    ran = job("savepoint", "bids", "--to", there)
    assert ran.status != 0
    for what in (there, "bids", f"{place}/bids"):
        ran = job("state", "ls", what)
        assert (ran.status, "counts" in ran.out) == (0, True), ran.err
    ran = job("state", "export", "bids", "--to", there)
    assert (ran.status, f"{there} is a savepoint" in ran.err) == (3, True), ran.err
    assert "bids@" in job("state", "ls").out
    for part in Path("out").iterdir():
        part.unlink()
    ran = job("run", "p.yaml", "--home", "other", "--from-savepoint", there, *AT_ONCE)
    assert ran.status == 0, ran.err
    assert {(k, ROWS // 100) for k in range(100)} <= set(changes())


def test_an_unreachable_server_is_reported_soon(
    job: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    ran = job("run", "p.yaml")
    assert (ran.status, "owner.json: the server cannot be reached" in ran.err) == (1, True), ran.err
    assert not Path("out").exists()
