"""The connectors of a plan, opened: the coordinator's halves, and a worker's."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from headrace.core.api.coordinator_link import CoordinatorLink, Descriptions, PartRequest
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkCoordinator, WriterFactory
from headrace.core.api.sources import ReaderFactory, SourceCoordinator
from headrace.core.api.splits import SubtaskId
from headrace.core.api.state import Document
from headrace.core.coordination.loop_waves import AllLoopWaves, LoopWaves
from headrace.core.coordination.split_assignment import SplitAssigner
from headrace.core.coordination.watermark_alignment import WatermarkAlignment
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.operators.lookup.client import LookupClient
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connectors
from headrace.core.plan.layout import enumerate_subtasks, get_lookup, get_loop
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True)
class OpenConnectors:
    """The coordinator's halves of the sources and sinks of a plan, and its lookup tables."""

    sources: dict[str, SourceCoordinator] = field(default_factory=dict)
    sinks: dict[str, SinkCoordinator] = field(default_factory=dict)
    lookups: dict[str, LookupClient] = field(default_factory=dict)
    """The lookup clients, by step."""

    async def check_lookups(self) -> None:
        """Check that the lookup tables exist. Raises ConnectorError."""
        for name, client in self.lookups.items():
            with attribute_errors_to(name):
                await client.table.check()

    async def check_sinks(self, names: Collection[str] | None = None) -> None:
        """Check that the sinks, or those of these names, accept output. Raises ConnectorError."""
        for name, sink in self.sinks.items():
            if names is None or name in names:
                with attribute_errors_to(name):
                    await sink.check()

    async def describe_for_workers(self) -> dict[str, Document]:
        """Return what the workers' halves must know, by source and sink, as plain data."""
        descriptions: dict[str, Document] = {}
        halves: Mapping[str, SourceCoordinator | SinkCoordinator] = {**self.sources, **self.sinks}
        for name, half in halves.items():
            with attribute_errors_to(name):
                descriptions[name] = await half.describe_for_workers()
        return descriptions

    async def answer(self, part: str, request: Document) -> Document:
        """Answer a request of the worker's half of a source or sink. Raises ConnectorError."""
        half = self.sources[part] if part in self.sources else self.sinks[part]
        return await half.answer(request)

    def on_commits_recorded(self) -> None:
        """Tell all sinks that no commit so far will be repeated."""
        for sink in self.sinks.values():
            sink.on_commits_recorded()

    async def close(self) -> None:
        """Close all connectors."""
        for source in self.sources.values():
            await source.close()
        for sink in self.sinks.values():
            await sink.close()
        for client in self.lookups.values():
            await client.close()


def open_connectors(
    plan: nodes.Plan, connectors: Connectors, run_context: RunContext
) -> OpenConnectors:
    """Open the coordinator's halves of a plan, without reading, writing or calling anything."""
    ends = OpenConnectors()
    for part in plan:
        with attribute_errors_to(part.name):
            if isinstance(part, nodes.Source):
                reads = connectors[part.connector].source
                assert reads is not None and reads.open is not None, part.connector
                ends.sources[part.name] = reads.open(part, run_context)
            elif isinstance(part, nodes.Sink):
                writes = connectors[part.connector].sink
                assert writes is not None and writes.open is not None, part.connector
                schema = plan.streams[part.input].sink_schema
                ends.sinks[part.name] = writes.open(part, schema, run_context)
            elif lookup := get_lookup(part):
                ends.lookups[part.name] = _open_lookup(lookup, connectors, run_context)
    return ends


@dataclass(frozen=True, slots=True)
class LookupShare:
    """The share of one worker in the limits of a lookup step, which hold for the whole job.

    >>> [LookupShare(index, 3).divide(10) for index in range(3)]
    [4, 3, 3]
    """

    index: int = 0
    """The place of the worker among those that run the step."""
    worker_count: int = 1
    """The number of workers that run the step."""

    def divide(self, total: int) -> int:
        """Return this worker's share; the shares of all workers add up to the total."""
        return total // self.worker_count + (self.index < total % self.worker_count)

    def limit(self, lookup: nodes.Lookup) -> nodes.Lookup:
        """Return the lookup with this worker's limits: at least one call at a time."""
        return replace(
            lookup,
            concurrency=max(1, self.divide(lookup.concurrency)),
            cache_rows=self.divide(lookup.cache_rows),
        )


def share_lookups(
    plan: nodes.Plan, placement: Mapping[SubtaskId, int], worker: int
) -> dict[str, LookupShare]:
    """Return a worker's share in each lookup step of which it runs subtasks."""
    shares = {}
    for task, ids in enumerate_subtasks(plan):
        workers = sorted({placement[id] for id in ids})
        if worker in workers:
            share = LookupShare(workers.index(worker), len(workers))
            shares.update(dict.fromkeys(task.parts, share))
    return shares


@dataclass(slots=True)
class WorkerConnectors:
    """The workers' halves of the sources and sinks of a plan, and its lookup tables."""

    readers: dict[str, ReaderFactory] = field(default_factory=dict)
    writers: dict[str, WriterFactory] = field(default_factory=dict)
    lookups: dict[str, LookupClient] = field(default_factory=dict)
    """The lookup clients, by step."""
    _opened_lookups: list[LookupClient] = field(default_factory=list)

    async def close(self) -> None:
        """Close all that was opened here; the lookup tables of the coordinator stay open."""
        for readers in self.readers.values():
            await readers.close()
        for writers in self.writers.values():
            await writers.close()
        for client in self._opened_lookups:
            await client.close()


def open_worker_connectors(
    plan: nodes.Plan,
    connectors: Connectors,
    run_context: RunContext,
    descriptions: Descriptions,
    request: PartRequest,
    lookups: Mapping[str, LookupClient] | None = None,
    shares: Mapping[str, LookupShare] | None = None,
) -> WorkerConnectors:
    """Open the workers' halves of a plan in this process, without reading or writing anything.

    `descriptions` is from `OpenConnectors.describe_for_workers`, and `request` leads to its
    `answer`. `lookups`: the coordinator's lookup clients, to share within one process.
    `shares`: this worker's share of the limits of each lookup step that it runs; None: all of them.
    """
    halves = WorkerConnectors()
    for part in plan:
        link = CoordinatorLink(partial(request, part.name), descriptions.get(part.name, {}))
        with attribute_errors_to(part.name):
            if isinstance(part, nodes.Source):
                reads = connectors[part.connector].source
                assert reads is not None and reads.open_readers is not None, part.connector
                halves.readers[part.name] = reads.open_readers(part, run_context, link)
            elif isinstance(part, nodes.Sink):
                writes = connectors[part.connector].sink
                assert writes is not None and writes.open_writers is not None, part.connector
                schema = plan.streams[part.input].sink_schema
                opened = writes.open_writers(part, schema, run_context, link)
                halves.writers[part.name] = opened
            elif lookup := get_lookup(part):
                if lookups is None:
                    if shares is not None:
                        lookup = shares.get(part.name, LookupShare()).limit(lookup)
                    client = _open_lookup(lookup, connectors, run_context)
                    halves._opened_lookups.append(client)
                else:
                    client = lookups[part.name]
                halves.lookups[part.name] = client
    return halves


def _open_lookup(
    lookup: nodes.Lookup, connectors: Connectors, run_context: RunContext
) -> LookupClient:
    side = connectors[lookup.connector].lookup
    assert side is not None, lookup.connector
    return LookupClient(lookup, side.open(lookup, run_context))


async def check_connectors(plan: nodes.Plan, connectors: Connectors, folder: Path) -> None:
    """Check that the connectors would accept a new job. Raises ConnectorError."""
    ends = open_connectors(plan, connectors, RunContext(folder, uuid.uuid4().hex, KernelExecutor()))
    try:
        for name, source in ends.sources.items():
            with attribute_errors_to(name):
                await source.discover_splits(first=True)
        await ends.check_lookups()
        await ends.check_sinks()
    finally:
        await ends.close()


def build_split_assigners(plan: nodes.Plan, ends: OpenConnectors) -> dict[str, SplitAssigner]:
    """Return the split assigner of each source."""
    dealings = {}
    for task, ids in enumerate_subtasks(plan):
        if source := ends.sources.get(task.parts[0]):
            dealings[task.parts[0]] = SplitAssigner(ids, source.discovery_interval_s is not None)
    return dealings


def build_loop_waves(plan: nodes.Plan) -> AllLoopWaves:
    """Return the waves of the loops."""
    return AllLoopWaves(
        tuple(
            LoopWaves(task.parts[0], ids)
            for task, ids in enumerate_subtasks(plan)
            if get_loop(plan.part(task.parts[0])) is not None
        )
    )


def build_watermark_alignments(plan: nodes.Plan) -> dict[str, WatermarkAlignment]:
    """Return the watermark alignment of the sources that have a `max_drift`."""
    return {
        part.name: WatermarkAlignment(part.watermark.max_drift // timedelta(microseconds=1))
        for part in plan
        if isinstance(part, nodes.Source)
        and part.watermark is not None
        and part.watermark.max_drift is not None
    }
