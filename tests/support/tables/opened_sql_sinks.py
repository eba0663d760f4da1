"""Both halves of a SQL sink, opened alone, with a schema of its own in the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pytest

from headrace.connectors.registry import REGISTRY
from headrace.connectors.tables.sql_sink import TableSink
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import JobNotes, RunContext
from headrace.core.api.sinks import SinkWriter, WriterFactory
from headrace.core.api.splits import Handle
from headrace.core.plan import nodes
from headrace.core.spark.committer import InMemoryNotes
from headrace.core.types.data_types import Schema
from tests.support.plans import plan_of
from tests.support.tables.databases import Database

JOB = "0123456789abcdef" * 2

APPENDS = (
    "sources: {rows: {files: {path: in}, schema: {SCHEMA}}}\nsinks:\n  out: {from: rows, SQL}\n"
)
CHANGES = """\
sources: {rows: {files: {path: in}, schema: {k: string, n: bigint, at: timestamp}, event_time: at}}
steps:
  last: {from: rows, dedup: {key: k, keep: last}, select: {k: k, n: n}}
  some: {from: last, where: n > 0}
sinks:
  out: {from: some, SQL}
"""


@dataclass(slots=True)
class Sink:
    """Both halves of a sink, opened alone."""

    folder: Path
    text: str
    job: str = JOB
    notes: JobNotes = field(default_factory=InMemoryNotes)
    node: nodes.Sink = field(init=False)
    schema: Schema = field(init=False)
    context: RunContext = field(init=False)
    coordinator: TableSink = field(init=False)
    _loop: asyncio.Runner = field(default_factory=asyncio.Runner)
    _executor: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 2))
    _opened: list[TableSink | WriterFactory] = field(default_factory=list)

    def __post_init__(self) -> None:
        plan = plan_of(self.folder, f"name: t\n{self.text}")
        node = plan.part("out")
        assert isinstance(node, nodes.Sink)
        self.node = node
        self.schema = plan.streams[node.input].sink_schema
        kernel_executor = KernelExecutor(self._executor)
        self.context = RunContext(self.folder, self.job, kernel_executor, notes=self.notes)
        self.reopen()

    def close(self) -> None:
        """Close all that was opened."""
        for half in self._opened:
            self.do(half.close())
        self._loop.close()
        self._executor.shutdown()

    def reopen(self) -> None:
        """Open the coordinator's half once more, as the next attempt does."""
        side = REGISTRY["sql"].sink
        assert side is not None and side.open is not None
        opened = side.open(self.node, self.schema, self.context)
        assert isinstance(opened, TableSink)
        self.coordinator = opened
        self._opened.append(opened)

    def do(self, work: Any) -> Any:
        """Run a coroutine."""
        return self._loop.run(work)

    def writer(self, subtask: int = 0) -> SinkWriter:
        """Open a writer."""
        side = REGISTRY["sql"].sink
        assert side is not None and side.open_writers is not None
        description = self.do(self.coordinator.describe_for_workers())
        link = CoordinatorLink(self.coordinator.answer, description)
        writers = side.open_writers(self.node, self.schema, self.context, link)
        self._opened.insert(0, writers)
        return writers.create_writer(subtask)

    def prepare(self, *frames: pl.DataFrame, subtask: int = 0) -> Handle:
        """Write frames and prepare them."""
        writer = self.writer(subtask)
        for frame in frames:
            self.do(writer.write(frame))
        handle: Handle | None = self.do(writer.prepare())
        self.do(writer.close())
        assert handle is not None
        return handle

    def check(self) -> None:
        """Check the table."""
        self.do(self.coordinator.check())

    def commit(self, handle: Handle) -> None:
        """Commit."""
        self.do(self.coordinator.commit(handle))

    def refusal(self) -> ConnectorError:
        """Return the error of the check."""
        with pytest.raises(ConnectorError) as raised:
            self.check()
        assert raised.value.exit_status == 2 and raised.value.is_final
        return raised.value


Over: TypeAlias = Callable[..., Sink]


@pytest.fixture
def over(tmp_path: Path) -> Iterator[Over]:
    """Opens a sink over a database."""
    sinks: list[Sink] = []

    def opened(
        database: Database,
        options: str = "table: t",
        schema: str = "id: bigint, name: string",
        text: str = APPENDS,
        **more: Any,
    ) -> Sink:
        sql = f'sql: {{url: "{database.url}", {options}}}'
        sink = Sink(tmp_path, text.replace("SQL", sql).replace("SCHEMA", schema), **more)
        sinks.append(sink)
        return sink

    yield opened
    for sink in sinks:
        sink.close()


def changes(*rows: tuple[str | None, int | None, bool]) -> pl.DataFrame:
    """Return changes: key, number, and whether the key is deleted."""
    return pl.DataFrame(
        rows, ["k", "n", "_delete"], orient="row", schema_overrides={"k": pl.String}
    )


def named(*ids: int) -> pl.DataFrame:
    """Return rows of these ids."""
    return pl.DataFrame({"id": ids, "name": [f"n{id}" for id in ids]})
