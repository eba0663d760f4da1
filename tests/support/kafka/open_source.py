"""A Kafka source as the runtime would have it: discovered, assigned to one reading, and read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.connectors.kafka.source import build_readers, build_source
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import (
    BadRecord,
    Chunk,
    SourceCoordinator,
    SourceEvent,
    SplitFinished,
    SplitReader,
)
from headrace.core.api.splits import Position, Split
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.types.data_types import (
    BIGINT,
    BINARY,
    INT,
    STRING,
    TIMESTAMP,
    Array,
    Field,
    Schema,
    Struct,
    Type,
)

NAME = "records"
LONGEST_S = 60.0
"""The time limit of each operation, in seconds."""

HEADER = Struct((Field("key", STRING), Field("value", STRING)))
BESIDE: Mapping[str, Type] = {
    "topic": STRING,
    "partition": INT,
    "offset": BIGINT,
    "timestamp": TIMESTAMP,
    "key": STRING,
    "headers": Array(HEADER),
}
RAW = (Field("value", BINARY),)


def said(value: object) -> object:
    """Options as they come from a document: all that is no mapping or list is a text."""
    if isinstance(value, Mapping):
        return {Text(str(key)): said(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [said(inner) for inner in value]
    return Text(str(value))


def node(
    address: str, fields: Sequence[Field] = RAW, format: str = "raw", **options: Any
) -> nodes.Source:
    """A source of the plan with these columns, followed by those of its metadata."""
    whole = {key: said(value) for key, value in {"brokers": address, **options}.items()}
    read = KafkaSource.model_validate({Text(key): value for key, value in whole.items()})
    beside = [
        Field(str(name), BESIDE[kind]) for kind, name in read.metadata.requested_columns.items()
    ]
    schema = Schema((*fields, *beside))
    stream = nodes.Stream(NAME, schema, nodes.Append(), False)
    of = nodes.Format(format, None)
    return nodes.Source(
        NAME, "kafka", read, of, schema, schema.names, frozenset(), None, None, "skip", (stream,), 1
    )


@dataclass(slots=True)
class Came:
    """The events of a split reader, by split."""

    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    bad: list[BadRecord] = field(default_factory=list)
    positions: dict[str, Position] = field(default_factory=dict)
    chunks: list[Chunk] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    over: bool = False

    @property
    def values(self) -> list[Any]:
        """The first column of all rows, one split after the other."""
        return [row[0] for split in sorted(self.rows) for row in self.rows[split]]

    @property
    def count(self) -> int:
        """Count the records, good and bad."""
        return sum(len(rows) for rows in self.rows.values()) + len(self.bad)


@dataclass(slots=True)
class Opened:
    """A source, and a reading of it."""

    source: SourceCoordinator
    reading: SplitReader
    told: list[str]
    splits: Sequence[Split] = ()
    came: Came = field(default_factory=Came)

    async def until(self, enough: Callable[[Came], bool]) -> Came:
        """Read until it is enough, or until nothing will come any more."""
        async with asyncio.timeout(LONGEST_S):
            while not self.came.over and not enough(self.came):
                self._take(await self.reading.fetch())
        return self.came

    async def to_the_end(self) -> Came:
        """Read until nothing will come any more."""
        return await self.until(lambda _: False)

    async def first(self, count: int) -> Came:
        """Read until that number of records has arrived."""
        return await self.until(lambda came: came.count >= count)

    def _take(self, arrival: SourceEvent | None) -> None:
        came = self.came
        if isinstance(arrival, Chunk):
            name = arrival.split.name
            came.rows.setdefault(name, []).extend(arrival.frame.rows())
            came.bad.extend(arrival.bad_records)
            came.positions[name] = arrival.position
            came.chunks.append(arrival)
        elif isinstance(arrival, SplitFinished):
            came.ended.append(arrival.split.name)
        elif arrival is None:
            came.over = True


@asynccontextmanager
async def opened(
    source: nodes.Source,
    *,
    first: bool = True,
    at: Mapping[str, Position] | None = None,
    only: Iterable[str] | None = None,
    limit: int | None = None,
    discovered: bool = True,
    last: bool = True,
    told: list[str] | None = None,
) -> AsyncIterator[Opened]:
    """The source, with its splits assigned: from where they start, or `at` where one was left."""
    told = [] if told is None else told
    with ThreadPoolExecutor(2) as executor:
        bench = KernelExecutor(executor)
        where = RunContext(
            Path(), "0" * 32, bench, limit, pipeline_name="test", notify_user=told.append
        )
        made = build_source(source, where)
        readers = build_readers(source, where, CoordinatorLink(made.answer))
        reading = None
        try:
            splits: Sequence[Split] = ()
            if discovered:
                async with asyncio.timeout(LONGEST_S):
                    splits = await made.discover_splits(first)
            reading = readers.create_reader()
            if discovered:
                known = at or {}
                wanted = [each for each in splits if only is None or each.name in only]
                reading.assign(
                    [(each, known.get(each.name, each.start_position)) for each in wanted],
                    last=last,
                )
            yield Opened(made, reading, told, splits)
        finally:
            if reading is not None:
                await reading.close()
            await readers.close()
            await made.close()


async def soon(is_so: Callable[[], bool]) -> None:
    """Return once it is."""
    async with asyncio.timeout(LONGEST_S):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.01)


def run(work: Callable[[], Any]) -> Any:
    """Do it in a loop of its own."""
    return asyncio.run(work())
