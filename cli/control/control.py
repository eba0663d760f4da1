"""Control of a job: serves its socket, and carries out clients' requests one after the other.

`Operations` decides which operation may start; this module does the work. `watch` runs from before
the job's start until after its end. `over` runs at the end: it makes savepoints of the last
checkpoint while the process still holds the job's home.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from headrace.cli.control import sockets
from headrace.cli.control.figures import EVERY_S, Figures, now
from headrace.cli.control.operations import Operation, Operations, Trouble
from headrace.cli.control.plans import Plans, changes
from headrace.cli.control.routes import Route
from headrace.cli.control.saving import GivenUp, Saving
from headrace.cli.control.server import serve
from headrace.core.asked import Refused
from headrace.core.job import Job, Outcome
from headrace.core.news import Asked, News, NotDone, Rescaled, Savepointed
from headrace.core.plan import Plan
from headrace.core.snapshots import RefusedSnapshot, SnapshotError

GRACE_S = 1.0
"""The time that the end waits for polling clients to fetch the result."""

ENDED = Trouble("refused", "the job has ended")
DRAINED = Trouble("refused", "the job was drained: its last checkpoint has the state after that")
NOTHING_LEFT = Trouble("refused", "the job has finished: there is nothing to resume from")
AT_ONCE = Trouble("failed", "the process was stopped at once")


@dataclass(slots=True)
class Control:
    """The control of one job of this process."""

    folder: str
    """The job's home, which is locked."""
    figures: Figures
    plans: Plans
    saving: Saving
    tell: Callable[[News], None] = lambda news: None
    failed: Callable[[BaseException], None] = lambda error: None
    """Called with an exception that is a bug in headrace."""
    routes: Callable[[Control], Sequence[Route]] = lambda control: ()
    """The routes to serve."""
    operations: Operations = field(default_factory=Operations)
    _job: Job | None = None
    _doing: set[asyncio.Task[None]] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _plans: dict[str, tuple[Plans, Plan]] = field(default_factory=dict)
    """The plans of rescales, by operation."""
    _heard: dict[str, float] = field(default_factory=dict)
    """The time of the last request for each operation, by id."""

    @property
    def job(self) -> Job:
        """The job, which is known once `watch` has started."""
        assert self._job is not None
        return self._job

    async def watch(self, job: Job) -> None:
        """Serve until cancelled. A job without a socket runs all the same."""
        self._job = job
        self.saving.bench = job.surroundings.archive or job.surroundings.bench
        try:
            with sockets.listening(self.folder) as listener:
                async with serve(self.routes(self), listener, self.failed):
                    await self._sample()
        except OSError as error:
            why = error.strerror or str(error)
            self.tell(NotDone("control", f"{sockets.path(self.folder)}: {why}"))
        except Exception as error:
            self.failed(error)

    async def _sample(self) -> None:
        try:
            while True:
                self.figures.sample(self.job)
                await asyncio.sleep(EVERY_S)
        finally:
            await self._abandon(AT_ONCE)

    # Requests of clients

    def savepoint(self, to: str | None) -> Operation:
        """Request a savepoint. Raises Bad."""
        return self._begin(self.operations.savepoint(self.job.status, now(), to))

    async def rescale(self, parallelism: int | None, parts: Mapping[str, int]) -> Operation:
        """Request another parallelism. Raises Bad."""
        while True:
            before = self.plans
            make = partial(before.changed, parallelism, parts)
            plans, plan = await self.saving.bench.blocking(make)
            if before is self.plans:
                break
        changed = changes(self.job.plan, plan)
        asked = self.operations.rescale(self.job.status, now(), changed)
        self._plans[asked.id] = plans, plan
        return self._begin(asked)

    def stop(self, *, saves: bool, to: str | None, drain: bool) -> Operation:
        """Request a stop. Raises Bad."""
        before = self.operations.open()
        status = self.job.status
        asked = self.operations.stop(status, now(), saves=saves, to=to, drain=drain)
        if asked not in before:
            self.tell(Asked(drain))
            self.job.stop(drain=drain)
        return self._begin(asked)

    async def until_over(self, operation: Operation, wait_s: float) -> None:
        """Wait until the operation is over, at most this long."""
        try:
            async with asyncio.timeout(wait_s):
                while not operation.over:
                    await self._changed.wait()
        except TimeoutError:
            pass
        finally:
            self._heard[operation.id] = asyncio.get_running_loop().time()

    def told(self, operation: Operation) -> None:
        """Record that a client has received the end of the operation."""
        operation.told = True
        self._change()

    # Execution

    def _begin(self, asked: Operation) -> Operation:
        """Start all operations that may start; return the requested one."""
        self._heard[asked.id] = asyncio.get_running_loop().time()
        while operation := self.operations.next(self.job.status):
            task = asyncio.create_task(self._do(operation))
            self._doing.add(task)
            task.add_done_callback(self._doing.discard)
        self._change()
        return asked

    def _change(self) -> None:
        """Wake all waiting clients."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _do(self, operation: Operation) -> None:
        """Carry out an operation other than a stop."""
        work = self._save if operation.kind == "savepoint" else self._rescale
        await self._guarded(operation, work(operation))
        self._begin(operation)

    async def _guarded(self, operation: Operation, work: Coroutine[object, object, None]) -> None:
        """Do the work; an exception fails the operation."""
        try:
            await work
        except (Refused, RefusedSnapshot) as error:
            self._fail(operation, Trouble("refused", error.message, error.hint))
        except SnapshotError as error:
            self._fail(operation, Trouble("failed", error.message, error.hint))
        except (asyncio.CancelledError, GivenUp) as error:
            self._fail(operation, AT_ONCE)
            if isinstance(error, asyncio.CancelledError):
                raise
        except Exception as error:
            self.failed(error)
            said = f"{type(error).__name__}: {error}"
            self._fail(operation, Trouble("defect", said, "a bug in headrace: please report it"))

    async def _save(self, operation: Operation) -> None:
        self._say(operation, "taking a checkpoint")
        try:
            number = await self.job.checkpoint()
        except Refused:
            if self.job.status not in ("stopping", "draining", "over"):
                raise
            self.operations.again(operation)
            return
        try:
            self._done(operation, **await self._written(operation, number))
        finally:
            self.job.release(number)

    async def _written(self, operation: Operation, number: int) -> dict[str, object]:
        """Make a savepoint of a checkpoint; return its result."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        self._say(operation, f"writing a savepoint from checkpoint {number}")
        path = await self.saving.save(number, operation.to, partial(self._say, operation))
        self.tell(Savepointed(number, path))
        return {"path": path, "checkpoint": number, "seconds": round(loop.time() - begun, 3)}

    async def _rescale(self, operation: Operation) -> None:
        plans, plan = self._plans.pop(operation.id)
        stood_still_s, checkpoint = 0.0, None
        if changes(self.job.plan, plan):
            self._say(operation, "taking a checkpoint, then restarting from it")
            done = await self.job.rescale(plan)
            stood_still_s, checkpoint = done.stood_still_s, done.checkpoint
            self.tell(Rescaled(operation.parallelism, stood_still_s))
        self.plans = plans
        self._done(
            operation,
            stood_still_s=round(stood_still_s, 3),
            checkpoint=checkpoint,
            parallelism=dict(operation.parallelism),
        )

    def _say(self, operation: Operation, words: str, **numbers: float) -> None:
        if not operation.over:
            self.operations.say(operation, words, **numbers)

    def _done(self, operation: Operation, **result: object) -> None:
        self.operations.done(operation, **result)
        self._change()

    def _fail(self, operation: Operation, trouble: Trouble) -> None:
        self.operations.fail(operation, trouble)
        self.tell(NotDone(operation.kind, trouble.message))
        self._change()

    # End of the job

    async def over(self, _: Job, outcome: Outcome) -> None:
        """Finish the open operations of a job that has ended, while its home is still locked."""
        if self._doing:
            # Operations that waited for the job have failed; checkpoints being exported are pinned.
            await asyncio.wait(self._doing)
        last = self.operations.last(drained=outcome.drained)
        why = DRAINED if outcome.drained else ENDED
        if failure := outcome.failure:
            why = Trouble("failed", f"the job has failed: {failure.message}", failure.hint)
        else:
            for operation in last:
                await self._guarded(operation, self._save_last(operation, outcome))
            for operation in self.operations.open():
                if operation.kind == "stop":
                    self._done(operation, **_ended(operation, outcome))
        await self._abandon(why)
        await self._until_told()

    async def _save_last(self, operation: Operation, outcome: Outcome) -> None:
        """Make a savepoint of the job's last checkpoint."""
        if outcome.checkpoint is None:
            self._fail(operation, NOTHING_LEFT)
        else:
            said = await self._written(operation, outcome.checkpoint)
            self._done(operation, **(_ended(operation, outcome) | said))

    async def _abandon(self, why: Trouble) -> None:
        """Cancel and fail all open operations."""
        self.saving.given_up = True
        for task in (doing := list(self._doing)):
            task.cancel()
        await asyncio.gather(*doing, return_exceptions=True)
        for operation in self.operations.open():
            self._fail(operation, why)

    async def _until_told(self) -> None:
        """Wait for clients that have just polled: they will poll once more."""
        loop = asyncio.get_running_loop()
        since = loop.time() - GRACE_S
        known = self.operations.known.values()
        try:
            async with asyncio.timeout(GRACE_S):
                while any(not one.told and self._heard.get(one.id, since) > since for one in known):
                    await self._changed.wait()
        except TimeoutError:
            pass


def _ended(operation: Operation, outcome: Outcome) -> dict[str, object]:
    """Return the result of a stop."""
    if operation.kind != "stop":
        return {}
    return {"checkpoint": outcome.checkpoint, "drained": outcome.drained, "path": None}
