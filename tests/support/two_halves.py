"""The two halves of a connector in two processes, with nothing between them but pickled data.

This process has the coordinator's half. A process that is spawned opens the worker's half, or the
coordinator's half a second time, does its work and returns plain data; its requests are answered
here. All that it is given is pickled.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from headrace.connectors.registry import REGISTRY
from headrace.core.api.coordinator_link import CoordinatorLink, CoordinatorRequest
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import JobNotes, NoJobNotes, RunContext
from headrace.core.api.sinks import SinkCoordinator
from headrace.core.api.sources import Chunk, SourceCoordinator
from headrace.core.api.splits import Handle, Position, Split
from headrace.core.api.state import Document
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema

LONGEST_S = 60.0
SPAWN = multiprocessing.get_context("spawn")

Work: TypeAlias = "Callable[[RunContext, CoordinatorRequest], Awaitable[Any]]"


@dataclass(frozen=True, slots=True)
class Job:
    """The parts of a run context that another process is given."""

    folder: Path
    id: str

    def run_context(
        self,
        executor: ThreadPoolExecutor,
        notes: JobNotes | None = None,
        notify_user: Callable[[str], None] = lambda line: None,
    ) -> RunContext:
        """Build the run context of a process."""
        kernel_executor = KernelExecutor(executor)
        return RunContext(
            self.folder,
            self.id,
            kernel_executor,
            notify_user=notify_user,
            notes=notes or NoJobNotes(),
        )


@dataclass(frozen=True, slots=True)
class Write:
    """The work of a writer: these batches are prepared one by one."""

    sink: nodes.Sink
    schema: Schema
    subtask: int
    batches: Sequence[pl.DataFrame]
    description: Document = field(default_factory=dict)
    states: Sequence[Document] = ()
    dies: bool = False
    """Whether the process dies after it has written all, with nothing prepared."""

    async def __call__(
        self, context: RunContext, request: CoordinatorRequest
    ) -> tuple[list[Handle | None], Document | None]:
        """Return the handles, and the state of the writer."""
        side = REGISTRY[self.sink.connector].sink
        assert side is not None and side.open_writers is not None
        link = CoordinatorLink(request, self.description)
        writers = side.open_writers(self.sink, self.schema, context, link)
        writer = writers.create_writer(self.subtask, self.states)
        handles = []
        for batch in self.batches:
            await writer.write(batch)
            if not self.dies:
                handles.append(await writer.prepare())
        if self.dies:
            await request({"dies": True})
        state = writer.snapshot_state()
        await writer.close()
        await writers.close()
        return handles, state


@dataclass(frozen=True, slots=True)
class Read:
    """The work of a reader: splits are read to their ends."""

    source: nodes.Source
    splits: Sequence[tuple[Split, Position]]
    description: Document = field(default_factory=dict)

    async def __call__(
        self, context: RunContext, request: CoordinatorRequest
    ) -> list[tuple[object, ...]]:
        """Return the rows."""
        side = REGISTRY[self.source.connector].source
        assert side is not None and side.open_readers is not None
        link = CoordinatorLink(request, self.description)
        readers = side.open_readers(self.source, context, link)
        reader = readers.create_reader()
        reader.assign(self.splits, last=True)
        found: list[tuple[object, ...]] = []
        try:
            while (event := await reader.fetch()) is not None:
                if isinstance(event, Chunk):
                    found.extend(event.frame.rows())
        finally:
            await reader.close()
            await readers.close()
        return found


@dataclass(frozen=True, slots=True)
class End:
    """The work of a coordinator's half that has seen no writer: commits, then aborts."""

    sink: nodes.Sink
    schema: Schema
    commits: Sequence[Handle] = ()
    aborts: Sequence[Handle] = ()

    async def __call__(self, context: RunContext, request: CoordinatorRequest) -> None:
        """Commit and abort."""
        side = REGISTRY[self.sink.connector].sink
        assert side is not None and side.open is not None
        opened = side.open(self.sink, self.schema, context)
        for handle in self.commits:
            await opened.commit(handle)
        for handle in self.aborts:
            await opened.abort(handle)
        await opened.close()


def _run(work: Work, job: Job, connection: Connection) -> None:
    """Do the work in this process, which was spawned for it."""

    async def request(document: Document) -> Document:
        connection.send(("request", document))
        if "dies" in document:
            os._exit(9)
        answer: Document = await asyncio.to_thread(connection.recv)
        return answer

    async def do() -> None:
        with ThreadPoolExecutor(2) as executor:
            context = job.run_context(executor)
            try:
                connection.send(("result", await work(context, request)))
            except ConnectorError as error:
                connection.send(("error", error.message))

    asyncio.run(do())


async def elsewhere(
    work: Work, job: Job, coordinator: SourceCoordinator | SinkCoordinator | None = None
) -> Any:
    """Do the work in a new process, and answer its requests here; None if it has died."""
    here, there = SPAWN.Pipe()
    process = SPAWN.Process(target=_run, args=(work, job, there))
    process.start()
    there.close()
    try:
        async with asyncio.timeout(LONGEST_S):
            while True:
                kind, data = await asyncio.to_thread(here.recv)
                if kind == "error":
                    raise ConnectorError(data)
                if kind == "result":
                    return data
                if "dies" in data:
                    return None
                assert coordinator is not None
                here.send(await coordinator.answer(data))
    finally:
        await asyncio.to_thread(process.join, LONGEST_S)
        process.kill()
        here.close()


def run(work: Awaitable[Any]) -> Any:
    """Do it in a loop of its own, within bounded time."""

    async def bounded() -> Any:
        async with asyncio.timeout(LONGEST_S):
            return await work

    return asyncio.run(bounded())
