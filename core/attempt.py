"""One attempt of a job: the shell around a coordinator, a worker and the checkpoint store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from headrace.core import faults
from headrace.core.asked import Refused
from headrace.core.asking import Asking
from headrace.core.assembly import Assembly, Subtask
from headrace.core.beginning import commit_again, discovered
from headrace.core.bench import until_done
from headrace.core.blame import blamed
from headrace.core.channel import Bounds
from headrace.core.checkpoints import Checkpoints
from headrace.core.compile import Setting
from headrace.core.connector import Connectors
from headrace.core.contracts import Source, Surroundings
from headrace.core.coordinator import Coordinator
from headrace.core.ends import Ends, drifts, open_ends, readers, subtasks
from headrace.core.keeping import Keeping
from headrace.core.manifest import Checkpoint
from headrace.core.messages import (
    AllVisible,
    CheckpointFailed,
    CheckpointTaken,
    Failure,
    Keep,
    Kept,
    Noted,
    NotKept,
    Split,
    ToAnybody,
    ToCoordinator,
)
from headrace.core.noting import note_visible
from headrace.core.pins import Pins
from headrace.core.plan import nodes
from headrace.core.publishing import Publishing
from headrace.core.snapshots import RefusedSnapshot, SnapshotError, UnknownOutcome
from headrace.core.statistics import PartCounts, part_counts
from headrace.core.subtask_statistics import pauses
from headrace.core.tally import Tallies
from headrace.core.telling import failure
from headrace.core.worker import Worker

Said: TypeAlias = "Callable[[Coordinator, float], list[ToAnybody]]"
"""A call of the coordinator at a time of the loop; it returns the messages to deliver."""


@dataclass(slots=True)
class Attempt:
    """One attempt: from a checkpoint, or from the start, to the end or the first failure."""

    plan: nodes.Plan
    connectors: Connectors
    surroundings: Surroundings
    setting: Setting
    bounds: Bounds = field(default_factory=Bounds)
    keeping: Keeping | None = None
    restored: Checkpoint | None = None
    number: int = 1
    _worker: Worker | None = None
    _mail: asyncio.Queue[Said] = field(default_factory=asyncio.Queue)
    _assembly: Assembly | None = None
    _writing: asyncio.Task[None] | None = None
    _noting: asyncio.Task[None] | None = None
    _refused: RefusedSnapshot | None = None
    """The error after which no checkpoint may be written."""
    _asking: Asking = field(init=False)
    _publishing: Publishing = field(default_factory=Publishing)

    def __post_init__(self) -> None:
        self._asking = Asking(self.keeping.pins if self.keeping else Pins())

    async def run(self, deployed: Callable[[], None] = lambda: None) -> Coordinator:
        """Run to the end. Return the coordinator, which knows how the attempt ended.

        Raises ConnectorError or SnapshotError for errors before anything is read.
        """
        try:
            return await self._run(deployed)
        finally:
            self._asking.over(Refused("the job has failed or ended before", "ask again if it runs"))

    async def _run(self, deployed: Callable[[], None]) -> Coordinator:
        ends = open_ends(self.plan, self.connectors, self.surroundings)
        try:
            return await self._between(ends, deployed)
        finally:
            await until_done(asyncio.create_task(ends.close()))

    async def _between(self, ends: Ends, deployed: Callable[[], None]) -> Coordinator:
        if self.restored is not None and self.keeping is not None:
            await commit_again(self.restored, ends, self.keeping, self.surroundings)
            if self.restored.ended:
                # Output that belongs to no checkpoint is left to remove.
                await ends.check_sinks()
                return Coordinator((), {}, state="done")
        begins, splits = await discovered(ends, self.restored)
        coordinator = await self._assembled(ends)
        now = asyncio.get_running_loop().time()
        discovering = [
            asyncio.create_task(self._rediscover(name, source, coordinator))
            for name, source in ends.sources.items()
            if source.rediscover_s is not None
        ]
        try:
            await self._carry(coordinator, coordinator.start(splits, begins, now), deployed)
        finally:
            for task in discovering:
                task.cancel()
            await asyncio.gather(*discovering, return_exceptions=True)
            if self._worker is not None:
                await self._worker.cancel()
            if self._writing is not None:
                await asyncio.gather(self._writing, return_exceptions=True)
            if self._noting is not None:
                self._noting.cancel()
                await asyncio.gather(self._noting, return_exceptions=True)
            await self._publishing.close()
        if self._refused is not None:
            raise self._refused
        return coordinator

    async def _assembled(self, ends: Ends) -> Coordinator:
        """Build the worker with all its subtasks. Return their coordinator."""
        keeping = self.keeping
        self._assembly = Assembly(
            self.plan,
            ends,
            self.surroundings,
            self.bounds,
            self.setting,
            keeping.store if keeping else None,
            aligned=keeping is None or keeping.aligned,
            changed=self.restored.changed if self.restored else frozenset(),
        )
        self._worker = Worker(self._assembly, ends, self.surroundings.bench, self._tell)
        self._publishing = Publishing(ends.sources)
        return Coordinator(
            subtasks(self.plan),
            readers(self.plan, ends),
            drifts(self.plan),
            await self._checkpoints(),
            self.number,
        )

    def stop(self, *, drains: bool = False) -> None:
        """Request the end of the attempt."""

        def said(coordinator: Coordinator, now: float) -> list[ToAnybody]:
            messages = coordinator.stop(now, drains=drains)
            if coordinator.drains and coordinator.checkpoints is not None:
                # While draining, only the final checkpoint is valid.
                why = Refused("the job is draining, and takes no checkpoint before its end")
                self._asking.behind(coordinator.checkpoints.number, why)
            return messages

        self._say(said)

    def halt(self, halted: Callable[[], None]) -> None:
        """Request the end of the attempt, and call back when the stop has begun."""

        def said(coordinator: Coordinator, now: float) -> list[ToAnybody]:
            halted()
            return coordinator.stop(now)

        self._say(said)

    async def checkpoint(self) -> int:
        """Take a checkpoint of all input so far. Return its number once its output is committed.

        It is pinned until the caller releases it. Raises RequestRejected.
        """
        asked = self._asking.asks()
        self._say(partial(self._ask, asked=asked))
        try:
            return await asked
        except asyncio.CancelledError:
            self._asking.gone(asked)
            raise

    def _ask(
        self, coordinator: Coordinator, now: float, asked: asyncio.Future[int]
    ) -> list[ToAnybody]:
        begun = coordinator.ask(now)
        if begun is None:
            why = "the job is about to end, and takes no more checkpoints"
            self._asking.refused(asked, Refused(why))
            return []
        number, messages = begun
        self._asking.begun(asked, number)
        return messages

    def counts(self) -> dict[str, PartCounts]:
        """Return the row counts of every part so far."""
        running = self._worker.subtasks.values() if self._worker else ()
        channels = self._assembly.channels if self._assembly else {}
        before = self.restored.tallies if self.restored else Tallies()
        return part_counts(self.plan, running, channels, before)

    def subtasks(self) -> tuple[Subtask, ...]:
        """Return all deployed subtasks, also those that have ended."""
        return tuple(self._worker.subtasks.values()) if self._worker else ()

    def _say(self, what: Said) -> None:
        self._mail.put_nowait(what)

    def _fail(self, failed: Failure) -> None:
        self._say(lambda coordinator, now: coordinator.fail(failed))

    def _tell(self, message: ToCoordinator) -> None:
        self._say(lambda coordinator, now: coordinator.receive(message, now))

    async def _carry(
        self,
        coordinator: Coordinator,
        first: Sequence[ToAnybody],
        deployed: Callable[[], None],
    ) -> None:
        """Deliver messages until the attempt is over."""
        loop = asyncio.get_running_loop()
        for message in first:
            await self._deliver(message)
        deployed()
        if self.keeping is not None and self.number == 1:
            await self.surroundings.bench.blocking(self.keeping.begun)
        while not coordinator.over:
            said = await self._next(coordinator.due())
            for message in said(coordinator, loop.time()):
                await self._deliver(message)

    async def _next(self, due: float | None) -> Said:
        """Return the next call of the coordinator; `tick` if none comes before its time."""
        try:
            async with asyncio.timeout_at(due):
                return await self._mail.get()
        except TimeoutError:
            return Coordinator.tick

    async def _deliver(self, message: ToAnybody) -> None:
        assert self._worker is not None
        match message:
            case Keep():
                self._writing = asyncio.create_task(self._write(message))
            case AllVisible(number):
                self._noting = asyncio.create_task(self._note(number))
            case CheckpointTaken() | CheckpointFailed():
                assert self.keeping is not None
                self.keeping.told(message, pauses(self.subtasks()))
                if isinstance(message, CheckpointFailed):
                    self._asking.failed(message.number, message.why)
            case _:
                await self._worker.receive(message)

    async def _write(self, keep: Keep) -> None:
        """Write the manifest of a checkpoint."""
        assert self.keeping is not None
        faults.point("manifest.before")
        try:
            archive = self.surroundings.archive or self.surroundings.bench
            await archive.blocking(partial(self.keeping.write, keep, self.plan, self.restored))
        except UnknownOutcome as error:
            # Only the next attempt can find out whether the manifest exists.
            self._fail(Failure(error.message, "checkpoints", hint=error.hint))
        except RefusedSnapshot as error:
            self._refuse(error)
        except SnapshotError as error:
            self._tell(NotKept(keep.number, error.message))
        except BaseException as error:
            self._fail(failure(error, "checkpoints"))
            raise
        else:
            faults.point("manifest.after")
            self._tell(Kept(keep.number))
            self._publishing.publish(keep)

    async def _note(self, number: int) -> None:
        """Record that the output of a checkpoint is committed."""
        assert self.keeping is not None
        faults.point("noting")
        try:
            await note_visible(number, self.keeping, self.surroundings)
        except RefusedSnapshot as error:
            self._refuse(error)
        except SnapshotError as error:
            self._fail(failure(error, "checkpoints"))
        else:
            faults.point("noted")
            self._asking.there(number)
            self._tell(Noted(number))

    def _refuse(self, error: RefusedSnapshot) -> None:
        """Fail the attempt and the job: no attempt may write any more."""
        self._refused = error
        self._fail(Failure(error.message, "checkpoints", hint=error.hint))

    async def _checkpoints(self) -> Checkpoints | None:
        if self.keeping is None:
            return None
        last = await self.surroundings.bench.blocking(self.keeping.highest_number)
        return Checkpoints(subtasks(self.plan), self.keeping.rhythm, last)

    async def _rediscover(self, name: str, source: Source, coordinator: Coordinator) -> None:
        """Discover the splits of a source at its interval, while they are read."""
        while coordinator.reads(name):
            await asyncio.sleep(source.rediscover_s or 0)
            try:
                with blamed(name):
                    found = await source.discover(first=False)
            except Exception as error:
                self._fail(failure(error, name))
                return
            self._say(partial(_discovered, source=name, splits=found))


def _discovered(
    coordinator: Coordinator, now: float, source: str, splits: Sequence[Split]
) -> list[ToAnybody]:
    return coordinator.discovered(source, splits)
