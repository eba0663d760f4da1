"""A job that runs, and clients that ask for this and that at the same time."""

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import cast

import polars as pl
import pytest

from headrace.cli.control import job_socket
from headrace.cli.control.job_control import JobControl
from headrace.cli.control.job_summary import JobDescription, JobSummary
from headrace.cli.control.operations import Operation
from headrace.cli.control.rescale_plans import RescalePlans
from headrace.cli.control.savepoint_export import ByteProgress, SavepointExport, SavepointProcess
from headrace.connectors.memory import InMemoryData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.snapshots import RefusedSnapshot, StoreError
from headrace.core.api.splits import Failure
from headrace.core.coordination.events import (
    JobEvent,
    JobRescaled,
    RequestFailed,
    SavepointTaken,
    StopRequested,
)
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.job.job import Job, JobOutcome
from headrace.core.job.launch import JobInterrupted
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.pipeline.settings import FixedRestart
from headrace.state.savepoints.savepoint import open_savepoint
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.support.cli.controlled_jobs import (
    FOREVER,
    LONGEST_S,
    NOW,
    TOTALS,
    Running,
    frame,
    running,
    save,
)
from tests.support.cli.processes import met
from tests.support.runtime.memory_pipelines import job_of


class Gate:
    """Savepoints that are written when a test releases them."""

    def __init__(self) -> None:
        self.writing = threading.Semaphore(0)
        self.let = threading.Event()

    def export(self, home: Home) -> SavepointExport:
        """Waits, then does as a run does."""
        made = save(home)

        def write(number: int, to: str | None, tell: ByteProgress) -> str:
            self.writing.release()
            while not self.let.wait(0.01):
                tell(1, 2)
            return made(number, to, tell)

        return write

    def until_writing(self) -> None:
        """Wait until one is being written."""
        assert self.writing.acquire(timeout=LONGEST_S)


def totals(job: Running) -> dict[int, tuple[int, int]]:
    """The last row of each key."""
    frames = job.memory.outputs.get("out", [])
    rows = (row for frame in frames for row in frame[["key", "n", "total"]].rows())
    return {key: (n, total) for key, n, total in rows}


def expected(rows: pl.DataFrame) -> dict[int, tuple[int, int]]:
    counts = Counter(rows["key"])
    sums: Counter[int] = Counter()
    for key, x in rows.rows():
        sums[key] += x
    return {key: (counts[key], sums[key]) for key in counts}


def test_a_job_says_what_it_is_and_does(tmp_path: Path) -> None:
    with running(tmp_path) as job:
        job.until_read(10)
        said = job.client.fetch_job()
        assert (said["name"], said["status"], said["attempt"]) == ("test", "running", 1)
        assert said["parallelism"] == {"rows": 2, "totals": 2, "out": 2}
        assert (said["rows_in"], said["rows_out"]) == (10, 3)
        assert said["failure"] is None
        assert job.client.send_request("GET", "/v1/operations") == (200, {"operations": []})


def test_statistics_are_reported_by_subtask_and_by_checkpoint(tmp_path: Path) -> None:
    with running(tmp_path) as job:
        job.until_read(10)
        job.ended(job.asked("/v1/savepoints"))
        status, said = job.client.send_request("GET", "/v1/statistics")
        assert status == 200
        assert set(said["parts"]) == {"rows", "totals", "out"}
        status, said = job.client.send_request("GET", "/v1/checkpoints")
        assert (status, said["completed"]) == (200, 1)


def test_a_savepoint_is_a_folder_and_the_job_continues(tmp_path: Path) -> None:
    with running(tmp_path) as job:
        job.until_read(10)
        there = str(tmp_path / "there")
        for asked in ({}, {"to": there}):
            ended = job.ended(job.asked("/v1/savepoints", **asked))
            path, number = ended["result"]["path"], ended["result"]["checkpoint"]
            assert open_savepoint(path).number == number
            assert SavepointTaken(number, path) in job.news
        assert path == there
        taken = job.ended(job.asked("/v1/savepoints", to=there))
        assert (taken["state"], taken["error"]["code"]) == ("failed", "refused")
        assert job.client.fetch_job()["status"] == "running"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/savepoints", {"to": "relative"}),
        ("/v1/savepoints", {"to": 5}),
        ("/v1/savepoints", {"to": "foo://x/y"}),
        ("/v1/stop", {"savepoint": "s3://key:word@x/y"}),
        ("/v1/savepoints", {"too": "/there"}),
        ("/v1/stop", {"savepoint": "relative"}),
        ("/v1/stop", {"savepoint": ""}),
        ("/v1/stop", {"savepoint": 0}),
        ("/v1/stop", {"drain": "yes"}),
        ("/v1/stop", {"drain": 0}),
        ("/v1/rescale", {}),
        ("/v1/rescale", {"parallelism": "3"}),
        ("/v1/rescale", {"parallelism": True}),
        ("/v1/rescale", {"parts": [1]}),
        ("/v1/rescale", {"workers": "auto"}),
    ],
)
def test_what_cannot_be_meant_is_malformed(
    shared: Running, path: str, body: dict[str, object]
) -> None:
    assert shared.refused(path, **body) == (400, "malformed")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("shared")) as job:
        yield job


@pytest.mark.parametrize(
    "body",
    [
        {"parallelism": 9},
        {"parallelism": 0},
        {"parts": {"totals": 9}},
        {"parts": {"total": 2}},
        {"parts": {"rows": 2}},
    ],
)
def test_a_parallelism_that_cannot_be_is_refused(shared: Running, body: dict[str, object]) -> None:
    assert shared.refused("/v1/rescale", **body) == (400, "wrong_parallelism")
    assert shared.client.fetch_job()["parallelism"] == {"rows": 2, "totals": 2, "out": 2}


@pytest.mark.parametrize("workers", [0, 257, 5])
def test_workers_that_cannot_be_are_refused(shared: Running, workers: int) -> None:
    """Two parts of two subtasks each are work for at most four workers."""
    assert shared.refused("/v1/rescale", workers=workers) == (400, "wrong_workers")


@pytest.mark.parametrize("wait_s", ["-1", "nan", "61", "x", ""])
def test_nobody_waits_for_ever(shared: Running, wait_s: str) -> None:
    operation = shared.asked("/v1/savepoints")
    path = f"/v1/operations/{operation['id']}?wait_s={wait_s}"
    assert shared.client.send_request("GET", path)[0] == (400 if wait_s else 200)
    assert shared.client.send_request("GET", "/v1/operations/none")[0] == 404
    assert shared.ended(operation)["state"] == "done"


def test_many_clients_ask_at_once_and_each_has_an_answer(tmp_path: Path) -> None:
    with running(tmp_path) as job, ThreadPoolExecutor(8) as threads:
        job.until_read(10)
        wanted = [{"to": str(tmp_path / f"s{n}")} if n % 2 else {} for n in range(16)]
        asked = list(threads.map(lambda body: job.asked("/v1/savepoints", **body), wanted))
        ended = list(threads.map(job.ended, asked))
        assert {each["state"] for each in ended} == {"done"}
        for each in ended:
            open_savepoint(each["result"]["path"])
        assert len({each["result"]["path"] for each in ended if each["id"]}) >= 9
        assert len({each["result"]["checkpoint"] for each in ended}) == len(
            {each["id"] for each in ended}
        )


def test_a_rescale_changes_the_plan_and_loses_nothing(tmp_path: Path) -> None:
    before, rest = frame(0, 1000), frame(1000, 1300)
    with running(tmp_path, [before, 0.2, rest, *FOREVER]) as job:
        job.until_read(1000)
        done = job.ended(job.asked("/v1/rescale", parallelism=3))
        assert done["result"]["parallelism"] == {"rows": 3, "totals": 3, "out": 3}
        assert done["result"]["stood_still_s"] > 0
        job.until_read(1300)
        own = job.ended(job.asked("/v1/rescale", parts={"totals": 1}))
        assert own["result"]["parallelism"] == {"totals": 1}
        assert job.client.fetch_job()["parallelism"] == {"rows": 3, "totals": 1, "out": 3}
        again = job.ended(job.asked("/v1/rescale", parallelism=3))
        assert (again["state"], again["result"]["checkpoint"]) == ("done", None)
        job.ended(job.asked("/v1/rescale", parallelism=2))
        assert job.client.fetch_job()["parallelism"] == {"rows": 2, "totals": 1, "out": 2}
        assert sum(isinstance(each, JobRescaled) for each in job.news) == 3
        stopped = job.ended(job.asked("/v1/stop"))
        assert stopped["state"] == "done"
        assert job.over().is_stopped
        assert totals(job) == expected(pl.concat([before, rest]))


def test_a_stop_waits_for_what_is_being_written_and_saves_what_waits(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path, export=gate.export) as job:
        first = job.asked("/v1/savepoints")
        gate.until_writing()
        second = job.asked("/v1/savepoints")
        rescale = job.asked("/v1/rescale", parallelism=1)
        stop = job.asked("/v1/stop", savepoint=str(tmp_path / "last"))
        assert (job.now(first)["state"], job.now(second)["state"]) == ("running", "waiting")
        assert job.refused("/v1/savepoints") == (409, "stopping")
        assert job.refused("/v1/rescale", parallelism=3) == (409, "stopping")
        assert job.refused("/v1/stop", drain=True) == (409, "too_late")
        assert job.refused("/v1/stop", savepoint="/elsewhere") == (409, "stopping")
        assert job.asked("/v1/stop", savepoint=True)["id"] == stop["id"]
        with ThreadPoolExecutor(4) as threads:
            ending = [threads.submit(job.ended, each) for each in (first, second, rescale, stop)]
            gate.let.set()
            one, two, three, last = (each.result() for each in ending)
        outcome = job.over()
        assert open_savepoint(one["result"]["path"]).number == one["result"]["checkpoint"]
        assert two["result"]["checkpoint"] == outcome.checkpoint
        assert (three["state"], three["error"]["code"]) == ("failed", "refused")
        assert last["result"]["path"] == str(tmp_path / "last")
        assert last["result"]["checkpoint"] == outcome.checkpoint
        assert not last["result"]["drained"]
        assert job.news.count(StopRequested(is_drain=False)) == 1


def test_a_drained_job_has_finished_what_it_had_read(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path, export=gate.export) as job:
        job.until_read(10)
        first = job.asked("/v1/savepoints")
        gate.until_writing()
        waiting = job.asked("/v1/savepoints")
        stop = job.asked("/v1/stop", drain=True, savepoint=True)
        assert job.asked("/v1/stop", drain=True)["id"] == stop["id"]
        with ThreadPoolExecutor(3) as threads:
            ending = [threads.submit(job.ended, each) for each in (first, waiting, stop)]
            gate.let.set()
            one, two, last = (each.result() for each in ending)
        assert one["state"] == "done"
        assert (two["state"], two["error"]["code"]) == ("failed", "refused")
        assert last["result"]["drained"]
        assert open_savepoint(last["result"]["path"]).document["drained"] is True


def test_a_stop_at_once_fails_what_is_asked_for_and_takes_no_checkpoint(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path, export=gate.export) as job, ThreadPoolExecutor(2) as threads:
        asked = [job.asked("/v1/savepoints", to=str(tmp_path / "there"))]
        gate.until_writing()
        asked.append(job.asked("/v1/stop"))
        ending = [threads.submit(job.ended, each) for each in asked]
        assert job.asked("/v1/stop", now=True)["id"] == asked[1]["id"]
        assert [each.result()["error"]["code"] for each in ending] == ["failed", "failed"]
        job.thread.join(LONGEST_S)
        assert isinstance(job.error, JobInterrupted)
        assert StopRequested(is_drain=False, is_immediate=True) in job.news
        assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("other", [{"drain": True}, {"savepoint": True}])
def test_a_stop_at_once_neither_drains_nor_saves(tmp_path: Path, other: dict[str, bool]) -> None:
    with running(tmp_path) as job:
        assert job.refused("/v1/stop", now=True, **other) == (400, "malformed")
        assert job.client.fetch_job()["status"] in ("starting", "running")


def test_a_stop_says_what_it_waits_for(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW.replace("{folder}", str(tmp_path)))
    for name in ("begun", "release"):
        os.mkfifo(tmp_path / name)
    with running(tmp_path, rows=[frame(0, 5000), *FOREVER], text=SLOWED) as job:
        met(tmp_path / "begun", "r").close()
        stop = job.asked("/v1/stop")
        while not (words := job.now(stop)["progress"]["words"]).startswith("waiting for check"):
            pass
        assert words == "waiting for checkpoint 1: rows > slow > out"
        met(tmp_path / "release", "w").close()
        assert job.ended(stop)["state"] == "done"


def test_a_requested_savepoint_survives_a_signal(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path, export=gate.export) as job, ThreadPoolExecutor(3) as threads:
        asked = [job.asked("/v1/savepoints")]
        gate.until_writing()
        asked.append(job.asked("/v1/savepoints"))
        job.signals.press()
        asked.append(job.asked("/v1/stop"))
        ending = [threads.submit(job.ended, each) for each in asked]
        gate.let.set()
        assert [each.result()["state"] for each in ending] == ["done", "done", "done"]
        assert job.over().is_stopped


def test_the_second_signal_leaves_a_savepoint_unfinished_and_nothing_of_it(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path, export=gate.export) as job, ThreadPoolExecutor(1) as threads:
        asked = job.asked("/v1/savepoints", to=str(tmp_path / "there"))
        gate.until_writing()
        ending = threads.submit(job.ended, asked)
        job.signals.press()
        job.signals.press()
        failed = ending.result()
        assert (failed["state"], failed["error"]["code"]) == ("failed", "failed")
        job.thread.join(LONGEST_S)
        assert isinstance(job.error, JobInterrupted)
        assert not (tmp_path / "there").exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [(StoreError("no space left on device"), "failed"), (RefusedSnapshot("is there"), "refused")],
)
def test_a_failed_savepoint_is_reported_and_the_job_continues(
    tmp_path: Path, error: Exception, code: str
) -> None:
    def export(home: Home) -> SavepointExport:
        def write(number: int, to: str | None, tell: ByteProgress) -> str:
            raise error

        return write

    with running(tmp_path, export=export) as job:
        failed = job.ended(job.asked("/v1/savepoints"))
        assert (failed["state"], failed["error"]["code"]) == ("failed", code)
        assert RequestFailed("savepoint", str(error)) in job.news
        stop = job.ended(job.asked("/v1/stop", savepoint=True))
        assert (stop["state"], stop["error"]["code"]) == ("failed", code)
        assert job.over().is_stopped


def test_a_client_that_goes_away_changes_nothing(tmp_path: Path) -> None:
    gate = Gate()
    with running(tmp_path, export=gate.export) as job:
        asked = job.asked("/v1/savepoints")
        gate.until_writing()
        path = f"GET /v1/operations/{asked['id']}?wait_s=60 HTTP/1.1\r\n\r\n"
        with job_socket.connect_to_job(job.home.folder, LONGEST_S) as connection:
            connection.sendall(path.encode())
        assert job.now(asked)["state"] == "running"
        gate.let.set()
        assert job.ended(asked)["state"] == "done"


SLOWED = """
name: test
sources:
  rows: {memory: {data: rows}, schema: {key: bigint, x: bigint}}
steps:
  slow: {from: rows, map: {python: "slow.py:slow", returns: {x: bigint}}}
sinks:
  out: {from: slow, memory: {data: out}}
"""
SLOW = """
def slow(rows):
    if rows.height > 2000:  # in a thread
        with open("{folder}/begun", "w"):
            pass
        with open("{folder}/release") as release:
            release.read()
    return rows.select("x")
"""
BROKEN = """
name: test
sources:
  rows: {memory: {data: rows}, schema: {key: bigint, x: bigint}}
steps:
  totals: {from: rows, map: {python: "broken.py:broken", returns: {x: bigint}}}
sinks:
  out: {from: totals, memory: {data: out}}
"""


def test_a_job_that_waits_to_begin_again_says_why(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def broken(rows):\n    raise ValueError('it is broken')\n")
    patient = FixedRestart.model_construct(attempts=1, delay=timedelta(hours=1))
    with running(tmp_path, text=BROKEN, restart=patient) as job:
        said = job.until(lambda said: said["status"] == "restarting")
        assert "it is broken" in said["failure"]["message"]
        for asked in (job.asked("/v1/savepoints"), job.asked("/v1/rescale", parallelism=2)):
            failed = job.ended(asked)
            assert failed["error"]["code"] == "refused"
            assert "it is broken" in failed["error"]["message"]
        assert job.ended(job.asked("/v1/stop"))["state"] == "done"
        assert job.over().is_stopped


def test_a_signal_while_a_job_is_rescaled_ends_both(tmp_path: Path) -> None:
    with running(tmp_path) as job, ThreadPoolExecutor(1) as threads:
        ending = threads.submit(job.ended, job.asked("/v1/rescale", parallelism=3))
        job.signals.press()
        ended = ending.result()
        assert ended["state"] == "done" or ended["error"]["code"] == "refused"
        assert job.over().checkpoint


def test_a_job_runs_where_no_socket_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_socket, "MAX_NAME_BYTES", 5)
    monkeypatch.setattr(job_socket, "DESCRIPTOR_FOLDER", str(tmp_path / "none"))
    memory = InMemoryData({"rows": {"s": [frame(0, 10)]}})
    text = TOTALS.replace("name: test", "")
    job = job_of(tmp_path, text, memory, KernelExecutor(), ChannelBounds())
    news: list[JobEvent] = []
    asyncio.run(unused(tmp_path, news.append).watch(job))
    (told,) = news
    assert isinstance(told, RequestFailed)
    assert (told.request, "control.sock: " in told.reason) == ("control", True)


def unused(folder: Path, tell: Callable[[JobEvent], None]) -> JobControl:
    """Over no job yet."""
    home = Home(LocalDisk(), str(folder), "test")
    os.mkdir(home.folder)
    (folder / "p.yaml").write_text(TOTALS)
    loaded = load_pipeline(folder / "p.yaml", {})
    figures = JobSummary(JobDescription("test", "p.yaml", "0.1.0", str(folder), NOW))
    return JobControl(
        home.folder, figures, RescalePlans(loaded), SavepointProcess(save(home)), tell
    )


def ended_so(folder: Path, outcome: JobOutcome) -> tuple[Operation, Operation]:
    """Return the ends of a savepoint and a stop when the job ends like that."""
    control = unused(folder, lambda said: None)
    saving = control.operations.request_savepoint("running", NOW)
    stop = control.operations.request_stop("running", NOW, saves=False, drain=False)
    asyncio.run(control.finish_operations(cast(Job, None), outcome))
    assert saving.error is not None
    return saving, stop


def test_a_savepoint_of_a_finished_job_is_refused(tmp_path: Path) -> None:
    saving, stop = ended_so(tmp_path, JobOutcome(None, False, {}, 1.0))
    assert saving.error and saving.error.code == "refused"
    assert (stop.state, stop.result["checkpoint"]) == ("done", None)


def test_a_stop_of_a_job_that_fails_has_failed(tmp_path: Path) -> None:
    failure = Failure("no space left on device", "out")
    saving, stop = ended_so(tmp_path, JobOutcome(failure, False, {}, 1.0, checkpoint=3))
    for each in (saving, stop):
        assert each.error and each.error.code == "failed"
        assert each.error.message == "the job has failed: no space left on device"
