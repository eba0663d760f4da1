"""Sinks in memory that are slow and fail once, as a simulation wants it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import field

import polars as pl

from headrace.cli.simulation.random_case import Fault
from headrace.connectors.memory import InMemoryData, MemorySink, MemoryWriter
from headrace.core.api.failures import ConnectorError
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkWriter
from headrace.core.api.splits import Handle
from headrace.core.api.state import Document
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema
from headrace.core.types.lazy_dataclass import dataclass

SLOWEST_TURNS = (0, 0, 0, 1, 5, 30)
"""The turns of the loop that a call of a slow sink takes at most."""


@dataclass(slots=True)
class FaultyMemory(InMemoryData):
    """Memory of which each call takes some turns of the loop, and one may fail."""

    chance: random.Random = field(default_factory=random.Random)
    slowest_turns: int = 0
    has_failed: bool = False
    _fault: Fault | None = None
    _calls: int = 0

    def set_fault(self, fault: Fault | None) -> None:
        """Let a call fail from now on, or none."""
        self._fault, self._calls, self.has_failed = fault, 0, False

    async def call(self, at: str) -> None:
        """Let time pass, and raise ConnectorError if this call is to fail."""
        for _ in range(self.chance.randint(0, self.slowest_turns)):
            await asyncio.sleep(0)
        if self._fault is None or self._fault.at != at:
            return
        self._calls += 1
        if self._calls == self._fault.number:
            self.has_failed, self._fault = True, None
            raise ConnectorError("the simulation makes this sink fail")

    def _open_sink(self, sink: nodes.Sink, schema: Schema, run_context: RunContext) -> MemorySink:
        made = InMemoryData._open_sink(self, sink, schema, run_context)
        return FaultySink(self, made.name, self)


@dataclass(slots=True)
class FaultySink(MemorySink):
    """Both halves of such a sink."""

    faulty: FaultyMemory

    def create_writer(self, subtask: int, begun: Sequence[Document] = ()) -> SinkWriter:
        """Return a writer that is slow and fails."""
        return FaultyWriter(self, subtask, faulty=self.faulty)

    async def commit(self, handle: Handle) -> None:
        """Commit, unless it fails before."""
        await self.faulty.call("commit")
        await MemorySink.commit(self, handle)


@dataclass(slots=True)
class FaultyWriter(MemoryWriter):
    """A writer that is slow and fails."""

    faulty: FaultyMemory = field(default_factory=FaultyMemory)

    async def write(self, frame: pl.DataFrame) -> None:
        """Add a batch, unless it fails before."""
        await self.faulty.call("write")
        await MemoryWriter.write(self, frame)

    async def prepare(self) -> Handle | None:
        """Set the batches aside for a commit, unless it fails before."""
        await self.faulty.call("prepare")
        return await MemoryWriter.prepare(self)
