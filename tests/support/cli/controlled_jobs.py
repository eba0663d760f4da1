"""Jobs under control in a thread of this process, over memory and a home on the disk."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl

from headrace.cli.control.api import build_routes
from headrace.cli.control.client import JobClient, NotListening
from headrace.cli.control.job_control import JobControl
from headrace.cli.control.job_summary import JobDescription, JobSummary
from headrace.cli.control.rescale_plans import RescalePlans
from headrace.cli.control.savepoint_export import SavepointExport, SavepointProcess
from headrace.connectors.memory import InMemoryData, MemoryEvent
from headrace.core.checkpoint.storage import CheckpointStorage
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.coordination.events import JobEvent
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.job.job import JobOutcome
from headrace.core.job.launch import LaunchOptions, launch_job
from headrace.core.job.signals import SignalHandler
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.pipeline.settings import NoRestart, Restart
from headrace.core.plan.plan_assembly import build_plan
from headrace.state.memory.backend import MemoryBackend
from headrace.state.savepoints.creation import take_savepoint
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk

NOW = "2026-01-31T08:00:00Z"
LONGEST_S = 30.0
FOREVER: tuple[MemoryEvent, ...] = (3600.0, pl.DataFrame({"key": [0], "x": [0]}))
"""The next element never arrives."""

TOTALS = """
name: test
sources:
  rows: {memory: {data: rows}, schema: {key: bigint, x: bigint}}
steps:
  totals: {from: rows, key: key, aggregate: {n: count(*), total: sum(x)}}
sinks:
  out: {from: totals, memory: {data: out}}
settings: {parallelism: 2, key_groups: 8}
"""


def frame(start: int, stop: int) -> pl.DataFrame:
    """Rows with these numbers, of three keys."""
    numbers = pl.int_range(start, stop, eager=True)
    return pl.DataFrame({"key": numbers % 3, "x": numbers})


class Pressed(SignalHandler):
    """Ctrl-C, where there is no keyboard, pressed once in a second."""

    def __init__(self) -> None:
        super().__init__(partial(next, count()))

    def press(self) -> None:
        """Press it."""
        self.handle(signal.SIGINT)


@dataclass(slots=True)
class Running:
    """A job that runs in a thread, and its clients."""

    home: Home
    memory: InMemoryData
    control: JobControl
    signals: Pressed = field(default_factory=Pressed)
    news: list[JobEvent] = field(default_factory=list)
    defects: list[BaseException] = field(default_factory=list)
    outcome: JobOutcome | None = None
    error: BaseException | None = None
    thread: threading.Thread = field(default_factory=threading.Thread)

    @property
    def client(self) -> JobClient:
        """A new client."""
        return JobClient(self.home)

    def asked(self, path: str, **body: object) -> dict[str, Any]:
        """The operation that was begun."""
        status, said = self.client.send_request("POST", path, body)
        assert status == 202, said
        return said

    def refused(self, path: str, **body: object) -> tuple[int, str]:
        """The status and the code of a refusal."""
        status, said = self.client.send_request("POST", path, body)
        return status, said["error"]["code"]

    def now(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        """Return its progress."""
        return self.client.send_request("GET", f"/v1/operations/{operation['id']}")[1]

    def ended(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        """Return its end."""
        path = f"/v1/operations/{operation['id']}?wait_s={LONGEST_S}"
        said = self.client.send_request("GET", path, timeout_s=2 * LONGEST_S)[1]
        assert said["state"] in ("done", "failed"), said
        return said

    def until_there(self) -> None:
        """Wait until it can be asked."""
        while True:
            try:
                self.client.fetch_job()
                return
            except NotListening:
                self.thread.join(0.01)
                assert self.thread.is_alive(), self.error

    def until_read(self, rows: int) -> None:
        """Wait until this number of rows has been counted."""
        self.until(lambda said: said["parts"]["totals"]["rows_in"] >= rows)

    def until(self, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until the job says something like that."""
        until = time.monotonic() + LONGEST_S
        while not is_so(said := self.client.fetch_job()):
            assert time.monotonic() < until, said
        return said

    def over(self) -> JobOutcome:
        """Wait for the end of the job, and return its outcome."""
        self.thread.join(LONGEST_S)
        assert not self.thread.is_alive()
        assert self.outcome is not None, self.error
        return self.outcome


def save(home: Home) -> SavepointExport:
    """Makes savepoints as a run does."""
    return partial(_take, home)


def _take(home: Home, number: int, to: str | None, tell: Callable[[int, int], None]) -> str:
    return take_savepoint(home, "0.1.0", number, to, tell)


@contextmanager
def running(
    folder: Path,
    rows: list[MemoryEvent] | None = None,
    export: Callable[[Home], SavepointExport] = save,
    text: str = TOTALS,
    restart: Restart | None = None,
) -> Iterator[Running]:
    """Run a job; stop it at the end if it still runs. By default it waits after ten rows."""
    memory = InMemoryData({"rows": {"s": [frame(0, 10), *FOREVER] if rows is None else rows}})
    connectors = {"memory": memory.build_connector()}
    (folder / "p.yaml").write_text(text)
    loaded = load_pipeline(folder / "p.yaml", connectors, env={})
    plan, problems = build_plan(loaded)
    assert plan is not None, problems
    home = Home(LocalDisk(), str(folder / "home"), "test")
    figures = JobSummary(JobDescription("test", "p.yaml", "0.1.0", str(folder / "home"), NOW))
    news: list[JobEvent] = []

    def tell(said: JobEvent) -> None:
        news.append(said)
        figures.record_event(said)

    defects: list[BaseException] = []
    signals = Pressed()
    control = JobControl(
        home.folder,
        figures,
        RescalePlans(loaded),
        SavepointProcess(export(home)),
        tell,
        defects.append,
        signals.end_at_once,
        build_routes,
    )
    job = Running(home, memory, control, signals, news, defects)

    def run() -> None:
        try:
            with home.hold(NOW):
                store = home.open_store(home.ensure_job_id(NOW))
                keeping = CheckpointStorage(
                    *(store, RestartPolicy(restart or NoRestart()), CheckpointSchedule()),
                    on_event=tell,
                    write_commit_record=home.write_commit_record,
                    read_commit_record=home.read_commit_record,
                    write_completion_record=home.write_completion_record,
                    read_completion_record=home.read_completion_record,
                    time=lambda: NOW,
                )
                how = LaunchOptions(
                    folder,
                    ChannelBounds(),
                    watchers=(control.watch,),
                    on_ended=control.finish_operations,
                    storage=keeping,
                    signals=job.signals,
                )
                job.outcome = launch_job(plan, connectors, MemoryBackend(), how)
        except BaseException as error:
            job.error = error

    job.thread = threading.Thread(target=run, daemon=True)
    job.thread.start()
    try:
        job.until_there()
        yield job
    finally:
        while job.thread.is_alive() and job.signals.count < 2:
            with suppress(RuntimeError):  # it ends just now
                job.signals.press()
            job.thread.join(LONGEST_S / 3)
        assert not job.thread.is_alive()
        assert not defects
