"""Lookups of rows from memory in real tables, on this machine's clock."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent

import polars as pl

from headrace.connectors.memory import InMemoryData, MemoryEvent
from headrace.connectors.registry import REGISTRY
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.job.job import Job, JobOutcome
from headrace.core.job.spec import JobSpec
from headrace.core.plan.connector import Connectors
from headrace.core.plan.layout import get_lookup
from headrace.core.plan.nodes import Plan
from headrace.core.worker.statistics import PartCounts
from headrace.state.memory.backend import MemoryBackend
from tests.support.runtime.memory_pipelines import plan_of

PIPELINE = """
sources:
  in: {{memory: {{data: in}}, schema: {schema}}}
steps:
  found:
    from: in
    lookup:
{lookup}
    {more}
sinks:
  out: {{from: found, memory: {{data: out}}}}
  {sinks}
"""


@dataclass(slots=True)
class Asking:
    """A pipeline with one lookup over given rows."""

    folder: Path
    lookup: str
    schema: str
    more: str = ""
    sinks: str = ""
    memory: InMemoryData = field(default_factory=InMemoryData)

    @property
    def connectors(self) -> Connectors:
        """Return all connectors, with the one in memory."""
        return {**REGISTRY, "memory": self.memory.build_connector()}

    def plan(self) -> Plan:
        """Build the plan of the pipeline."""
        lookup = indent(self.lookup.strip("\n"), " " * 6)
        text = PIPELINE.format(lookup=lookup, schema=self.schema, more=self.more, sinks=self.sinks)
        return plan_of(self.folder, text, self.connectors)

    def run(self, *happenings: MemoryEvent) -> tuple[JobOutcome, PartCounts]:
        """Run the pipeline to the end; return the outcome, and the step's counters."""
        self.memory.inputs = {"in": {"a": happenings}}
        with ThreadPoolExecutor(2) as executor:
            surroundings = RunContext(self.folder, "0" * 32, KernelExecutor(executor))
            setting = OperatorContext(
                lambda: 0, self.folder, frozenset({"in", "found"}), MemoryBackend()
            )
            job = Job(JobSpec(self.plan(), self.connectors, surroundings, setting))
            outcome = asyncio.run(job.run())
        return outcome, job.collect_counts()["found"]

    def rows(self) -> list[tuple[object, ...]]:
        """Return the output rows."""
        return [row for frame in self.memory.outputs.get("out", []) for row in frame.rows()]

    def look(self) -> str:
        """Return what `validate --connect` reports of the table. Raises ConnectorError."""
        step = self.plan().part("found")
        lookup = get_lookup(step)
        assert lookup is not None
        side = self.connectors[lookup.connector].lookup
        assert side is not None
        surroundings = RunContext(self.folder, "0" * 32, KernelExecutor())

        async def asked() -> str:
            return await side.describe_external(lookup, surroundings)

        return asyncio.run(asked())

    def refusal(self, *happenings: MemoryEvent) -> ConnectorError:
        """Return the error that keeps the job from starting."""
        try:
            self.run(*happenings)
        except ConnectorError as error:
            return error
        raise AssertionError("it has begun")


IDS = pl.DataFrame({"n": [0, 1, 2, 3], "customer": [4, 5, None, 6]})
SCHEMA = "{n: bigint, customer: bigint}"
