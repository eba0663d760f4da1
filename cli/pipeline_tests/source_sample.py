"""The first records of the real sources of a pipeline, for a test that is made of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from uuid import uuid4

from headrace.connectors.registry import REGISTRY
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.kernel_executor import open_executors
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import Chunk, SourceCoordinator, SplitReader
from headrace.core.api.splits import Position, Progress, Split
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.plan import nodes
from headrace.core.plan.nodes import Plan
from headrace.core.testing.typed_rows import list_record_columns
from headrace.core.testing.visible_rows import Row
from headrace.core.types.lazy_dataclass import dataclass

PATIENCE_S = 10.0
"""The time after which a source is left that has no further records."""


@dataclass(slots=True)
class SourceSample:
    """The first records of a source: rows by split, and the text of bad records."""

    source: nodes.Source
    rows: dict[Split, list[Row]] = field(default_factory=dict)
    bad_records: list[str] = field(default_factory=list)

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return sum(map(len, self.rows.values()))

    def add(self, chunk: Chunk, limit: int) -> None:
        """Add the records of a chunk, up to that number of rows."""
        names = [name for name in list_record_columns(self.source).names if name in chunk.frame]
        left = limit - self.row_count
        rows = chunk.frame.head(left).select(names).to_dicts()
        if rows:
            self.rows.setdefault(chunk.split, []).extend(rows)
        self.bad_records += [each.raw for each in chunk.bad_records[:left]]


def read_samples(
    plan: Plan,
    folder: Path,
    limit: int,
    restored: Mapping[str, Mapping[Split, Progress]] | None = None,
) -> Sequence[SourceSample]:
    """Read up to that number of rows of each source; no position is published or stored.

    `restored` has the progress of sources after which to begin, by split. Raises ConnectorError.
    """

    async def read() -> Sequence[SourceSample]:
        sources = (part for part in plan if isinstance(part, nodes.Source))
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    _read_sample(each, context, limit, (restored or {}).get(each.name))
                )
                for each in sources
            ]
        return [task.result() for task in tasks]

    with open_executors() as (executor, _):
        context = RunContext(folder, uuid4().hex, executor, limit, pipeline_name=str(plan.name))
        try:
            return asyncio.run(read())
        except ExceptionGroup as group:
            raise _find_first(group) from None


def _find_first(error: BaseException) -> BaseException:
    """Return the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _read_sample(
    source: nodes.Source,
    context: RunContext,
    limit: int,
    restored: Mapping[Split, Progress] | None,
) -> SourceSample:
    side = REGISTRY[source.connector].source
    assert side is not None and side.open is not None and side.open_readers is not None
    sample = SourceSample(source)
    with attribute_errors_to(source.name):
        coordinator = side.open(source, context)
        try:
            splits = await _find_splits(coordinator, restored)
            link = CoordinatorLink(coordinator.answer, await coordinator.describe_for_workers())
            readers = side.open_readers(source, context, link)
            reader = readers.create_reader()
            try:
                reader.assign(splits, last=True)
                await _fill_sample(sample, reader, limit)
            finally:
                await reader.close()
                await readers.close()
        finally:
            await coordinator.close()
    return sample


async def _find_splits(
    coordinator: SourceCoordinator, restored: Mapping[Split, Progress] | None
) -> list[tuple[Split, Position]]:
    """Return the splits to read, numbered from 0, each with the position to begin at."""
    found: list[tuple[Split, Position]]
    if restored is None:
        splits = await coordinator.discover_splits(first=True)
        found = [(split, split.start_position) for split in splits]
    else:
        before = await coordinator.restore(restored)
        found = [(split, each.position) for split, each in before.items() if not each.is_finished]
        if (interval_s := coordinator.discovery_interval_s) is not None:
            await coordinator.discover_splits(first=False)
            await asyncio.sleep(min(interval_s, PATIENCE_S))  # what still grows is no split yet
            splits = await coordinator.discover_splits(first=False)
            found += [(split, split.start_position) for split in splits if split not in before]
    return [(replace(split, number=at), position) for at, (split, position) in enumerate(found)]


async def _fill_sample(sample: SourceSample, reader: SplitReader, limit: int) -> None:
    """Read until there are enough rows, the source ends, or nothing comes for a while."""
    with suppress(TimeoutError):
        while sample.row_count < limit:
            async with asyncio.timeout(PATIENCE_S):
                event = await reader.fetch()
            if event is None:
                return
            if isinstance(event, Chunk):
                sample.add(event, limit)
