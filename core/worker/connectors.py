"""The connectors of a plan, opened, and the assignment of its splits to subtasks."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkConnector
from headrace.core.api.sources import SourceConnector
from headrace.core.coordination.split_assignment import SplitAssigner
from headrace.core.coordination.watermark_alignment import WatermarkAlignment
from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.operators.lookup.client import LookupClient
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connectors
from headrace.core.plan.layout import enumerate_subtasks, get_lookup


@dataclass(slots=True)
class OpenConnectors:
    """The opened sources, sinks and lookup tables of a plan, by name."""

    sources: dict[str, SourceConnector] = field(default_factory=dict)
    sinks: dict[str, SinkConnector] = field(default_factory=dict)
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
    """Open every source, sink and lookup of the plan, without reading, writing or calling it."""
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
                asks = connectors[lookup.connector].lookup
                assert asks is not None, lookup.connector
                ends.lookups[part.name] = LookupClient(lookup, asks.open(lookup, run_context))
    return ends


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


def build_watermark_alignments(plan: nodes.Plan) -> dict[str, WatermarkAlignment]:
    """Return the watermark alignment of the sources that have a `max_drift`."""
    return {
        part.name: WatermarkAlignment(part.watermark.max_drift // timedelta(microseconds=1))
        for part in plan
        if isinstance(part, nodes.Source)
        and part.watermark is not None
        and part.watermark.max_drift is not None
    }
