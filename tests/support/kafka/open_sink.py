"""A Kafka sink as the runtime would have it: checked, written to, and its handles committed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from headrace.connectors.kafka.sink import build_sink, build_writers
from headrace.connectors.kafka.sink_options import KafkaSink
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import CommitTiming, RunContext
from headrace.core.api.sinks import SinkCoordinator, SinkWriter, WriterFactory
from headrace.core.api.splits import Handle
from headrace.core.api.state import Document
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.types.data_types import BIGINT, STRING, Field, Schema
from tests.support.kafka.open_source import said

T = TypeVar("T")

NAME = "out"
LONGEST_S = 60.0
"""The time limit of each operation, in seconds."""
ROWS = Schema((Field("k", STRING), Field("n", BIGINT)))
EVERY_SECOND = CommitTiming(1.0, 10.0, 5.0)
EXACTLY: dict[str, Any] = {"delivery": "exactly_once"}


@dataclass(slots=True)
class Kept:
    """Notes in memory, as JSON; `order` is what was written, one after the other."""

    order: list[str] = field(default_factory=list)
    _notes: dict[str, str] = field(default_factory=dict)

    def read(self, name: str) -> Document | None:
        """The document that was written last."""
        return json.loads(self._notes[name]) if name in self._notes else None

    def write(self, name: str, document: Document) -> None:
        """Keep it."""
        self._notes[name] = json.dumps(document)
        self.order.append(self._notes[name])


@dataclass(slots=True)
class Opened:
    """A sink and the messages that it has reported."""

    sink: SinkCoordinator
    writers: WriterFactory
    told: list[str]
    _writers: list[SinkWriter] = field(default_factory=list)

    def writer(self, subtask: int = 0) -> SinkWriter:
        """One that is closed at the end."""
        self._writers.append(self.writers.create_writer(subtask))
        return self._writers[-1]

    async def written(self, frame: pl.DataFrame, subtask: int = 0) -> Handle:
        """The handle of a transaction with these rows."""
        writer = self.writer(subtask)
        await writer.write(frame)
        handle = await writer.prepare()
        assert handle is not None
        return handle

    async def close(self) -> None:
        """Writers first, as the runtime does."""
        for writer in self._writers:
            await writer.close()
        await self.writers.close()
        await self.sink.close()


def node(
    address: str,
    topic: object,
    schema: Schema = ROWS,
    *,
    format: str = "json",
    parallelism: int = 1,
    changes: Sequence[str] = (),
    **options: Any,
) -> tuple[nodes.Sink, Schema]:
    """A sink of the plan, and the columns that it is given."""
    whole = {"brokers": address, "topic": topic, **options}
    read = KafkaSink.model_validate({Text(key): said(value) for key, value in whole.items()})
    of = nodes.Format(format, None)
    return nodes.Sink(NAME, "rows", "kafka", read, of, parallelism, tuple(changes)), schema


@asynccontextmanager
async def opened(
    described: tuple[nodes.Sink, Schema],
    *,
    job: str = "a" * 32,
    notes: Kept | None = None,
    commits: CommitTiming | None = EVERY_SECOND,
    checked: bool = True,
    limit: int | None = None,
) -> AsyncIterator[Opened]:
    """The sink, checked."""
    told: list[str] = []
    with ThreadPoolExecutor(2) as executor:
        where = RunContext(
            Path(),
            job,
            KernelExecutor(executor),
            limit,
            notes=notes or Kept(),
            notify_user=told.append,
            commit_timing=commits,
        )
        sink = build_sink(described[0], where)
        made = Opened(sink, build_writers(*described, where, CoordinatorLink(sink.answer)), told)
        try:
            if checked:
                await made.sink.check()
            yield made
        finally:
            await made.close()


def rows(count: int, first: int = 0) -> pl.DataFrame:
    """Make that number of rows with the default columns."""
    numbers = pl.int_range(first, first + count, eager=True)
    return pl.DataFrame({"k": [f"key {n % 7}" for n in numbers], "n": numbers})


def numbers(values: Sequence[bytes | None]) -> list[int]:
    """Those in the values of records, sorted."""
    return sorted(json.loads(value)["n"] for value in values if value is not None)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do it in a loop of its own, within bounded time."""

    async def bounded() -> T:
        async with asyncio.timeout(LONGEST_S):
            return await work

    return asyncio.run(bounded())


Options = Mapping[str, Any]
