"""A job from start to end: attempts, and what is between them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from headrace.core.attempt import Attempt
from headrace.core.channel import Bounds
from headrace.core.compile import Setting
from headrace.core.contracts import ConnectorError, Connectors, Surroundings
from headrace.core.keeping import Keeping
from headrace.core.manifest import Checkpoint
from headrace.core.messages import Failure, SubtaskId
from headrace.core.news import Restarting
from headrace.core.occupation import Looks
from headrace.core.plan import nodes
from headrace.core.snapshots import SnapshotError
from headrace.core.statistics import PartCounts
from headrace.core.subtask_statistics import SubtaskStatistics, subtask_statistics
from headrace.core.telling import failure


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended."""

    failure: Failure | None
    stopped: bool
    parts: Mapping[str, PartCounts]
    seconds: float
    before: Mapping[str, PartCounts] = field(default_factory=dict)
    """What had gone through its parts when this run began."""
    checkpoint: int | None = None
    """The one to go on from, if it has not come to its end."""


@dataclass(slots=True)
class Job:
    """One run of a plan. Nothing of it is global: clock, threads and connectors are handed in.

    Without `keeping` it cannot go on from a checkpoint: its first failure ends it.
    """

    plan: nodes.Plan
    connectors: Connectors
    surroundings: Surroundings
    setting: Setting
    bounds: Bounds = field(default_factory=Bounds)
    keeping: Keeping | None = None
    restored: Checkpoint | None = None
    """The checkpoint that it begins with."""
    random: random.Random = field(default_factory=random.Random)
    looks: Looks[tuple[int, SubtaskId]] = field(default_factory=Looks)
    """What was seen of its subtasks, each in an attempt."""
    _attempt: Attempt | None = None
    _deployed: Attempt | None = None
    """The last one of which anything ran."""
    _before: Mapping[str, PartCounts] | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: bool = False
    """Whether there is nothing left to do."""
    _stopped: bool = False
    """Whether it ended because somebody asked for it."""

    async def run(self) -> Outcome:
        """Run to the end. What is refused before anything is read is raised."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        failed = await self._attempts()
        return Outcome(
            failed,
            self._stopped,
            self.counts(),
            loop.time() - start,
            self._before or {},
            await self._last(),
        )

    def stop(self) -> None:
        """Ask for the end: with a checkpoint to go on from, or, without, when all is finished."""
        self._stop.set()
        if self._attempt is not None:
            self._attempt.stop()

    def counts(self) -> dict[str, PartCounts]:
        """What went through every part so far, in this run and in those that it goes on from."""
        shown = self._deployed or self._attempt
        return shown.counts() if shown else {}

    @property
    def attempt_number(self) -> int:
        """Which attempt runs, from 1 on; 0 before there is one."""
        return self._attempt.number if self._attempt else 0

    def subtasks(self) -> list[SubtaskStatistics]:
        """Each subtask in figures, since it began."""
        shown = self._deployed or self._attempt
        if shown is None:
            return []
        return [subtask_statistics(s, shown.plan, shown.number) for s in shown.subtasks()]

    @property
    def before(self) -> Mapping[str, PartCounts]:
        """What had gone through every part when this run began."""
        return self._before or {}

    async def _attempts(self) -> Failure | None:
        """Attempts until one comes to an end, or it is no use: what the last one failed of."""
        number = 1
        while True:
            failed = await self._try(number)
            if failed is None:
                return None
            delay_s = self._delay(failed)
            if delay_s is None:
                return failed
            if await self._stopped_within(delay_s):
                self._stopped = True
                return None
            number += 1

    async def _try(self, number: int) -> Failure | None:
        """One attempt: what it failed of."""
        try:
            restored = self.restored if number == 1 else await self._newest()
            return await self._run(restored, number)
        except (ConnectorError, SnapshotError) as error:
            if number == 1 or error.exit_status != 1:
                raise
            return failure(error, "restart")

    async def _run(self, restored: Checkpoint | None, number: int) -> Failure | None:
        """One attempt from there on."""
        attempt = self._attempt = Attempt(
            self.plan,
            self.connectors,
            self.surroundings,
            self.setting,
            self.bounds,
            self.keeping,
            restored,
            number,
        )
        if self._stop.is_set():
            attempt.stop()
        coordinator = await attempt.run(self._began)
        self._ended = coordinator.failure is None and coordinator.ended
        self._stopped = coordinator.stopped and coordinator.failure is None
        if self.keeping is not None and self._ended:
            # It was too late to ask: there is nothing to go on with.
            self._stopped = False
            await self.surroundings.bench.blocking(self.keeping.finish)
        return coordinator.failure

    def _began(self) -> None:
        self._deployed = self._attempt
        if self._before is None:
            self._before = self.counts()

    def _delay(self, failed: Failure) -> float | None:
        """How long to wait before another attempt; None: there is none."""
        if self.keeping is None or self._stop.is_set():
            return None
        now = asyncio.get_running_loop().time()
        decided = self.keeping.restarts.failed(failed, now, self.random.random())
        if decided is not None:
            self.keeping.tell(Restarting(failed, decided))
        return decided

    async def _stopped_within(self, delay_s: float) -> bool:
        """Wait; whether somebody asks for the end meanwhile."""
        try:
            async with asyncio.timeout(delay_s):
                await self._stop.wait()
        except TimeoutError:
            return False
        return True

    async def _last(self) -> int | None:
        """The checkpoint to go on from, if there is one, and if the store can tell."""
        if self.keeping is None or self._ended:
            return None
        with suppress(SnapshotError):
            return await self.surroundings.bench.blocking(self.keeping.last_number) or None
        return None

    async def _newest(self) -> Checkpoint | None:
        if self.keeping is None:
            return None
        return await self.surroundings.bench.blocking(partial(self.keeping.newest, self.plan))
