"""Jobs under control in a thread of this process, over memory and a home on the disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from headrace.cli.control.api import routes
from headrace.cli.control.client import Client, NotThere
from headrace.cli.control.control import Control
from headrace.cli.control.figures import About, Figures
from headrace.cli.control.plans import Plans
from headrace.cli.control.saving import Export, Saving
from headrace.connectors.memory import Happening, Memory
from headrace.core.channel import Bounds
from headrace.core.checkpoints import Rhythm
from headrace.core.job import Outcome
from headrace.core.keeping import Keeping
from headrace.core.launch import Launch, launch
from headrace.core.news import News
from headrace.core.pipeline.load import load
from headrace.core.pipeline.settings import NoRestart, Restart
from headrace.core.plan import build
from headrace.core.restart import Restarts
from headrace.core.signals import Request, Signals
from headrace.state.memory import MemoryBackend
from headrace.state.savepoints.taking import take
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk

NOW = "2026-01-31T08:00:00Z"
LONGEST_S = 30.0
FOREVER: tuple[Happening, ...] = (3600.0, pl.DataFrame({"key": [0], "x": [0]}))
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


class Pressed(Signals):
    """Ctrl-C, where there is no keyboard."""

    def __init__(self) -> None:
        super().__init__()
        self._requests: list[Request] = []

    @contextmanager
    def heard(self, ask: Request, end: Request) -> Iterator[None]:
        """Within this, requests go to a job."""
        self._requests = [ask, end]
        yield

    def press(self) -> None:
        """Press it."""
        self.count += 1
        self._requests.pop(0)()


@dataclass(slots=True)
class Running:
    """A job that runs in a thread, and its clients."""

    home: Home
    memory: Memory
    control: Control
    signals: Pressed = field(default_factory=Pressed)
    news: list[News] = field(default_factory=list)
    defects: list[BaseException] = field(default_factory=list)
    outcome: Outcome | None = None
    error: BaseException | None = None
    thread: threading.Thread = field(default_factory=threading.Thread)

    @property
    def client(self) -> Client:
        """A new client."""
        return Client(self.home)

    def asked(self, path: str, **body: object) -> dict[str, Any]:
        """The operation that was begun."""
        status, said = self.client.ask("POST", path, body)
        assert status == 202, said
        return said

    def refused(self, path: str, **body: object) -> tuple[int, str]:
        """The status and the code of a refusal."""
        status, said = self.client.ask("POST", path, body)
        return status, said["error"]["code"]

    def now(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        """Return its progress."""
        return self.client.ask("GET", f"/v1/operations/{operation['id']}")[1]

    def ended(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        """Return its end."""
        path = f"/v1/operations/{operation['id']}?wait_s={LONGEST_S}"
        said = self.client.ask("GET", path, timeout_s=2 * LONGEST_S)[1]
        assert said["state"] in ("done", "failed"), said
        return said

    def until_there(self) -> None:
        """Wait until it can be asked."""
        while True:
            try:
                self.client.job()
                return
            except NotThere:
                self.thread.join(0.01)
                assert self.thread.is_alive(), self.error

    def until_read(self, rows: int) -> None:
        """Wait until this number of rows has been counted."""
        self.until(lambda said: said["parts"]["totals"]["rows_in"] >= rows)

    def until(self, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until the job says something like that."""
        until = time.monotonic() + LONGEST_S
        while not is_so(said := self.client.job()):
            assert time.monotonic() < until, said
        return said

    def over(self) -> Outcome:
        """Wait for the end of the job, and return its outcome."""
        self.thread.join(LONGEST_S)
        assert not self.thread.is_alive()
        assert self.outcome is not None, self.error
        return self.outcome


def save(home: Home) -> Export:
    """Makes savepoints as a run does."""
    return partial(_take, home)


def _take(home: Home, number: int, to: str | None, tell: Callable[[int, int], None]) -> str:
    return take(home, "0.1.0", number, to, tell)


@contextmanager
def running(
    folder: Path,
    rows: list[Happening] | None = None,
    export: Callable[[Home], Export] = save,
    text: str = TOTALS,
    restart: Restart | None = None,
) -> Iterator[Running]:
    """Run a job; stop it at the end if it still runs. By default it waits after ten rows."""
    memory = Memory({"rows": {"s": [frame(0, 10), *FOREVER] if rows is None else rows}})
    connectors = {"memory": memory.connector()}
    (folder / "p.yaml").write_text(text)
    loaded = load(folder / "p.yaml", connectors, env={})
    plan, problems = build(loaded)
    assert plan is not None, problems
    home = Home(LocalDisk(), str(folder / "home"), "test")
    figures = Figures(About("test", "p.yaml", "0.1.0", str(folder / "home"), NOW))
    news: list[News] = []

    def tell(said: News) -> None:
        news.append(said)
        figures.hear(said)

    defects: list[BaseException] = []
    control = Control(
        home.folder, figures, Plans(loaded), Saving(export(home)), tell, defects.append, routes
    )
    job = Running(home, memory, control, news=news, defects=defects)

    def run() -> None:
        try:
            with home.held(NOW):
                store = home.store(home.job(NOW))
                keeping = Keeping(
                    *(store, Restarts(restart or NoRestart()), Rhythm()),
                    tell=tell,
                    note=home.note,
                    noted=home.noted,
                    time=lambda: NOW,
                )
                how = Launch(
                    folder,
                    Bounds(),
                    watchers=(control.watch,),
                    over=control.over,
                    keeping=keeping,
                    signals=job.signals,
                )
                job.outcome = launch(plan, connectors, MemoryBackend(), how)
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
