"""A job from start to end: its attempts, and the restarts between them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from headrace.core.asked import Refused, Rescaled, Status
from headrace.core.attempt import Attempt
from headrace.core.change import Change
from headrace.core.channel import Bounds
from headrace.core.compile import Setting
from headrace.core.connector import Connectors
from headrace.core.contracts import ConnectorError, Surroundings
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
    """The outcome of a job."""

    failure: Failure | None
    stopped: bool
    parts: Mapping[str, PartCounts]
    seconds: float
    before: Mapping[str, PartCounts] = field(default_factory=dict)
    """The row counts of its parts when this run began."""
    checkpoint: int | None = None
    """The checkpoint to resume from, if the job has not ended."""
    drained: bool = False
    """Whether the job was drained: all that was read has been emitted."""


@dataclass(slots=True)
class Job:
    """One run of a plan. Nothing of it is global: clock, threads and connectors are passed in.

    Without a CheckpointStorage it cannot resume from a checkpoint: its first failure ends it.
    """

    plan: nodes.Plan
    connectors: Connectors
    surroundings: Surroundings
    setting: Setting
    bounds: Bounds = field(default_factory=Bounds)
    keeping: Keeping | None = None
    restored: Checkpoint | None = None
    """The checkpoint to start from."""
    random: random.Random = field(default_factory=random.Random)
    looks: Looks[tuple[int, SubtaskId]] = field(default_factory=Looks)
    """The samples of the time of its subtasks, by attempt and subtask."""
    _attempt: Attempt | None = None
    _deployed: Attempt | None = None
    """The last attempt whose subtasks were deployed."""
    _before: Mapping[str, PartCounts] | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: bool = False
    """Whether all input was read and all output committed."""
    _stopped: bool = False
    """Whether the job ended because of a stop request."""
    _drains: bool = False
    """Whether the stop request asked to drain: to finish what was read."""
    _drained: bool = False
    """Whether the job was drained."""
    _wanted: Change | None = None
    """The rescale that was requested."""
    failure: Failure | None = None
    """The failure after which the job waits to restart, or is over."""
    _over: bool = False

    async def run(self) -> Outcome:
        """Run to the end. Raises errors that come before anything is read."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            failed = await self._attempts()
        finally:
            self._over = True
            self._refuse_change(Refused("the job has ended"))
        return Outcome(
            failed,
            self._stopped,
            self.counts(),
            loop.time() - start,
            self._before or {},
            await self._last(),
            self._drained,
        )

    def stop(self, *, drain: bool = False) -> None:
        """Request the end.

        With checkpoints the job ends after one to resume from, without when all that was read is
        finished. `drain`: finish all that was read before that, as at the end of event time.
        """
        self._drains = self._drains or (drain and not self._stop.is_set())
        self._stop.set()
        if self._attempt is not None:
            self._attempt.stop(drains=self._drains)

    @property
    def status(self) -> Status:
        """The status of the job."""
        attempt = self._attempt
        if self._over:
            return "over"
        if self.failure is not None:
            return "restarting"
        if self._wanted is not None and self._wanted.halted_s is not None:
            return "rescaling"
        if self._stop.is_set():
            return "draining" if self._drains else "stopping"
        if attempt is None or attempt is not self._deployed:
            return "restoring" if attempt is not None and attempt.restored else "starting"
        return "running"

    async def checkpoint(self) -> int:
        """Take a checkpoint of all input so far. Return its number.

        It is complete then, and all its output is committed. It stays until `release_checkpoint`,
        for which the end of the job waits. Raises RequestRejected.
        """
        return await self._going().checkpoint()

    def release(self, number: int) -> None:
        """Unpin a checkpoint that is no longer read."""
        assert self.keeping is not None
        self.keeping.pins.release(number)

    async def rescale(self, plan: nodes.Plan) -> Rescaled:
        """Continue with the same plan at another parallelism. Raises RequestRejected.

        The job stands still from a checkpoint to the restore from it; another checkpoint before
        that leaves little to write meanwhile. If the caller is cancelled, a rescale that has begun
        is completed.
        """
        if self._wanted is not None:
            raise Refused("the job is being rescaled already", "ask again when that is done")
        change = self._wanted = Change(plan, asyncio.get_running_loop().create_future())
        try:
            self.release(await self.checkpoint())
            self._going().halt(change.halt)
        except BaseException:
            self._wanted = None
            raise
        return await asyncio.shield(change.done)

    def _going(self) -> Attempt:
        """Return the attempt that can serve a request. Raises RequestRejected."""
        if self.keeping is None:
            raise Refused("this run takes no checkpoints", "leave out --limit, or read files")
        status, attempt = self.status, self._attempt
        if status == "restarting" and self.failure is not None:
            why = f"the job has failed, and waits to restart: {self.failure.message}"
            raise Refused(why, "ask again when it runs")
        if attempt is None or status not in ("starting", "restoring", "running"):
            raise Refused(f"the job is {status}", "" if status == "over" else "ask again later")
        return attempt

    def counts(self) -> dict[str, PartCounts]:
        """Return the row counts of every part, in this run and in those that it resumed from."""
        shown = self._deployed or self._attempt
        return shown.counts() if shown else {}

    @property
    def attempt_number(self) -> int:
        """The number of the current attempt, from 1; 0 before the first."""
        return self._attempt.number if self._attempt else 0

    def subtasks(self) -> list[SubtaskStatistics]:
        """Return the statistics of each subtask since it began."""
        shown = self._deployed or self._attempt
        if shown is None:
            return []
        return [subtask_statistics(s, shown.plan, shown.number) for s in shown.subtasks()]

    @property
    def before(self) -> Mapping[str, PartCounts]:
        """The row counts of every part when this run began."""
        return self._before or {}

    async def _attempts(self) -> Failure | None:
        """Run attempts until one ends or no restart is left. Return the last failure."""
        number = 1
        while True:
            failed = await self._try(number)
            number += 1
            if failed is None:
                if not self._changes():
                    return None
                continue
            if self._changed_back(failed):
                if self._ends_here:
                    self._stopped = True
                    return None
                continue
            delay_s = self._delay(failed)
            self.failure = failed
            if delay_s is None:
                return failed
            await self._stopped_within(delay_s)
            self.failure = None
            if self._ends_here:
                self._stopped = True
                return None

    @property
    def _ends_here(self) -> bool:
        """Whether the job ends with the newest checkpoint; to be drained it has to run."""
        return self._stop.is_set() and not self._drains

    def _changes(self) -> bool:
        """Whether the attempt has ended for a rescale: then switch to the new plan."""
        change = self._wanted
        if change is None or change.halted_s is None or self._ended or self._drained:
            return False
        if self._ends_here:
            return False
        change.old, self.plan = self.plan, change.plan
        self._stopped = False
        return True

    def _changed_back(self, failed: Failure) -> bool:
        """Undo a rescale because an attempt failed. Return whether its plan was in use."""
        change = self._wanted
        goes_back = change is not None and change.old is not None
        if change is not None and change.old is not None:
            self.plan = change.old
        self._refuse_change(Refused(f"the job has failed: {failed.message}", failed.hint))
        return goes_back

    def _refuse_change(self, refused: Refused) -> None:
        change, self._wanted = self._wanted, None
        if change is not None and not change.done.done():
            change.done.set_exception(refused)
            # The caller may have been cancelled: mark the exception as retrieved.
            change.done.exception()

    async def _try(self, number: int) -> Failure | None:
        """Run one attempt. Return its failure."""
        try:
            restored = self.restored if number == 1 else await self._newest()
            return await self._run(restored, number)
        except (ConnectorError, SnapshotError) as error:
            changes = self._wanted is not None and self._wanted.old is not None
            if not changes and (number == 1 or error.exit_status != 1):
                raise
            return failure(error, "restart")

    async def _run(self, restored: Checkpoint | None, number: int) -> Failure | None:
        """Run one attempt from a checkpoint. Return its failure."""
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
            attempt.stop(drains=self._drains)
        coordinator = await attempt.run(self._began)
        self._ended = coordinator.failure is None and coordinator.ended
        self._stopped = coordinator.stopped and coordinator.failure is None
        self._drained = self._stopped and coordinator.drains
        if self.keeping is not None and self._ended:
            # The stop request came too late: nothing is left to resume.
            self._stopped = False
            await self.keeping.pins.free()
            await self.surroundings.bench.blocking(self.keeping.finish)
        return coordinator.failure

    def _began(self) -> None:
        self._deployed = self._attempt
        change = self._wanted
        if change is not None and change.old is not None and self._attempt is not None:
            restored = self._attempt.restored
            change.came(restored.number if restored else 0)
            self._wanted = None
        if self._before is None:
            self._before = self.counts()

    def _delay(self, failed: Failure) -> float | None:
        """Return the delay before the next attempt; None: there is none."""
        if self.keeping is None or self._stop.is_set():
            return None
        now = asyncio.get_running_loop().time()
        attempt = self._attempt
        from_ = attempt.restored.number if attempt and attempt.restored else 0
        decided = self.keeping.restarts.failed(failed, now, self.random.random(), from_)
        if decided is not None:
            self.keeping.told(Restarting(failed, decided))
        return decided

    async def _stopped_within(self, delay_s: float) -> None:
        """Wait for the delay, or until a stop is requested."""
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._stop.wait()

    async def _last(self) -> int | None:
        """Return the checkpoint to resume from, if there is one and the store can be read."""
        if self.keeping is None or self._ended:
            return None
        with suppress(SnapshotError):
            return await self.surroundings.bench.blocking(self.keeping.last_number) or None
        return None

    async def _newest(self) -> Checkpoint | None:
        if self.keeping is None:
            return None
        return await self.surroundings.bench.blocking(partial(self.keeping.newest, self.plan))
