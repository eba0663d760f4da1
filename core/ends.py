"""The connectors of a plan, opened, and the assignment of its splits to subtasks."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from headrace.core.bench import Bench
from headrace.core.blame import blamed
from headrace.core.connector import Connectors
from headrace.core.contracts import Sink, Source, Surroundings
from headrace.core.dealing import Dealing
from headrace.core.drift import Drift
from headrace.core.lookup.asked import Asked
from headrace.core.messages import SubtaskId
from headrace.core.plan import nodes
from headrace.core.plan.layout import lookup_operation


@dataclass(slots=True)
class Ends:
    """The opened sources, sinks and lookup tables of a plan, by name."""

    sources: dict[str, Source] = field(default_factory=dict)
    sinks: dict[str, Sink] = field(default_factory=dict)
    lookups: dict[str, Asked] = field(default_factory=dict)
    """The lookup clients, by step."""

    async def check_lookups(self) -> None:
        """Check that the lookup tables exist. Raises ConnectorError."""
        for name, asked in self.lookups.items():
            with blamed(name):
                await asked.table.check()

    async def check_sinks(self) -> None:
        """Check that the sinks accept output. Raises ConnectorError."""
        for name, sink in self.sinks.items():
            with blamed(name):
                await sink.check()

    async def close(self) -> None:
        """Close all connectors."""
        for source in self.sources.values():
            await source.close()
        for sink in self.sinks.values():
            await sink.close()
        for asked in self.lookups.values():
            await asked.close()


def open_ends(plan: nodes.Plan, connectors: Connectors, surroundings: Surroundings) -> Ends:
    """Open every source, sink and lookup of the plan, without reading, writing or calling it."""
    ends = Ends()
    for part in plan:
        with blamed(part.name):
            if isinstance(part, nodes.Source):
                reads = connectors[part.connector].source
                assert reads is not None and reads.open is not None, part.connector
                ends.sources[part.name] = reads.open(part, surroundings)
            elif isinstance(part, nodes.Sink):
                writes = connectors[part.connector].sink
                assert writes is not None and writes.open is not None, part.connector
                schema = plan.streams[part.input].written
                ends.sinks[part.name] = writes.open(part, schema, surroundings)
            elif lookup := lookup_operation(part):
                asks = connectors[lookup.connector].lookup
                assert asks is not None, lookup.connector
                ends.lookups[part.name] = Asked(lookup, asks.open(lookup, surroundings))
    return ends


async def look(plan: nodes.Plan, connectors: Connectors, folder: Path) -> None:
    """Check that the connectors would accept a new job. Raises ConnectorError."""
    ends = open_ends(plan, connectors, Surroundings(folder, uuid.uuid4().hex, Bench()))
    try:
        for name, source in ends.sources.items():
            with blamed(name):
                await source.discover(first=True)
        await ends.check_lookups()
        await ends.check_sinks()
    finally:
        await ends.close()


def by_task(plan: nodes.Plan) -> Iterator[tuple[nodes.Task, tuple[SubtaskId, ...]]]:
    """Yield each task with its subtasks."""
    for number, task in enumerate(plan.tasks):
        yield task, tuple(SubtaskId(number, index) for index in range(task.parallelism))


def subtasks(plan: nodes.Plan) -> tuple[SubtaskId, ...]:
    """Return all subtasks."""
    return tuple(id for _, ids in by_task(plan) for id in ids)


def readers(plan: nodes.Plan, ends: Ends) -> dict[str, Dealing]:
    """Return the split assigner of each source."""
    dealings = {}
    for task, ids in by_task(plan):
        if source := ends.sources.get(task.parts[0]):
            dealings[task.parts[0]] = Dealing(ids, source.rediscover_s is not None)
    return dealings


def drifts(plan: nodes.Plan) -> dict[str, Drift]:
    """Return the watermark alignment of the sources that have a `max_drift`."""
    return {
        part.name: Drift(part.watermark.max_drift // timedelta(microseconds=1))
        for part in plan
        if isinstance(part, nodes.Source)
        and part.watermark is not None
        and part.watermark.max_drift is not None
    }
