"""A job from start to end: the shell around the coordinator and the worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from headrace.core.assembly import Assembly, Ends, open_ends
from headrace.core.blame import blamed
from headrace.core.channel import Bounds
from headrace.core.compile import Setting
from headrace.core.contracts import Connectors, Source, Surroundings
from headrace.core.coordinator import Coordinator
from headrace.core.dealing import Dealing
from headrace.core.drift import Drift
from headrace.core.messages import Failure, Split, SubtaskId, ToWorker
from headrace.core.plan import nodes
from headrace.core.statistics import PartCounts, part_counts
from headrace.core.worker import Worker, failure


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
    _worker: Worker | None = None
    _mail: asyncio.Queue[Callable[[Coordinator], list[ToWorker]]] = field(
        default_factory=asyncio.Queue
    )
    """What there is to say to the coordinator."""
    _assembly: Assembly | None = None

    async def run(self) -> Outcome:
        """Run to the end. What is refused before anything is read is raised as ConnectorError."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        ends = open_ends(self.plan, self.connectors, self.surroundings)
        splits = await self._discover(ends)
        self._assembly = Assembly(self.plan, ends, self.surroundings, self.bounds, self.setting)
        self._worker = Worker(
            self._assembly,
            ends,
            self.surroundings.bench,
            lambda message: self._say(lambda coordinator: coordinator.receive(message)),
        )
        coordinator = Coordinator(self._ids(), self._sources(ends), self._drifts())
        looking = [
            asyncio.create_task(self._rediscover(name, source, coordinator))
            for name, source in ends.sources.items()
            if source.rediscover_s is not None
        ]
        try:
            await self._carry(coordinator, self._worker, splits)
        finally:
            for task in looking:
                task.cancel()
            await asyncio.gather(*looking, return_exceptions=True)
            await self._worker.cancel()
        seconds = loop.time() - start
        return Outcome(coordinator.failure, coordinator.stopped, self.counts(), seconds)

    def stop(self) -> None:
        """Ask for the end: what was read is finished and committed."""
        self._say(Coordinator.stop)

    def _say(self, what: Callable[[Coordinator], list[ToWorker]]) -> None:
        self._mail.put_nowait(what)

    async def _carry(
        self, coordinator: Coordinator, worker: Worker, splits: Mapping[str, Sequence[Split]]
    ) -> None:
        """Carry messages between the coordinator and the worker until the job is over."""
        for message in coordinator.start(splits):
            await worker.receive(message)
        while not coordinator.over:
            said = await self._mail.get()
            for message in said(coordinator):
                await worker.receive(message)

    async def _rediscover(self, name: str, source: Source, coordinator: Coordinator) -> None:
        """Ask a source for its splits as often as it wants to be asked, while they are read."""
        while coordinator.reads(name):
            await asyncio.sleep(source.rediscover_s or 0)
            try:
                with blamed(name):
                    found = await self.surroundings.bench.blocking(source.discover)
            except Exception as error:
                self._say(partial(Coordinator.fail, failure=failure(error, name)))
                return
            self._say(partial(Coordinator.discovered, source=name, splits=found))

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

    def _sources(self, ends: Ends) -> dict[str, Dealing]:
        """Who reads each source."""
        sources = {}
        for number, task in enumerate(self.plan.tasks):
            if source := ends.sources.get(task.parts[0]):
                readers = tuple(SubtaskId(number, index) for index in range(task.parallelism))
                sources[task.parts[0]] = Dealing(readers, source.rediscover_s is not None)
        return sources

    def _drifts(self) -> dict[str, Drift]:
        """The sources whose splits are to keep together."""
        return {
            part.name: Drift(part.watermark.max_drift // timedelta(microseconds=1))
            for part in self.plan
            if isinstance(part, nodes.Source)
            and part.watermark is not None
            and part.watermark.max_drift is not None
        }

    def counts(self) -> dict[str, PartCounts]:
        """What went through every part so far."""
        subtasks = self._worker.subtasks.values() if self._worker else ()
        channels = self._assembly.channels if self._assembly else {}
        return part_counts(self.plan, subtasks, channels)
