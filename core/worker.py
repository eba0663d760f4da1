"""The worker: starts the subtasks of one process, delivers messages to them, and ends them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from headrace.core.assembly import Assembly, Subtask
from headrace.core.bench import Bench, until_done
from headrace.core.contracts import ConnectorError
from headrace.core.ends import Ends
from headrace.core.intake import Intake
from headrace.core.messages import (
    Abort,
    Assign,
    Cancel,
    Cancelled,
    Commit,
    Committed,
    Deploy,
    Failed,
    Finished,
    Halt,
    Hold,
    Stop,
    SubtaskId,
    ToCoordinator,
    ToWorker,
    Trigger,
)
from headrace.core.telling import failure

COMMITS_S = 2.0
"""The time to wait at the end for commits in progress."""
ABORT_S = 10.0
"""The time to wait for an abort: prepared output is not visible in any case."""


class Worker:
    """A worker, which runs all subtasks. `send` sends its messages to the coordinator."""

    def __init__(
        self, assembly: Assembly, ends: Ends, bench: Bench, send: Callable[[ToCoordinator], None]
    ) -> None:
        self._subtask_builder = assembly
        self._connectors = ends
        self._executor = bench
        self._send = send
        self._tasks: dict[asyncio.Task[None], SubtaskId] = {}
        self._source_tasks: dict[SubtaskId, Intake] = {}
        self._waiting_commits: dict[str, deque[Commit]] = {}
        self._commit_tasks: dict[str, asyncio.Task[None]] = {}
        """The commits that wait, by sink, and the tasks that execute them."""
        self.subtasks: dict[SubtaskId, Subtask] = {}

    async def receive(self, message: ToWorker) -> None:
        """Execute a command of the coordinator."""
        match message:
            case Deploy():
                await self._deploy(message)
            case Assign(subtask, splits, last):
                self._source_tasks[subtask].assign(splits, last=last)
            case Hold(source, until_us):
                for subtask_id, intake in self._source_tasks.items():
                    if self.subtasks[subtask_id].task.parts[0] == source:
                        intake.hold(until_us)
            case Trigger(number):
                for intake in self._source_tasks.values():
                    intake.trigger(number)
            case Halt():
                for intake in self._source_tasks.values():
                    intake.halt()
            case Stop(drains):
                for each in self.subtasks.values():
                    each.keeps_end = drains
                for intake in self._source_tasks.values():
                    intake.stop()
            case Commit(subtask, _):
                self._commit(self._sink_of(subtask), message)
            case Abort(subtask, handle):
                # Output that cannot be removed now is removed before the next attempt writes.
                with suppress(ConnectorError, TimeoutError):
                    async with asyncio.timeout(ABORT_S):
                        await self._connectors.sinks[self._sink_of(subtask)].abort(handle)
            case Cancel():
                await self.cancel()
                self._send(Cancelled())

    async def _deploy(self, deploy: Deploy) -> None:
        assemble = partial(self._subtask_builder.subtasks, self._send, deploy.restored)
        for subtask in await self._executor.blocking(assemble):
            self.subtasks[subtask.id] = subtask
            if subtask.intake is not None:
                self._source_tasks[subtask.id] = subtask.intake
            self._tasks[asyncio.create_task(self._live(subtask))] = subtask.id

    async def _live(self, subtask: Subtask) -> None:
        try:
            snapshot = await subtask.run()
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # also a panic of Polars, which is no Exception
            self._send(Failed(subtask.id, failure(error, *subtask.task.parts)))
        else:
            self._send(Finished(subtask.id, snapshot))
        finally:
            # A failed subtask is cancelled as well once its failure is known: close it first.
            await until_done(asyncio.create_task(subtask.close()))

    def _commit(self, sink: str, commit: Commit) -> None:
        """Commit output after the earlier commits of the same sink."""
        self._waiting_commits.setdefault(sink, deque()).append(commit)
        if sink not in self._commit_tasks:
            self._commit_tasks[sink] = asyncio.create_task(self._commit_all(sink))

    async def _commit_all(self, sink: str) -> None:
        commits = self._waiting_commits[sink]
        try:
            while commits:
                await self._committed(sink, commits.popleft())
        finally:
            del self._commit_tasks[sink]

    async def _committed(self, sink: str, commit: Commit) -> None:
        try:
            await self._connectors.sinks[sink].commit(commit.handle)
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._send(Failed(commit.subtask, failure(error, sink)))
        else:
            self._send(Committed(commit.subtask))

    def _sink_of(self, subtask: SubtaskId) -> str:
        return self.subtasks[subtask].task.parts[-1]

    async def cancel(self) -> None:
        """End every subtask, whatever it is doing, and wait until none runs any more.

        Output named by a checkpoint is committed if that can be done soon: after a commit that has
        failed for good, there may be no later attempt to commit the others in time.
        """
        if self._commit_tasks:
            await asyncio.wait(self._commit_tasks.values(), timeout=COMMITS_S)
        tasks = [*self._tasks, *self._commit_tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
