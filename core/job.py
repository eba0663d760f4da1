"""A job from start to end: the shell around the coordinator and the worker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.core.assembly import Assembly, Ends, open_ends
from headrace.core.channel import Bounds
from headrace.core.compile import Setting
from headrace.core.contracts import Connectors, Surroundings
from headrace.core.coordinator import Coordinator
from headrace.core.messages import Failure, Split, SubtaskId, ToCoordinator
from headrace.core.plan import nodes
from headrace.core.statistics import PartCounts, part_counts
from headrace.core.worker import Worker


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended."""

    failure: Failure | None
    stopped: bool
    parts: Mapping[str, PartCounts]
    seconds: float


@dataclass(slots=True)
class Job:
    """One run of a plan. Nothing of it is global: clock, threads and connectors are handed in."""

    plan: nodes.Plan
    connectors: Connectors
    surroundings: Surroundings
    setting: Setting
    bounds: Bounds = field(default_factory=Bounds)
    _coordinator: Coordinator | None = None
    _worker: Worker | None = None
    _mail: asyncio.Queue[ToCoordinator | None] = field(default_factory=asyncio.Queue)
    _assembly: Assembly | None = None

    async def run(self) -> Outcome:
        """Run to the end. What is refused before anything is read is raised as ConnectorError."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        ends = open_ends(self.plan, self.connectors, self.surroundings)
        splits = await self._discover(ends)
        self._assembly = Assembly(self.plan, ends, self.surroundings, self.bounds, self.setting)
        self._worker = Worker(self._assembly, ends, self.surroundings.bench, self._mail.put_nowait)
        self._coordinator = Coordinator(self._ids(), self._readers())
        try:
            await self._carry(splits)
        finally:
            await self._worker.cancel()
        coordinator = self._coordinator
        seconds = loop.time() - start
        return Outcome(coordinator.failure, coordinator.stopped, self.counts(), seconds)

    def stop(self) -> None:
        """Ask for the end: what was read is finished and committed."""
        self._mail.put_nowait(None)

    async def _carry(self, splits: Mapping[str, Sequence[Split]]) -> None:
        """Carry messages between the coordinator and the worker until the job is over."""
        coordinator, worker = self._coordinator, self._worker
        assert coordinator is not None and worker is not None
        for message in coordinator.start(splits):
            await worker.receive(message)
        while not coordinator.over:
            told = await self._mail.get()
            for message in coordinator.stop() if told is None else coordinator.receive(told):
                await worker.receive(message)

    async def _discover(self, ends: Ends) -> dict[str, Sequence[Split]]:
        """What there is to read; output is looked at after that, and may make its folder."""
        bench = self.surroundings.bench
        splits = {
            name: await bench.blocking(source.discover) for name, source in ends.sources.items()
        }
        for sink in ends.sinks.values():
            await bench.blocking(sink.check)
        return splits

    def _ids(self) -> tuple[SubtaskId, ...]:
        return tuple(
            SubtaskId(number, index)
            for number, task in enumerate(self.plan.tasks)
            for index in range(task.parallelism)
        )

    def _readers(self) -> dict[str, tuple[SubtaskId, ...]]:
        return {
            task.parts[0]: tuple(SubtaskId(number, i) for i in range(task.parallelism))
            for number, task in enumerate(self.plan.tasks)
            if isinstance(self.plan.part(task.parts[0]), nodes.Source)
        }

    def counts(self) -> dict[str, PartCounts]:
        """What went through every part so far."""
        subtasks = self._worker.subtasks.values() if self._worker else ()
        channels = self._assembly.channels if self._assembly else {}
        return part_counts(self.plan, subtasks, channels)
